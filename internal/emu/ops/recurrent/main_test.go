package recurrent

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Recurrent, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnChunkGatedDeltaRule refuses": "states of float32 need an Ascend950",
		"aclnnRecurrentKda has no":         "its states are too large for the survey; tests compare bfloat16 and float32 ones with a definition",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
