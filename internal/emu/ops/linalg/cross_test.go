package linalg

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestCross(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8} {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct {
				a, b, out []int64
				dim       int
			}{
				{[]int64{3}, []int64{3}, []int64{3}, 0}, {[]int64{2, 3, 5}, []int64{2, 3, 5}, []int64{2, 3, 5}, 1}, {[]int64{4, 3}, []int64{1, 3}, []int64{4, 3}, -1},
				{[]int64{3, 1}, []int64{3, 7}, []int64{3, 7}, 0}, {[]int64{0, 3}, []int64{0, 3}, []int64{0, 3}, 1},
			} {
				what := fmt.Sprintf("%v %v %+v", d, l, s)
				v := []float64{1, 2, 4, 3, 0, 5, 2, 1, 6, 3, 3, 1, 2}
				a, b, out := optest.TensorIn(t, d, l, s.a, v...), optest.TensorIn(t, d, l, s.b, append(v[3:], v[:3]...)...), optest.TensorIn(t, d, l, s.out)
				optest.Run(t, "LinalgCross", optest.Args{"self": a, "other": b, "dim": s.dim, "out": out})
				x, y := broadcastValues(optest.Values(a), s.a, s.out), broadcastValues(optest.Values(b), s.b, s.out)
				axis := (s.dim + len(s.out)) % len(s.out)
				step := optest.Elements(s.out[axis+1:])
				var want []float64
				for i := range int64(len(x)) {
					k := i / step % 3
					next, last := i+((k+1)%3-k)*step, i+((k+2)%3-k)*step
					p := x[next]*y[last] - x[last]*y[next]
					if d == dtype.Uint8 {
						p = float64(uint8(int(p)))
					}
					want = append(want, p)
				}
				optest.CloseTo(t, what, want, optest.Values(out), max(optest.ResultLimit(d), 1e-12))
			}
		}
	}
	f := dtype.Float32
	x := optest.Tensor(t, f, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	optest.Run(t, "LinalgCross", optest.Args{"self": x, "other": optest.Tensor(t, f, []int64{2, 3}, 0, 1, 0), "dim": 1, "out": x})
	optest.CloseTo(t, "in place", []float64{-3, 0, 1, -6, 0, 4}, optest.Values(x), 1e-6)
	optest.Refused(t, op.InvalidParam, "LinalgCross", optest.Args{"self": x, "other": x, "dim": 0, "out": x}, "must have 3 elements")
	optest.Refused(t, op.InvalidParam, "LinalgCross", optest.Args{"self": x, "other": x, "dim": 2, "out": x}, "out of range")
	optest.Refused(t, op.InvalidParam, "LinalgCross", optest.Args{"self": x, "other": x, "dim": 1, "out": optest.Tensor(t, f, []int64{3})}, "broadcast")
	optest.Refused(t, op.NullPointer, "LinalgCross", optest.Args{"self": x, "dim": 1, "out": x}, "other is null")
}
