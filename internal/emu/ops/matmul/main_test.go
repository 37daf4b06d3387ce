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
	missing := "the emulator does not compute it yet"
	optest.VerifyElementTypes(t, map[string]string{
		"aclnnFFN refuses":                                    missing,
		"aclnnFFNV2 refuses":                                  missing,
		"aclnnFFNV3 refuses":                                  missing,
		"aclnnGroupedMatmulSwigluQuant refuses":               missing,
		"aclnnGroupedMatmulSwigluQuantWeightNZ refuses":       missing,
		"aclnnGroupedMatmulV5 refuses":                        missing,
		"aclnnGroupedMatmulWeightNz refuses":                  missing,
		"aclnnQuantMatmulV5 refuses":                          missing,
		"aclnnWeightQuantBatchMatmul refuses":                 missing,
		"aclnnWeightQuantBatchMatmulV2 refuses":               missing,
		"aclnnWeightQuantBatchMatmulV3 refuses":               missing,
		"aclnnGroupedMatmulFinalizeRouting refuses":           missing,
		"aclnnGroupedMatmulFinalizeRoutingWeightNz refuses":   missing,
		"aclnnGroupedMatmulFinalizeRoutingWeightNzV2 refuses": missing,
		"aclnnGroupedMatmul refuses":                          missing,
		"aclnnFusedQuantMatmulWeightNz refuses":               missing,
		"aclnnQuantMatmulWeightNz refuses":                    missing,
		"aclnnFusedQuantMatmul accepts biasOptional":          "an integer is added before the scale, another number after it",
		"aclnnFusedQuantMatmul accepts x2Scale":               "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnFusedQuantMatmulWeightNz accepts biasOptional":  "an integer is added before the scale, another number after it",
		"aclnnFusedQuantMatmulWeightNz accepts x2Scale":       "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulV2 accepts deqScale":                 "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulV4 accepts scale":                    "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulWeightNz accepts x2Scale":            "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulV2 accepts out as int32":             "an integer result is not scaled",
		"aclnnQuantMatmulWeightNz accepts out as int32":       "an integer result is not scaled",
		"aclnnTransposeQuantBatchMatMul has no":               "only the Ascend950 has it",
		"aclnnTransposeQuantBatchMatMulWeightNz has no":       "only the Ascend950 has it",
	})
}
