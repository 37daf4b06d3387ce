package minifloat

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
)

// Largest returns the largest finite number of a type of the package.
func Largest(d dtype.Type) float64 {
	p := formats[d].positive
	return p[len(p)-1]
}

// Quantize sets out, of a type of the package, to what q makes of x. HiFloat8 is rounded away from zero between two
// numbers, and the other types to even.
func Quantize(q gemm.Quantizer, out, x kernel.View) error {
	t, release := kernel.Temporary(x.Shape...)
	defer release()
	q.Round = elementwise.Identity
	if err := q.Quantize(t, x); err != nil {
		return err
	}
	values, err := Read(t)
	if err != nil {
		return err
	}
	round := Even
	if out.DType == dtype.HiFloat8 {
		round = Away
	}
	return Write(out, values, round)
}
