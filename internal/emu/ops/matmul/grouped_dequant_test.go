package matmul

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestGroupedDequant compares with sums of products of rounded rows: ways to scale x, sizes, layouts, and weights in ND and
// FRACTAL_NZ, whose last tiles are partly empty.
func TestGroupedDequant(t *testing.T) {
	half, f := dtype.Float16, dtype.Float32
	for _, l := range kerneltest.Layouts {
		for _, s := range []struct {
			k, n int64
			ends []int64
		}{{32, 16, []int64{3}}, {48, 32, []int64{2, 2, 5}}, {37, 19, []int64{1, 4, 6}}, {64, 16, []int64{0, 3}}} {
			for _, c := range []struct {
				mode          string
				scale         dtype.Type // of x, or undefined
				smooth, plain bool
			}{{mode: "pertoken"}, {mode: "pertoken", smooth: true, plain: true}, {"pertoken", f, true, false}, {"pertensor", f, false, true}, {"pertensor", half, false, false}, {"pertensor", half, true, true}} {
				groups, rows := int64(len(s.ends)), s.ends[len(s.ends)-1]
				m := rows + 1 // no group has the last row
				if c.plain && s.n%16 != 0 {
					continue
				}
				what := fmt.Sprintf("%v %v %+v", l, s, c)
				x, plain := optest.Filled(t, 1, half, l, []int64{m, s.k}), optest.Tensor(t, dtype.Int8, []int64{groups, s.n, s.k}, optest.Int8s(2, int(groups*s.n*s.k))...)
				weight, name := optest.NZ(t, dtype.Int8, []int64{groups, s.n, s.k}, false, 32), "QuantGroupedMatmulDequantWeightNZ"
				optest.StoreNZ(t, weight, plain)
				if c.plain {
					weight, name = plain, "QuantGroupedMatmulDequant"
				}
				columns := optest.TensorIn(t, f, l, []int64{groups, s.n}, .5, .25, 1, .125, .75)
				a := optest.Args{
					"x": x, "weight": weight, "weightScale": columns, "xQuantMode": c.mode, "transposeWeight": true, "out": optest.Tensor(t, half, []int64{m, s.n}, 7),
					"groupList": optest.Tensor(t, dtype.Int64, []int64{groups}, optest.Floats(s.ends)...),
				}
				v, w, perColumn := optest.Values(x), optest.Values(plain), optest.Values(columns)
				if c.smooth {
					smooth := optest.Filled(t, 3, half, l, []int64{s.k})
					a["smoothScaleOptional"] = smooth
					for i := range v {
						v[i] *= optest.Values(smooth)[int64(i)%s.k]
					}
				}
				of := make([]float64, m) // the scale of each row
				for i := range of {
					for _, y := range optest.Row(v, int(s.k), i) {
						of[i] = max(of[i], math.Abs(y)/127)
					}
				}
				if c.scale != dtype.Undefined {
					size := int64(1)
					if c.mode == "pertoken" {
						size = m
					}
					given := optest.TensorIn(t, c.scale, l, []int64{size}, .0625, .03125, .125)
					a["xScaleOptional"] = given
					for i := range of {
						of[i] = optest.Values(given)[int64(i)%size]
					}
				}
				if c.scale == half { // the scales of the weight contain the scale of x
					packed, bits := optest.Tensor(t, dtype.Int64, []int64{groups, s.n}), make([]int64, groups*s.n)
					for i := range bits {
						bits[i] = int64(math.Float32bits(float32(perColumn[i] * .0625)))
					}
					require.NoError(t, indexing.SetInts(packed.View(), bits))
					a["weightScale"] = packed
				}
				want, first := make([]float64, m*s.n), int64(0)
				for i := range want {
					want[i] = 7 // as before, in rows of no group
				}
				for g, end := range s.ends {
					for i := first; i < end; i++ {
						for j := range s.n {
							sum := 0.0
							for k := range s.k {
								sum += saturated(v[i*s.k+k]/of[i]) * w[(int64(g)*s.n+j)*s.k+k]
							}
							want[i*s.n+j] = sum * perColumn[int64(g)*s.n+j] * of[i]
						}
					}
					first = end
				}
				optest.Run(t, name, a)
				optest.CloseTo(t, what, want, optest.Values(a["out"].(*op.Tensor)), .01)
			}
		}
	}
}

func TestGroupedDequantRefuses(t *testing.T) {
	half, f, i8, i64 := dtype.Float16, dtype.Float32, dtype.Int8, dtype.Int64
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	nz := optest.NZ(t, i8, []int64{2, 16, 32}, false, 32)
	a := optest.Args{"x": x(half, 3, 32), "weight": nz, "weightScale": x(f, 2, 16), "groupList": optest.Tensor(t, i64, []int64{2}, 1, 3), "xQuantMode": "pertoken", "transposeWeight": true, "out": x(half, 3, 16)}
	const name, plain = "QuantGroupedMatmulDequantWeightNZ", "QuantGroupedMatmulDequant"
	optest.Run(t, name, a)
	for _, null := range []string{"x", "weight", "weightScale", "groupList", "out"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{null: nil}), null+" is null")
	}
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"biasOptional": x(f, 2, 16)}), "must be null")
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"xOffsetOptional": x(f, 1)}), "must be null")
	for text, set := range map[string]optest.Args{
		"transposeWeight is false": {"transposeWeight": false},
		"a dtype that is not":      {"groupList": x(dtype.Int32, 2)},
		"xScaleOptional float16":   {"xScaleOptional": x(half, 3)},
		"dtypes differ":            {"out": x(f, 3, 16)},
		"have a storage of":        {"weight": x(i8, 2, 16, 32)},
		"must be contiguous":       {"out": optest.TensorIn(t, half, kerneltest.Gapped, []int64{3, 16})},
	} {
		optest.Refused(t, op.InvalidParam, name, a.With(set), text)
	}
	optest.Refused(t, op.InvalidParam, plain, a.With(optest.Args{"weight": x(i8, 2, 15, 32), "weightScale": x(f, 2, 15), "out": x(half, 3, 15)}), "multiples of 16")
	for text, set := range map[string]optest.Args{
		"use pertoken or pertensor":       {"xQuantMode": "row"},
		"xScaleOptional is not given":     {"xQuantMode": "pertensor"},
		"the scales of pertoken":          {"xScaleOptional": x(f, 1)},
		"one for each column of x":        {"smoothScaleOptional": x(half, 31)},
		"does not fit":                    {"x": x(half, 3, 33)},
		"must be [groups,N]":              {"weightScale": x(f, 16)},
		"the end of the rows":             {"groupList": x(i64, 3)},
		"the product of x":                {"out": x(half, 3, 17)},
		"of rows, which the result is":    {"weightScale": x(i64, 2, 16)},
		"x float16[1,3,32]ND must have 2": {"x": x(half, 1, 3, 32)},
	} {
		optest.Refused(t, op.TilingRefused, name, a.With(set), text)
	}
	var e *op.Error
	err := optest.Execute(t, name, a.With(optest.Args{"weightScale": x(i64, 2, 16), "xScaleOptional": x(half, 3)}))
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, op.TilingRefused, e.Code)
	require.ErrorContains(t, optest.Execute(t, name, a.With(optest.Args{"groupList": optest.Tensor(t, i64, []int64{2}, 3, 1)})), "groupList")
}
