package attention

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Attention, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	bits := "a uint64 scale holds the bits of a float32"
	whole := "the emulator computes prefixes without quantised tensors only"
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnQuantLightningIndexerV2 refuses queryDequantScale as float32":         "its page gives float32 to floats of eight bits, which the Ascend950 alone has",
		"aclnnQuantLightningIndexerV2 refuses keyDequantScale as float32":           "its page gives float32 to floats of eight bits, which the Ascend950 alone has",
		"aclnnFusedInferAttentionScoreV4 refuses keySharedPrefixOptional as int8":   whole,
		"aclnnFusedInferAttentionScoreV4 refuses valueSharedPrefixOptional as int8": whole,
		"aclnnFusedInferAttentionScoreV4 refuses learnableSinkOptional as float16":  "the tiling of the Atlas A2 takes bfloat16 alone",
		"aclnnFusedInferAttentionScoreV3 accepts deqScale":                          bits,
		"aclnnPromptFlashAttentionV3 accepts deqScale":                              bits,
		"aclnnDequantRopeQuantKvcache refuses":                                      "CANN's definition of the operator has float16, bfloat16 and int32",
		"aclnnIncreFlashAttentionV4 refuses antiquant":                              "numbers of a channel have the type of the query, and this version has no mode of other ones",
		"aclnnMlaPreprocess refuses":                                                "CANN implements int8 weights alone, as the page says of quantMode",
		"aclnnMlaPreprocessV2 refuses":                                              "CANN implements int8 weights alone, as the page says of quantMode",
		"aclnnMlaProlog refuses":                                                    "the page's own table of cases has bfloat16 in each, and there is no output for the scales of int8",
		"aclnnNsaSelectedAttentionGrad refuses":                                     "CANN's definition of the operator has gradients of float16 and bfloat16 only",
		"aclnnDequantRopeQuantKvcache accepts biasOptional":                         "an integer is added before the scale, another number after it",
		"aclnnDequantRopeQuantKvcache accepts x":                                    "only integers are multiplied by the scale",
		"aclnnMlaProlog accepts":                                                    "only integers are multiplied by the scale",
		"aclnnMlaPrologV2WeightNz accepts":                                          "only integers are multiplied by the scale",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
