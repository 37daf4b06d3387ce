package matmul

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.MatMul, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	bits := "a 64-bit integer holds the bits of a float32, and not its value"
	late := "an integer is added before the scale, another number after it"
	asInt32 := "CANN's source takes int4 as int32 alone, which holds eight"
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnFFN accepts deqScale1":                             bits,
		"aclnnFFNV2 accepts deqScale1":                           bits,
		"aclnnGroupedMatmul accepts biasOptional":                late,
		"aclnnGroupedMatmulV2 accepts biasOptional":              late,
		"aclnnGroupedMatmulV5 accepts biasOptional":              late,
		"aclnnGroupedMatmul refuses y as float32":                "no combination of types that its page lists has it",
		"aclnnGroupedMatmulV5 refuses x as int16":                "no combination of types that its page lists has it",
		"aclnnGroupedMatmulV5 refuses weight as int16":           "no combination of types that its page lists has it",
		"aclnnGroupedMatmulFinalizeRouting refuses w as int4":    asInt32,
		"aclnnGroupedMatmulFinalizeRoutingV2 refuses x2 as int4": asInt32,
		"aclnnGroupedMatmulFinalizeRoutingV3 refuses x2 as int4": asInt32,
		"aclnnGroupedMatmulWeightNz refuses weight as float32":   "by its page the Ascend950 alone has it",
		"aclnnGroupedMatmulWeightNz refuses out as float32":      "by its page the Ascend950 alone has it",
		"aclnnWeightQuantBatchMatmul refuses":                    "aclnn_weight_quant_batch_matmul.cpp gives float16 alone",
		"aclnnQuantMatmulV5 refuses out as float32":              "the page's table of the Atlas A2 gives no float32, which is for the 8-bit floats of the Ascend950",
		"aclnnQuantMatmulV5 accepts x2Scale":                     bits,
		"aclnnQuantMatmulV5 accepts bias":                        late,
		"aclnnQuantMatmulV5 accepts out":                         "an integer result is not scaled",
		"aclnnWeightQuantBatchMatmulV2 accepts antiquantScale":   bits,
		"aclnnWeightQuantBatchMatmulV3 accepts antiquantScale":   bits,
		"aclnnFusedQuantMatmul accepts biasOptional":             late,
		"aclnnFusedQuantMatmul accepts x2Scale":                  bits,
		"aclnnFusedQuantMatmulWeightNz accepts biasOptional":     late,
		"aclnnFusedQuantMatmulWeightNz accepts x2Scale":          bits,
		"aclnnQuantMatmulV2 accepts deqScale":                    bits,
		"aclnnQuantMatmulV4 accepts scale":                       bits,
		"aclnnQuantMatmulWeightNz accepts x2Scale":               bits,
		"aclnnQuantMatmulV2 accepts out as int32":                "an integer result is not scaled",
		"aclnnQuantMatmulWeightNz accepts bias":                  late,
		"aclnnQuantMatmulWeightNz accepts out":                   "an integer result is not scaled",
		"aclnnTransposeQuantBatchMatMul has no":                  "only the Ascend950 has it",
		"aclnnTransposeQuantBatchMatMulWeightNz has no":          "only the Ascend950 has it",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
