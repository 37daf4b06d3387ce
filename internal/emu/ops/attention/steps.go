package attention

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// steps computes one step of a kernel after the other, each with the rounding of its result. After an error the other steps do
// nothing.
type steps struct {
	held []func()
	err  error
}

// free frees the memory of the steps.
func (s *steps) free() {
	for _, release := range s.held {
		release()
	}
}

// temporary returns memory that free frees.
func (s *steps) temporary(d dtype.Type, shape ...int64) kernel.View {
	v, free := kernel.TemporaryOf(d, shape...)
	s.held = append(s.held, free)
	return v
}

// number returns a number as a matrix of one element of type d.
func (s *steps) number(d dtype.Type, n elementwise.Number) kernel.View {
	v := s.temporary(d, 1, 1)
	s.set(elementwise.Identity, v, elementwise.Const(n))
	return v
}

// set sets out to the operator of numbers in float32, rounded to the type of out.
func (s *steps) set(o elementwise.Op, out kernel.View, in ...elementwise.Input) {
	if s.err == nil {
		s.err = elementwise.Map(o, dtype.Float32, out, in, elementwise.Real(1))
	}
}

// less sets out to a - b.
func (s *steps) less(out, a, b kernel.View) {
	if s.err == nil {
		s.err = elementwise.Map(elementwise.Add, dtype.Float32, out, []elementwise.Input{elementwise.Of(a), elementwise.Of(b)}, elementwise.Real(-1))
	}
}

func (s *steps) reduce(how rowwise.Reduction, out, in kernel.View) {
	if s.err == nil {
		s.err = rowwise.Reduce(how, out, in, []int{1}, 0)
	}
}

// multiply sets out to the product of integers, times the scale.
func (s *steps) multiply(out, a, b, scale kernel.View) {
	if s.err == nil {
		s.err = gemm.QuantProduct{Out: out, A: a, B: b, Scale: scale}.Run()
	}
}
