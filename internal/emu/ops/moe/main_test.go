package moe

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.MoE, Table) }

//go:generate go test -run ^Test(ElementTypes|SameBits)$ . -update

// Phase two computes right values with every element type that phase one accepts.
func TestElementTypes(t *testing.T) {
	optest.SurveyElementTypes(t, map[string]string{
		"aclnnMoeInitRoutingQuantV2 accepts expandedXOut": "int4 has other scales than int8",
		"aclnnMoeInitRoutingV3 refuses":                   "int4 needs quantMode 13, which only the Ascend950 has",
		"aclnnDistributeBarrier has no":                   "it waits for other ranks and uses no element of its tensor",
		"aclnnMoeDistributeBufferReset has no":            "the emulator keeps no buffer between calls, so that there is nothing to reset",
	})
}

// The bits of results depend neither on the machine nor on the kernel variant.
func TestSameBits(t *testing.T) { optest.SameBits(t) }
