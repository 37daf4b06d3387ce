package communication

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Communication, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	pointers := "a record cannot have the addresses of its context; tests compare "
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnAttentionWorkerCombine has no":                                 pointers + "float16 and bfloat16 with sums in float64",
		"aclnnFfnWorkerBatching has no":                                      pointers + "float16, bfloat16 and int8 with a search",
		"aclnnInplaceAttentionWorkerScheduler has no":                        pointers + "all that it writes",
		"aclnnInplaceFfnWorkerScheduler has no":                              pointers + "all that it writes",
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
		"aclnnQuantMatmulAllReduceV4 accepts biasOptional as float32":        "an integer is added before the scale, another number after it",
		"aclnnQuantMatmulAllReduceV4 accepts x2Scale as":                     "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulAllReduceV4 refuses output as float32":              "only the Ascend950 has results of float32",
		"aclnnQuantMatmulAllReduceV5 accepts biasOptional as float32":        "an integer is added before the scale, another number after it",
		"aclnnQuantMatmulAllReduceV5 accepts x2Scale as":                     "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnQuantMatmulAllReduceV5 refuses output as float32":              "only the Ascend950 has results of float32",
		"aclnnAlltoAllMatmul refuses biasOptional as bfloat16":               "only the Ascend950 has it; on others it is float32 with bfloat16",
		"aclnnAlltoAllMatmulV2 refuses biasOptional as bfloat16":             "only the Ascend950 has it; on others it is float32 with bfloat16",
		"aclnnMatmulAlltoAll refuses biasOptional as bfloat16":               "only the Ascend950 has it; on others it is float32 with bfloat16",
		"aclnnMatmulAlltoAllV2 refuses biasOptional as bfloat16":             "only the Ascend950 has it; on others it is float32 with bfloat16",
		"aclnnAlltoAllQuantMatmul refuses output as float32":                 "only the Ascend950 has results of float32",
		"aclnnAlltoAllQuantMatmul accepts x2 as":                             "rows are quantised to as many bits as x2 has",
		"aclnnAlltoAllQuantMatmulV2 refuses output as float32":               "only the Ascend950 has results of float32",
		"aclnnAlltoAllQuantMatmulV2 accepts x2 as":                           "rows are quantised to as many bits as x2 has",
		"aclnnQuantMatmulAlltoAll refuses output as float32":                 "only the Ascend950 has results of float32",
		"aclnnQuantMatmulAlltoAllV2 refuses output as float32":               "only the Ascend950 has results of float32",
		"aclnnMatmulReduceScatterV2 accepts x2Scale as":                      "a 64-bit integer holds the bits of a float32, and not its value",
		"aclnnMatmulReduceScatterV2 refuses x1Scale as":                      "the page lists types for it that none of its chips has",
		"aclnnMatmulReduceScatterV2 refuses x2Scale as":                      "the page lists types for it that none of its chips has",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
