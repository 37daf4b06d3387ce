package nn

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/abi/soc"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/dump"
)

// Library is the emulated libnnopbase and libopapi of one runtime.
type Library struct {
	// Collectives is HCCL for the fused operators. If it is not set, these operators find no group.
	Collectives Collectives

	// Dumps receives the tensors of calls for dumps. If it is not set, there are no dumps.
	Dumps *dump.Runtime

	PlainCube bool // do not round products of float32, whatever cubeMathType says

	Older bool // act as CANN 8.1, whose kernels take fewer combinations of dtypes

	rt    *rt.Runtime
	links op.Links
	cache *cache
	chip  acceptance.Chip
	cores op.Cores
}

// New returns the library that uses the handles, streams and memory of a runtime.
func New(r *rt.Runtime) *Library {
	chip, _ := soc.Named(r.SoC()) // without a chip there are no devices
	return &Library{rt: r, cache: newCache(), chip: acceptance.ChipOf(r.SoC()), cores: op.Cores{Cube: chip.Cube, Vector: chip.Vector}, PlainCube: r.PlainCube()}
}

// Operators returns the number of operators in the table. Their ids are 0 to Operators()-1.
func Operators() int { return len(op.Operators) }

func (l *Library) aclnnInit(uintptr) error { return nil }
func (l *Library) aclnnFinalize() error    { return nil }

// answer records err as the thread's error text and returns its code.
func answer(t *rt.Thread, err error) rt.Code {
	if err == nil {
		return 0
	}
	code := int32(abi.ACLNN_ERR_INNER)
	text := err.Error()
	var e *op.Error
	if errors.As(err, &e) {
		code, text = e.Code, e.Text
	}
	id := "EZ9999"
	switch {
	case e != nil && e.ID != "":
		id = e.ID
	case code == op.NullPointer || code == op.InvalidParam:
		id = "EZ1001"
	}
	return t.Fail(code, "%s: %s", id, text)
}

func null(function, argument string) error {
	code, _ := abi.NullCode(function, argument)
	return &op.Error{Code: cmp.Or(int32(code), op.NullPointer), Text: fmt.Sprintf("%s: %s is null", function, argument)}
}

func stale(what string, h rt.Handle) error {
	return &op.Error{Code: op.InvalidParam, Text: fmt.Sprintf("%#x is not a live %s; was it destroyed?", h, what)}
}
