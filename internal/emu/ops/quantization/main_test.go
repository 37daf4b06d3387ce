package quantization

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Quantization, Table) }

//go:generate go test -run ^TestElementTypes$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	optest.VerifyElementTypes(t, map[string]string{
		"aclnnDequantBias accepts biasOptional":          "an integer is added before the scale, another number after it",
		"aclnnDequantSwigluQuant accepts biasOptional":   "an integer is added before the scale, another number after it",
		"aclnnDequantSwigluQuantV2 accepts biasOptional": "an integer is added before the scale, another number after it",
		"aclnnDequantSituQuant accepts x":                "only integers are multiplied by the scale",
		"aclnnGroupedDynamicMxQuant has no":              "only the Ascend950 has it",
		"aclnnGroupedDynamicMxQuantV2 has no":            "only the Ascend950 has it",
	})
}
