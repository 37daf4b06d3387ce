package layout

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// seen maps, for each kind of padding, a position k, which may lie outside, to an element of the
// row 0…n-1.
var seen = map[string]func(row []int64, k int) int64{
	"Reflection": func(row []int64, k int) int64 {
		mirrored := slices.Clone(row[1 : len(row)-1])
		slices.Reverse(mirrored)
		period := append(slices.Clone(row), mirrored...)
		return period[(k%len(period)+len(period))%len(period)]
	},
	"Replication": func(row []int64, k int) int64 {
		switch {
		case k < 0:
			return row[0]
		case k >= len(row):
			return row[len(row)-1]
		}
		return row[k]
	},
	"Circular": func(row []int64, k int) int64 { return row[(k+len(row))%len(row)] },
}

// paddedDefinition pads the last dimensions of x by definition.
func paddedDefinition(kind string, shape, padding []int64, x []float64) (out []int64, y []float64) {
	n := len(padding) / 2
	axis := len(shape) - n
	out = slices.Clone(shape)
	for i := range n {
		out[axis+i] += padding[2*(n-1-i)] + padding[2*(n-1-i)+1]
	}
	optest.Walk(out, func(at []int64) {
		from := slices.Clone(at)
		for i := range n {
			row := make([]int64, shape[axis+i])
			for k := range row {
				row[k] = int64(k)
			}
			from[axis+i] = seen[kind](row, int(at[axis+i]-padding[2*(n-1-i)]))
		}
		y = append(y, x[optest.Offset(shape, from)])
	})
	return out, y
}

var padCases = []struct{ shape, padding []int64 }{
	{[]int64{2, 5}, []int64{2, 1}}, {[]int64{2, 3, 4}, []int64{0, 3}}, {[]int64{2, 4, 5}, []int64{1, 2, 3, 0}},
	{[]int64{2, 3, 3, 4}, []int64{3, 3, 1, 2}}, {[]int64{1, 3, 4, 2}, []int64{1, 0, 2, 3, 1, 2}}, {[]int64{1, 2, 3, 2, 4}, []int64{2, 3, 1, 1, 2, 0}},
}

// circularTypes are the element types of CircularPad2d and CircularPad3d.
var circularTypes = append(slices.Clone(op.FloatTypes), dtype.Int8, dtype.Int32)

func TestPadding(t *testing.T) {
	for kind := range seen {
		for _, c := range padCases {
			n := len(c.padding) / 2
			name := fmt.Sprintf("%sPad%dd", kind, n)
			if op.Find(name) == nil {
				continue
			}
			define := optest.Linearised(func(x []float64) []float64 { _, y := paddedDefinition(kind, c.shape, c.padding, x); return y }, optest.Elements(c.shape))
			for _, l := range kerneltest.Layouts {
				for _, d := range append(slices.Clone(op.FloatTypes), dtype.Float64, dtype.Int8, dtype.Int32, dtype.Int64, dtype.Complex64) {
					if kind == "Circular" && !slices.Contains(circularTypes, d) {
						continue
					}
					x := optest.Filled(t, 1, d, l, c.shape)
					shape, want := paddedDefinition(kind, c.shape, c.padding, optest.Values(x))
					y := optest.TensorIn(t, d, l, shape)
					optest.Run(t, name, optest.Args{"self": x, "padding": c.padding, "out": y})
					assert.Equal(t, want, optest.Values(y), "%s %v %v %v", name, d, l, c)
					if !slices.Contains(op.RealTypes, d) || kind == "Circular" && !slices.Contains(op.FloatTypes, d) {
						continue
					}
					dy, dx := optest.Filled(t, 2, d, l, shape), optest.TensorIn(t, d, l, c.shape)
					optest.Run(t, name+"Backward", optest.Args{"gradOutput": dy, "self": x, "padding": c.padding, "gradInput": dx})
					optest.CloseTo(t, "dx of "+name, define.Gradient(optest.Values(dy)), optest.Values(dx), 4*optest.ResultLimit(d))
				}
			}
		}
	}
}

func TestPaddingKeepsSpecialValues(t *testing.T) {
	x, y := optest.Tensor(t, dtype.Float32, []int64{1, 3}, math.Inf(-1), math.NaN(), 2), optest.Tensor(t, dtype.Float32, []int64{1, 5})
	optest.Run(t, "ReplicationPad1d", optest.Args{"self": x, "padding": []int64{1, 1}, "out": y})
	v := optest.Values(y)
	assert.Equal(t, []float64{math.Inf(-1), math.Inf(-1), 2, 2}, []float64{v[0], v[1], v[3], v[4]})
	assert.True(t, math.IsNaN(v[2]))
}

func TestPaddingRefuses(t *testing.T) {
	x := optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1)
	for _, c := range []struct {
		name    string
		padding []int64
		out     []int64
		text    string
	}{
		{"ReflectionPad1d", []int64{3, 0}, []int64{2, 6}, "at most 2"},
		{"ReflectionPad1d", []int64{1}, []int64{2, 5}, "two numbers"},
		{"ReplicationPad1d", []int64{-1, 0}, []int64{2, 2}, "below 0"},
		{"ReplicationPad1d", []int64{1, 0}, []int64{2, 5}, "[2,4]"},
		{"ReplicationPad2d", []int64{1, 0, 1, 0}, []int64{2, 5}, "2 dimensions"},
	} {
		optest.Refused(t, op.InvalidParam, c.name, optest.Args{"self": x, "padding": c.padding, "out": optest.Tensor(t, dtype.Float32, c.out)}, c.text)
	}
	optest.Refused(t, op.NullPointer, "ReflectionPad1d", optest.Args{"padding": []int64{1, 1}, "out": x}, "self is null")
}
