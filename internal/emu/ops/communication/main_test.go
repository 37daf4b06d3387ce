package communication

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Communication, Table) }

//go:generate go test -run ^TestElementTypes$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnInplaceQuantMatmulAllReduceAddRmsNorm accepts bias as float32": "an integer is added before the scale, another number after it",
		"aclnnInplaceQuantMatmulAllReduceAddRmsNorm accepts dequantScale as": "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulAllReduceAddRmsNorm accepts bias as float32":        "an integer is added before the scale, another number after it",
		"aclnnQuantMatmulAllReduceAddRmsNorm accepts dequantScale as":        "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulAllReduce accepts bias as float32":                  "an integer is added before the scale, another number after it",
		"aclnnQuantMatmulAllReduce accepts dequantScale as":                  "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulAllReduceV2 accepts biasOptional as float32":        "an integer is added before the scale, another number after it",
		"aclnnQuantMatmulAllReduceV2 accepts dequantScale as":                "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulAllReduceV3 accepts biasOptional as float32":        "an integer is added before the scale, another number after it",
		"aclnnQuantMatmulAllReduceV3 accepts dequantScale as":                "a 64-bit integer holds the bits of a float32, and not its value",
	})
}
