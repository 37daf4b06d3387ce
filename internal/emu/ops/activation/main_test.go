package activation

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Activation, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	const cut = "integers get the integer part of the result"
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnSelu accepts": cut, "aclnnInplaceSelu accepts": cut, "aclnnSeluBackward accepts": cut, "aclnnHardsigmoid accepts": cut,
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
