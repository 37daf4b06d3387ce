package attention

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// computed is the mode that the device computes for each value of the argument mode.
var computed = []rowwise.RotaryMode{rowwise.RotaryHalf, rowwise.RotaryInterleave, rowwise.RotaryHalf, rowwise.RotaryHalf}

// rotaryDefinition returns x·cos + partner(x)·sin for one head.
func rotaryDefinition(mode rowwise.RotaryMode, x, cos, sin []float64) (y []float64) {
	n := len(x)
	from, rotated := make([]float64, n), make([]float64, n)
	copy(from, x)
	pairs := func(a, b func(i int) int, count int) {
		for i := range count {
			rotated[a(i)], rotated[b(i)] = -from[b(i)], from[a(i)]
		}
	}
	offset := func(k, step int) func(int) int { return func(i int) int { return k + i*step } }
	switch mode {
	case rowwise.RotaryHalf:
		pairs(offset(0, 1), offset(n/2, 1), n/2)
	case rowwise.RotaryInterleave:
		pairs(offset(0, 2), offset(1, 2), n/2)
	case rowwise.RotaryQuarter:
		pairs(offset(0, 1), offset(n/4, 1), n/4)
		pairs(offset(n/2, 1), offset(3*n/4, 1), n/4)
	case rowwise.RotaryInterleaveHalf:
		for i := range n / 2 {
			from[i], from[n/2+i] = x[2*i], x[2*i+1]
		}
		pairs(offset(0, 1), offset(n/2, 1), n/2)
	}
	for i := range x {
		y = append(y, from[i]*cos[i]+rotated[i]*sin[i])
	}
	return y
}

func TestRotary(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range []struct{ x, table []int64 }{
				{[]int64{1, 1, 1, 4}, []int64{1, 1, 1, 4}}, {[]int64{2, 3, 5, 12}, []int64{1, 3, 1, 12}}, {[]int64{2, 3, 5, 12}, []int64{2, 3, 1, 12}},
				{[]int64{2, 3, 2, 68}, []int64{2, 1, 1, 68}}, {[]int64{3, 2, 8}, []int64{3, 1, 8}}, {[]int64{2, 3, 4, 64}, []int64{2, 3, 4, 64}},
				{[]int64{2, 0, 4, 64}, []int64{1, 0, 1, 64}},
			} {
				for mode := range rowwise.RotaryInterleaveHalf + 1 {
					if len(c.x) == 3 && computed[mode] == rowwise.RotaryHalf {
						continue // refused
					}
					what := fmt.Sprintf("mode %d of %v %v %v with %v", mode, d, l, c.x, c.table)
					x, cos, sin := optest.Filled(t, 1, d, l, c.x), optest.Filled(t, 2, d, l, c.table), optest.Filled(t, 3, d, l, c.table)
					y := optest.TensorIn(t, d, l, c.x)
					optest.Run(t, "RotaryPositionEmbedding", optest.Args{"x": x, "cos": cos, "sin": sin, "mode": int64(mode), "out": y})
					if x.Len() == 0 {
						continue
					}
					var want []float64
					wideCos, wideSin, n := optest.Repeated(t, cos, c.x), optest.Repeated(t, sin, c.x), int(x.Dim(-1))
					for lo := 0; lo < int(x.Len()); lo += n {
						want = append(want, rotaryDefinition(computed[mode], optest.Values(x)[lo:lo+n], wideCos[lo:lo+n], wideSin[lo:lo+n])...)
					}
					optest.CloseTo(t, what, want, optest.Values(y), optest.ResultLimit(d))
					if mode == rowwise.RotaryHalf {
						testInterleaveRope(t, x, cos, sin)
					}
					optest.Run(t, "RotaryPositionEmbedding", optest.Args{"x": x, "cos": cos, "sin": sin, "mode": int64(mode), "out": x})
					assert.Equal(t, optest.Values(y), optest.Values(x), "in place: %s", what)
				}
			}
		}
	}
}

// testInterleaveRope: InterleaveRope rotates pairs of neighbours, and writes the first elements of the
// pairs before the second ones.
func testInterleaveRope(t *testing.T, x, cos, sin *op.Tensor) {
	y := optest.TensorIn(t, x.DType, kerneltest.Contiguous, x.Shape)
	optest.Run(t, "InterleaveRope", optest.Args{"x": x, "cos": cos, "sin": sin, "out": y})
	var want []float64
	v, c, s, n := optest.Values(x), optest.Repeated(t, cos, x.Shape), optest.Repeated(t, sin, x.Shape), int(x.Dim(-1))
	for lo := 0; lo < len(v); lo += n {
		for i := range n {
			if pair := lo + i*2; i < n/2 {
				want = append(want, v[pair]*c[lo+i]-v[pair+1]*s[lo+i])
			} else {
				pair -= n
				want = append(want, v[pair+1]*c[lo+i]+v[pair]*s[lo+i])
			}
		}
	}
	optest.CloseTo(t, fmt.Sprintf("InterleaveRope %v", x), want, optest.Values(y), optest.ResultLimit(x.DType))
}

func TestRotaryRefuses(t *testing.T) {
	f := dtype.Float32
	x, table := optest.Tensor(t, f, []int64{2, 3, 4, 6}, 1), optest.Tensor(t, f, []int64{1, 3, 1, 6}, 1)
	a := optest.Args{"x": x, "cos": table, "sin": table, "out": optest.Tensor(t, f, x.Shape)}
	for _, c := range []struct {
		code   int32
		change optest.Args
		texts  []string
	}{
		{op.NullPointer, optest.Args{"cos": nil}, []string{"cos is null"}},
		{op.NullPointer, optest.Args{"out": nil}, []string{"out is null"}},
		{op.InvalidParam, optest.Args{"mode": 4}, []string{"mode 4 is unknown"}},
		{op.InvalidParam, optest.Args{"mode": -1}, []string{"mode -1"}},
		{op.InvalidParam, optest.Args{"sin": optest.Tensor(t, f, []int64{1, 1, 1, 6}, 1)}, []string{"shapes differ", "sin float32[1,1,1,6]"}},
		{op.InvalidParam, optest.Args{"cos": optest.Tensor(t, dtype.Float16, []int64{1, 3, 1, 6}, 1)}, []string{"dtypes differ"}},
		{op.InvalidParam, optest.Args{"cos": optest.Tensor(t, f, []int64{1, 2, 1, 6}, 1), "sin": optest.Tensor(t, f, []int64{1, 2, 1, 6}, 1)}, []string{"cos float32[1,2,1,6]", "broadcast"}},
		{op.InvalidParam, optest.Args{"cos": optest.Tensor(t, f, []int64{1, 3, 1, 1}, 1), "sin": optest.Tensor(t, f, []int64{1, 3, 1, 1}, 1)}, []string{"head dim"}},
		{op.InvalidParam, optest.Args{"x": optest.Tensor(t, f, []int64{6}, 1), "out": optest.Tensor(t, f, []int64{6})}, []string{"1 dimensions"}},
		{op.InvalidParam, optest.Args{"out": optest.Tensor(t, f, []int64{2, 3, 4, 8})}, []string{"out float32[2,3,4,8]"}},
	} {
		optest.Refused(t, c.code, "RotaryPositionEmbedding", a.With(c.change), c.texts...)
	}
	for text, shapes := range map[string][2][]int64{
		"must be 4-dimensional":           {{3, 2, 8}, {3, 1, 8}},
		"less than 896":                   {{1, 1, 1, 898}, {1, 1, 1, 898}},
		"is for one position":             {{2, 3, 4, 16}, {1, 1, 1, 16}},
		"B * N is large":                  {{3, 11, 4, 32}, {1, 1, 4, 32}},
		"D is not aligned, please do not": {{2, 2, 48, 6}, {1, 1, 48, 6}},
	} {
		x, angle := optest.Tensor(t, f, shapes[0], 1), optest.Tensor(t, f, shapes[1], 1)
		optest.Refused(t, op.TilingRefused, "RotaryPositionEmbedding", optest.Args{"x": x, "cos": angle, "sin": angle, "mode": 0, "out": optest.Tensor(t, f, shapes[0])}, text)
	}
	x, table = optest.Tensor(t, f, []int64{3, 10, 4, 32}, 1), optest.Tensor(t, f, []int64{1, 1, 4, 32}, 1)
	optest.Run(t, "RotaryPositionEmbedding", optest.Args{"x": x, "cos": table, "sin": table, "mode": 0, "out": optest.Tensor(t, f, x.Shape)})
	odd := optest.Tensor(t, f, []int64{1, 1, 1, 5}, 1)
	optest.Refused(t, op.InvalidParam, "RotaryPositionEmbedding", optest.Args{"x": odd, "cos": odd, "sin": odd, "out": odd}, "rotates pairs")
}

func TestRotaryGrad(t *testing.T) {
	for _, c := range []struct{ x, angle []int64 }{
		{[]int64{2, 3, 2, 8}, []int64{1, 3, 1, 8}}, {[]int64{2, 3, 2, 4}, []int64{2, 3, 2, 4}}, {[]int64{1, 1, 1, 4}, []int64{1, 1, 1, 4}},
		{[]int64{3, 2, 5, 4}, []int64{1, 1, 5, 4}}, {[]int64{2, 2, 3, 4}, []int64{2, 1, 3, 4}}, {[]int64{0, 2, 3, 4}, []int64{1, 1, 3, 4}},
	} {
		for mode := rowwise.RotaryHalf; mode <= rowwise.RotaryInterleaveHalf; mode++ {
			for _, d := range op.FloatTypes {
				for _, l := range kerneltest.Layouts {
					what := fmt.Sprintf("%v mode %d %v %v", c, mode, d, l)
					x, dy, cos, sin := optest.Filled(t, 1, d, l, c.x), optest.Filled(t, 2, d, l, c.x), optest.Filled(t, 3, d, l, c.angle), optest.Filled(t, 4, d, l, c.angle)
					dx, dcos, dsin := optest.TensorIn(t, d, l, c.x), optest.TensorIn(t, d, l, c.angle), optest.TensorIn(t, d, l, c.angle)
					a := optest.Args{"dy": dy, "cos": cos, "sin": sin, "mode": int64(mode), "dxOut": dx}
					optest.Run(t, "RotaryPositionEmbeddingGrad", a)
					optest.Run(t, "RotaryPositionEmbeddingGrad", a.With(optest.Args{"xOptional": x, "dcosOut": dcos, "dsinOut": dsin}))
					size := c.x[3]
					rotated := func(x, cos, sin []float64) (y []float64) {
						optest.Walk(c.x[:3], func(at []int64) {
							place := int64(0)
							for i, k := range at {
								place = place * c.angle[i]
								if c.angle[i] != 1 {
									place += k
								}
							}
							row := ((at[0]*c.x[1]+at[1])*c.x[2] + at[2]) * size
							y = append(y, rotaryDefinition(computed[mode], x[row:row+size], cos[place*size:][:size], sin[place*size:][:size])...)
						})
						return y
					}
					vx, vc, vs := optest.Values(x), optest.Values(cos), optest.Values(sin)
					limit := max(4*optest.ResultLimit(d), 1e-5)
					optest.CloseTo(t, what, optest.Gradient(func(v []float64) []float64 { return rotated(v, vc, vs) }, optest.Values(dy), vx), optest.Values(dx), limit)
					optest.CloseTo(t, "cos of "+what, optest.Gradient(func(v []float64) []float64 { return rotated(vx, v, vs) }, optest.Values(dy), vc), optest.Values(dcos), limit)
					optest.CloseTo(t, "sin of "+what, optest.Gradient(func(v []float64) []float64 { return rotated(vx, vc, v) }, optest.Values(dy), vs), optest.Values(dsin), limit)
				}
			}
		}
	}
	f := dtype.Float32
	x, angle := optest.Tensor(t, f, []int64{1, 2, 1, 4}, 1), optest.Tensor(t, f, []int64{1, 2, 1, 4}, 1)
	a := optest.Args{"dy": x, "cos": angle, "sin": angle, "dxOut": optest.Tensor(t, f, []int64{1, 2, 1, 4})}
	optest.Refused(t, op.InvalidParam, "RotaryPositionEmbeddingGrad", a.With(optest.Args{"mode": 4}), "mode 4 is unknown")
	optest.Refused(t, op.NullPointer, "RotaryPositionEmbeddingGrad", a.With(optest.Args{"xOptional": x}), "dcosOut is null")
	optest.Refused(t, op.InvalidParam, "RotaryPositionEmbeddingGrad", a.With(optest.Args{"cos": optest.Tensor(t, f, []int64{1, 3, 1, 4}, 1), "sin": optest.Tensor(t, f, []int64{1, 3, 1, 4}, 1)}), "broadcast")
}

// TestRotaryByMatrix: RotaryPositionEmbeddingV2 without a matrix is the first version, and with one multiplies by it.
func TestRotaryByMatrix(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range []struct{ x, table []int64 }{
				{[]int64{2, 3, 5, 12}, []int64{1, 3, 1, 12}}, {[]int64{2, 3, 5, 6}, []int64{2, 3, 1, 6}}, {[]int64{2, 3, 2, 68}, []int64{2, 1, 1, 68}}, {[]int64{1, 3, 4, 64}, []int64{1, 3, 4, 64}},
			} {
				what := fmt.Sprint(d, l, c)
				n := int(c.x[3])
				x, cos, sin := optest.Filled(t, 1, d, l, c.x), optest.Filled(t, 2, d, l, c.table), optest.Filled(t, 3, d, l, c.table)
				matrix, y := optest.Filled(t, 4, d, l, []int64{int64(n), int64(n)}), optest.TensorIn(t, d, l, c.x)
				a := optest.Args{"x": x, "cos": cos, "sin": sin, "mode": 1, "out": y}
				optest.Run(t, "RotaryPositionEmbedding", a)
				first := optest.Values(y)
				optest.Run(t, "RotaryPositionEmbeddingV2", a)
				assert.Equal(t, first, optest.Values(y), what)
				optest.Run(t, "RotaryPositionEmbeddingV2", a.With(optest.Args{"rotate": matrix}))
				turned := optest.Times(optest.Values(x), optest.Values(matrix), n)
				want := optest.Values(x)
				wideCos := optest.Repeated(t, cos, c.x)
				for i, s := range optest.Repeated(t, sin, c.x) {
					want[i] = want[i]*wideCos[i] + turned[i]*s
				}
				optest.CloseTo(t, what, want, optest.Values(y), 4*optest.ResultLimit(d))
			}
		}
	}
	f := dtype.Float32
	x := func(shape ...int64) *op.Tensor { return optest.Tensor(t, f, shape, 1) }
	a := optest.Args{"x": x(2, 3, 4, 6), "cos": x(1, 3, 1, 6), "sin": x(1, 3, 1, 6), "mode": 0, "rotate": x(6, 6), "out": x(2, 3, 4, 6)}
	optest.Refused(t, op.TilingRefused, "RotaryPositionEmbeddingV2", a.With(optest.Args{"rotate": x(6, 5)}), "a square")
	optest.Refused(t, op.TilingRefused, "RotaryPositionEmbeddingV2", a.With(optest.Args{"cos": x(1, 1, 1, 6), "sin": x(1, 1, 1, 6)}), "is for one position")
	optest.Refused(t, op.InvalidParam, "RotaryPositionEmbeddingV2", a.With(optest.Args{"rotate": optest.Tensor(t, dtype.Float16, []int64{6, 6})}), "dtypes differ")
}

// TestAlternatingSections: RopeWithSinCosCacheV2 with cacheMode 1 takes every third angle from the second position of a token, the
// next one from the third, and the others, with those at the end, from the first.
func TestAlternatingSections(t *testing.T) {
	for _, sections := range [][]int64{{16, 24, 24}, {8, 12, 12}, {24, 20, 20}, {11, 11, 10}} {
		for _, d := range op.FloatTypes {
			for _, neox := range []bool{false, true} {
				half := op.Total(sections)
				const tokens, size = 5, 160
				position := func(s, i int64) int64 { return (3*s + 5*i + s*i) % 7 }
				a := optest.Args{
					"queryIn": optest.Filled(t, 1, d, kerneltest.Contiguous, []int64{tokens, 2 * size}), "keyIn": optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{tokens, size}),
					"cosSinCache": optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{7, 2 * half}), "mropeSection": sections, "headSize": size, "isNeoxStyle": neox, "cacheMode": 1,
					"queryOut": optest.Tensor(t, d, []int64{tokens, 2 * size}), "keyOut": optest.Tensor(t, d, []int64{tokens, size}),
				}
				var positions []float64
				for s := range int64(3) {
					for i := range int64(tokens) {
						positions = append(positions, float64(position(s, i)))
					}
				}
				a["positions"] = optest.Tensor(t, dtype.Int64, []int64{3, tokens}, positions...)
				optest.Run(t, "RopeWithSinCosCacheV2", a)
				table := optest.Values(a["cosSinCache"].(*op.Tensor))
				for _, name := range []string{"query", "key"} {
					var want []float64
					v := optest.Values(a[name+"In"].(*op.Tensor))
					for row := range int64(len(v)) / size {
						token := row * tokens * size / int64(len(v))
						cos, sin := make([]float64, 2*half), make([]float64, 2*half)
						for i := range half {
							s := int64(0)
							if i < 3*sections[1] {
								s = i % 3
							}
							line := table[position(s, token)*2*half:]
							at := []int64{i, half + i}
							if !neox {
								at = []int64{2 * i, 2*i + 1}
							}
							for _, p := range at {
								cos[p], sin[p] = line[i], line[half+i]
							}
						}
						mode := rowwise.RotaryHalf
						if !neox {
							mode = rowwise.RotaryInterleave
						}
						x := v[row*size:][:size]
						want = append(append(want, rotaryDefinition(mode, x[:2*half], cos, sin)...), x[2*half:]...)
					}
					optest.CloseTo(t, fmt.Sprint(name, sections, d, neox), want, optest.Values(a[name+"Out"].(*op.Tensor)), optest.ResultLimit(d))
				}
				flat := optest.Args{"cacheMode": 0}
				optest.Run(t, "RopeWithSinCosCacheV2", a.With(flat))
				second := optest.Values(a["queryOut"].(*op.Tensor))
				delete(a, "cacheMode")
				optest.Run(t, "RopeWithSinCosCache", a)
				assert.Equal(t, optest.Values(a["queryOut"].(*op.Tensor)), second)
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f := dtype.Float32
	a := optest.Args{"positions": x(dtype.Int64, 4, 1), "queryIn": x(f, 1, 128), "keyIn": x(f, 1, 128), "cosSinCache": x(f, 2, 128), "mropeSection": []int64{16, 16, 16, 16}, "headSize": 128, "cacheMode": 1, "queryOut": x(f, 1, 128), "keyOut": x(f, 1, 128)}
	optest.Refused(t, op.InvalidParam, "RopeWithSinCosCacheV2", a, "cacheMode is 1")
	optest.Refused(t, op.InvalidParam, "RopeWithSinCosCacheV2", a.With(optest.Args{"cacheMode": 2}), "cacheMode is 2")
}
