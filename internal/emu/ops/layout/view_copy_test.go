package layout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// description returns the arguments of a view, with its numbers stored as type d.
func description(t *testing.T, d dtype.Type, name string, sizes, strides []float64, offset float64) optest.Args {
	n := []int64{int64(len(sizes))}
	return optest.Args{
		name + "_size": optest.Tensor(t, d, n, sizes...), name + "_stride": optest.Tensor(t, d, n, strides...),
		name + "_storage_offset": optest.Tensor(t, d, []int64{1}, offset),
	}
}

func TestViewCopy(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Uint8, dtype.Int16, dtype.Uint16, dtype.Int32, dtype.Uint32, dtype.Int64} {
		for _, numbers := range op.IndexTypes {
			// The transpose of a 2 by 3 matrix is written to every second position, starting
			// with the second.
			src := optest.Tensor(t, d, []int64{7}, 99, 1, 2, 3, 4, 5, 6)
			a := optest.Args{"src": src}.
				With(description(t, numbers, "src", []float64{3, 2}, []float64{1, 3}, 1)).
				With(description(t, numbers, "dst", []float64{3, 2}, []float64{4, 2}, 1))
			want := []float64{8, 1, 8, 4, 8, 2, 8, 5, 8, 3, 8, 6}
			dst, out := optest.Tensor(t, d, []int64{3, 4}, 8), optest.Tensor(t, d, []int64{3, 4})
			optest.Run(t, "ViewCopy", a.With(optest.Args{"dst": dst, "dst_out": out}))
			assert.Equal(t, want, optest.Values(out), "%v %v", d, numbers)
			assert.Equal(t, 8., optest.Values(dst)[1], "another tensor stays as it is")
			optest.Run(t, "ViewCopy", a.With(optest.Args{"dst": dst, "dst_out": dst}))
			assert.Equal(t, want, optest.Values(dst), "%v %v in place", d, numbers)
		}
	}
}

func TestViewCopyRefuses(t *testing.T) {
	f, numbers := dtype.Float32, dtype.Int64
	x, y := optest.Tensor(t, f, []int64{6}, 1, 2, 3, 4, 5, 6), optest.Tensor(t, f, []int64{6}, 0)
	a := optest.Args{"dst": y, "src": x, "dst_out": y}.
		With(description(t, numbers, "src", []float64{2, 3}, []float64{3, 1}, 0)).
		With(description(t, numbers, "dst", []float64{2, 3}, []float64{3, 1}, 0))
	for name := range a {
		optest.Refused(t, op.NullPointer, "ViewCopy", a.With(optest.Args{name: nil}), name+" is null")
	}
	for text, set := range map[string]optest.Args{
		"dtypes differ: dst float32[6]ND and src": {"src": optest.Tensor(t, dtype.Float16, []int64{6}, 1)},
		"dtypes differ: dst_size":                 {"src_stride": optest.Tensor(t, dtype.Int32, []int64{2}, 1)},
		"shapes differ":                           {"dst_out": optest.Tensor(t, f, []int64{2, 3}, 1)},
		"one for each of dst_size":                {"dst_stride": optest.Tensor(t, numbers, []int64{1}, 1)},
		"must have one element":                   {"src_storage_offset": optest.Tensor(t, numbers, []int64{2}, 1)},
		"describes 0 dimensions":                  {"dst_size": optest.Tensor(t, numbers, []int64{0})},
		"use one of":                              {"dst": optest.Tensor(t, dtype.Float64, []int64{6}, 1)},
	} {
		optest.Refused(t, op.InvalidParam, "ViewCopy", a.With(set), text)
	}
	for text, set := range map[string]optest.Args{
		"must be equal":    description(t, numbers, "src", []float64{3, 2}, []float64{2, 1}, 0),
		"must be positive": description(t, numbers, "src", []float64{2, 3}, []float64{0, 1}, 0),
		"offset 1 leave":   description(t, numbers, "dst", []float64{2, 3}, []float64{3, 1}, 1),
		"offset -1 leave":  description(t, numbers, "dst", []float64{2, 3}, []float64{3, 1}, -1),
		"leave src":        description(t, numbers, "src", []float64{2, 3}, []float64{1 << 62, 1}, 0),
	} {
		require.ErrorContains(t, optest.Execute(t, "ViewCopy", a.With(set)), text)
	}
	empty := optest.Tensor(t, f, []int64{0})
	optest.Run(t, "ViewCopy", a.With(optest.Args{"dst": empty, "dst_out": empty}))
}
