package layout

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Layout, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnCast accepts self as complex": "a real type gets the real parts",
		"aclnnHansDecode has no":            "its arguments are codes of bits and no numbers; tests encode and decode float32, float16 and bfloat16",
		"aclnnHansEncode has no":            "its results are codes of bits and no numbers; tests encode and decode float32, float16 and bfloat16",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
