package comparison

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Comparison, Table) }

//go:generate go test -run ^TestElementTypes$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	const unequal = "no real part of the recorded call equals the scalar, so that imaginary parts do not matter; TestComplexEquality has others"
	optest.VerifyElementTypes(t, map[string]string{
		"aclnnEqScalar accepts self": unequal, "aclnnInplaceEqScalar accepts selfRef": unequal,
		"aclnnNeScalar accepts self": unequal, "aclnnInplaceNeScalar accepts selfRef": unequal,
	})
}
