package attention

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Attention, Table) }

//go:generate go test -run ^TestElementTypes$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	missing := "the emulator does not compute it yet"
	optest.VerifyElementTypes(t, map[string]string{
		"aclnnDequantRopeQuantKvcache refuses":              missing,
		"aclnnFusedInferAttentionScoreV2 refuses":           missing,
		"aclnnFusedInferAttentionScoreV3 refuses":           missing,
		"aclnnIncreFlashAttentionV2 refuses":                missing,
		"aclnnIncreFlashAttentionV3 refuses":                missing,
		"aclnnIncreFlashAttentionV4 refuses":                missing,
		"aclnnMlaProlog refuses":                            missing,
		"aclnnMlaPrologV2WeightNz refuses":                  missing,
		"aclnnMlaPrologV3WeightNz refuses":                  missing,
		"aclnnNsaSelectedAttentionGrad refuses":             missing,
		"aclnnPromptFlashAttentionV3 refuses":               missing,
		"aclnnDequantRopeQuantKvcache accepts biasOptional": "an integer is added before the scale, another number after it",
		"aclnnDequantRopeQuantKvcache accepts x":            "only integers are multiplied by the scale",
		"aclnnFusedInferAttentionScore has no":              "no call within CANN's limits is recorded yet",
		"aclnnFusedInferAttentionScoreV4 has no":            "no call within CANN's limits is recorded yet",
		"aclnnPromptFlashAttentionV2 has no":                "no call within CANN's limits is recorded yet",
		"aclnnMlaProlog accepts":                            "only integers are multiplied by the scale",
		"aclnnMlaPrologV2WeightNz accepts":                  "only integers are multiplied by the scale",
		"aclnnMlaPrologV3WeightNz accepts":                  "only integers are multiplied by the scale",
	})
}
