package matmul

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestQuantMatmulByNumber(t *testing.T) {
	const b, m, k, n = 2, 3, 5, 4
	const scale = 0.0123 // not representable in the 19 bits that the device takes
	cut := float64(math.Float32frombits(math.Float32bits(scale) &^ (1<<13 - 1)))
	whole := func(seed, size int) []float64 {
		v := make([]float64, size)
		for i := range v {
			v[i] = float64((i*37+seed*11)%255 - 127)
		}
		return v
	}
	terms := []float64{1000, -5, 0, 7}
	for _, l := range kerneltest.Layouts {
		for _, lead := range [][]int64{{}, {1}, {b}} {
			batch := int(optest.Elements(lead))
			shape := func(rows, columns int64) []int64 { return append(append([]int64{}, lead...), rows, columns) }
			x1, x2 := whole(1, batch*m*k), whole(2, batch*k*n)
			for _, bias := range []*op.Tensor{nil, optest.Tensor(t, dtype.Int32, []int64{n}, terms...)} {
				out := optest.TensorIn(t, dtype.Float16, l, shape(m, n))
				optest.Run(t, "QuantMatmul", optest.Args{
					"x1": optest.TensorIn(t, dtype.Int8, l, shape(m, k), x1...), "x2": optest.TensorIn(t, dtype.Int8, l, shape(k, n), x2...),
					"bias": bias, "deqScale": scale, "out": out,
				})
				var want []float64
				for i := range batch {
					for at, sum := range optest.Times(x1[i*m*k:][:m*k], x2[i*k*n:][:k*n], k) {
						if bias != nil {
							sum += terms[at%n]
						}
						want = append(want, kerneltest.Round(dtype.Float16, kerneltest.Round(dtype.Float32, sum*cut)))
					}
				}
				assert.Equal(t, want, optest.Values(out), "%v %v", l, lead)
			}
		}
	}
	i8, half := optest.Tensor(t, dtype.Int8, []int64{2, 2}, 1), optest.Tensor(t, dtype.Float16, []int64{2, 2})
	a := optest.Args{"x1": i8, "x2": i8, "deqScale": 1.0, "out": half}
	for _, c := range []struct {
		code   int32
		change optest.Args
		text   string
	}{
		{op.NoStep, optest.Args{"x2": nil}, "x2 is null"}, {op.InvalidParam, optest.Args{"out": i8}, "dtype"},
		{op.InvalidParam, optest.Args{"x1": half}, "dtype"}, {op.InvalidParam, optest.Args{"bias": half}, "dtype"},
		{op.InvalidParam, optest.Args{"bias": optest.Tensor(t, dtype.Int32, []int64{3}, 1)}, "one for each column"},
		{op.InvalidParam, optest.Args{"x2": optest.Tensor(t, dtype.Int8, []int64{1, 2, 2}, 1)}, "same batch"},
		{op.InvalidParam, optest.Args{"x2": optest.Tensor(t, dtype.Int8, []int64{3, 2}, 1)}, "cannot be multiplied"},
	} {
		optest.Refused(t, c.code, "QuantMatmul", a.With(c.change), c.text)
	}
}
