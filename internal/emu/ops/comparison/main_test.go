package comparison

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Comparison, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	const unequal = "no real part of the recorded call equals the scalar, so that imaginary parts do not matter; TestComplexEquality has others"
	const whole = "no real part of the recorded call is 0, so that imaginary parts do not matter; TestComplexEquality has others"
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnLogicalAnd accepts self": whole, "aclnnLogicalAnd accepts other": whole, "aclnnLogicalXor accepts self": whole, "aclnnLogicalXor accepts other": whole,
		"aclnnInplaceLogicalAnd accepts selfRef": whole, "aclnnInplaceLogicalAnd accepts other": whole,
		"aclnnEqScalar accepts self": unequal, "aclnnInplaceEqScalar accepts selfRef": unequal,
		"aclnnNeScalar accepts self": unequal, "aclnnInplaceNeScalar accepts selfRef": unequal,
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
