package matmul

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.MatMul, Table) }

//go:generate go test -run ^TestElementTypes$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	optest.VerifyElementTypes(t, map[string]string{
		"aclnnFusedQuantMatmul accepts biasOptional":         "an integer is added before the scale, another number after it",
		"aclnnFusedQuantMatmul accepts x2Scale":              "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnFusedQuantMatmulWeightNz accepts biasOptional": "an integer is added before the scale, another number after it",
		"aclnnFusedQuantMatmulWeightNz accepts x2Scale":      "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulV2 accepts deqScale":                "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulV4 accepts scale":                   "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulWeightNz accepts x2Scale":           "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulV2 accepts out as int32":            "an integer result is not scaled",
		"aclnnQuantMatmulWeightNz accepts out as int32":      "an integer result is not scaled",
		"aclnnTransposeQuantBatchMatMul has no":              "only the Ascend950 has it",
		"aclnnTransposeQuantBatchMatMulWeightNz has no":      "only the Ascend950 has it",
	})
}
