package elementwise

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Elementwise, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnBitwiseNot accepts self":        "the complement of a bool is its negation",
		"aclnnMuls accepts self as complex":   "a real output has no imaginary part, and CANN casts to it",
		"aclnnReal accepts self as complex64": "it drops the imaginary part",
		"aclnnRoundDecimals accepts self":     "integers stay as they are",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
