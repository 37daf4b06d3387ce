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
	optest.VerifyElementTypes(t, map[string]string{
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
