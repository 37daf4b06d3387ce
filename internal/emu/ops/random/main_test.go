package random

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Random, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnInplaceRandomWithoutFromTo accepts":       "the range depends on the type",
		"aclnnInplaceRandomWithoutFromToTensor accepts": "the range depends on the type",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
