package quantization

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Quantization, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	largest := "the scale depends on the largest number of the type"
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnDynamicQuant accepts yOut":                       largest,
		"aclnnDynamicQuantV2 accepts yOut":                     largest,
		"aclnnDynamicQuantV3 accepts yOut":                     largest,
		"aclnnDynamicQuantV4 accepts yOut":                     largest,
		"aclnnDynamicBlockMxQuant accepts yOut":                largest,
		"aclnnDynamicMxQuant accepts yOut":                     largest,
		"aclnnDynamicMxQuantV2 accepts yOut":                   largest,
		"aclnnDynamicMxQuantV3 accepts yOut":                   largest,
		"aclnnDynamicMxQuantWithDualAxis accepts y1Out":        largest,
		"aclnnGroupedDynamicMxQuantWithDualAxis accepts y1Out": largest,
		"aclnnMxToBlockMxQuant accepts y":                      largest,
		"aclnnSwigluMxQuant accepts yOut":                      largest,
		"aclnnSwigluMxQuantWithDualAxis accepts y1Out":         largest,
		"aclnnGeluQuant accepts y":                             largest,
		"aclnnSwiGluQuantV2 accepts yOut":                      largest,
		"aclnnDequantBias accepts biasOptional":                "an integer is added before the scale, another number after it",
		"aclnnDequantSwigluQuant accepts biasOptional":         "an integer is added before the scale, another number after it",
		"aclnnDequantSwigluQuantV2 accepts biasOptional":       "an integer is added before the scale, another number after it",
		"aclnnDequantSituQuant accepts x":                      "only integers are multiplied by the scale",
		"aclnnGroupedDynamicMxQuant has no":                    "only the Ascend950 has it",
		"aclnnGroupedDynamicMxQuantV2 has no":                  "only the Ascend950 has it",
		"aclnnSwigluGroupQuant has no":                         "only the Ascend950 has it",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
