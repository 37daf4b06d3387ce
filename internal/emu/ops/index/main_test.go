package index

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Index, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	alike := "its tensors have one type, and CANN's source refuses all but float32"
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnInplaceScatterReduce refuses": alike,
		"aclnnScatterReduce refuses":        alike,
		"aclnnIndex accepts":                "a bool selects by mask, an integer by place",
		"aclnnIndexPutImpl accepts indices": "a bool selects by mask, an integer by place",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
