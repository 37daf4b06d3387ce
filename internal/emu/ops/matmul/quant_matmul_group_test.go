package matmul

import (
	"github.com/stretchr/testify/assert"

	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// int4s returns n integers from -7 to 7 and a tensor of them, either int4 or int32 with eight
// per element.
func int4s(t *testing.T, d dtype.Type, seed int, rows, columns int64) ([]float64, *op.Tensor) {
	v := optest.Int8s(seed, int(rows*columns))
	for i := range v {
		v[i] = math.Mod(v[i], 8)
	}
	shape := []int64{rows, columns}
	if d == dtype.Int32 {
		shape[1] /= 8
	}
	x := optest.Of(optest.Tensor(t, dtype.Uint8, []int64{rows * columns / 2}).View())
	x.DType, x.Shape, x.Strides, x.Storage = d, shape, op.ContiguousStrides(shape), shape
	optest.StoreInt4(t, x, v)
	return v, x
}

func TestQuantMatmulSquares(t *testing.T) {
	const packed = 1<<32 | 128<<16 | 128
	f := dtype.Float32
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, s := range []struct{ m, k, n int64 }{{3, 128, 128}, {2, 300, 130}, {1, 5, 4}, {0, 4, 4}} {
			for _, transposed := range []bool{true, false} {
				for _, biased := range []bool{false, true} {
					what := fmt.Sprintf("%v %v transposed %v biased %v", d, s, transposed, biased)
					a1, a2 := optest.Int8s(1, int(s.m*s.k)), optest.Int8s(2, int(s.k*s.n))
					groups, squares := (s.k+127)/128, (s.n+127)/128
					shape2, scale2 := []int64{s.k, s.n}, []int64{groups, squares}
					if transposed {
						shape2, scale2 = []int64{s.n, s.k}, []int64{squares, groups}
					}
					rows, columns := optest.Filled(t, 1, f, kerneltest.Contiguous, []int64{s.m, groups}), optest.Filled(t, 2, f, kerneltest.Contiguous, scale2)
					out := optest.Tensor(t, d, []int64{s.m, s.n})
					a := optest.Args{
						"x1": optest.Laid(t, dtype.Int8, kerneltest.Contiguous, a1, int(s.m), int(s.k)), "x2": optest.Tensor(t, dtype.Int8, shape2, a2...), "x1Scale": rows, "x2Scale": columns,
						"transposeX2": transposed, "groupSize": int64(packed), "out": out,
					}
					var bias []float64
					if biased {
						b := optest.Filled(t, 3, f, kerneltest.Contiguous, []int64{s.n})
						a["bias"], bias = b, optest.Values(b)
					}
					optest.Run(t, "QuantMatmulV5", a)
					vr, vc := optest.Values(rows), optest.Values(columns)
					var want []float64
					for i := range s.m {
						for j := range s.n {
							sum := 0.0
							for k := range s.k {
								w, scale := a2[k*s.n+j], vc[k/128*squares+j/128]
								if transposed {
									w, scale = a2[j*s.k+k], vc[j/128*groups+k/128]
								}
								sum += a1[i*s.k+k] * w * vr[i*groups+k/128] * scale
							}
							if biased {
								sum += bias[j]
							}
							want = append(want, sum)
						}
					}
					optest.CloseTo(t, what, want, optest.Values(out), 2*optest.ResultLimit(d))
					for text, set := range map[string]optest.Args{
						"for groups of [1 128 64]": {"groupSize": int64(1<<32 | 128<<16 | 64)}, "transposeX1": {"transposeX1": true}, "one for each square": {"x2Scale": optest.Tensor(t, f, []int64{9, 9}, 1)},
						"one for each row and group": {"x1Scale": optest.Tensor(t, f, []int64{9, 9}, 1)}, "does not belong": {"yOffset": optest.Tensor(t, f, []int64{s.n}, 1)}, "dtype": {"out": optest.Tensor(t, f, []int64{s.m, s.n})},
					} {
						optest.Refused(t, op.InvalidParam, "QuantMatmulV5", a.With(set), text)
					}
				}
			}
		}
	}
}

func TestQuantMatmulGroups(t *testing.T) {
	f := dtype.Float32
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, s := range []struct{ m, k, n int64 }{{3, 256, 8}, {2, 600, 16}, {1, 16, 8}} {
			groups := (s.k + 255) / 256
			rows, out := optest.Filled(t, 1, f, kerneltest.Contiguous, []int64{s.m, 1}), optest.Tensor(t, d, []int64{s.m, s.n})
			scales := optest.Filled(t, 2, f, kerneltest.Contiguous, []int64{groups, s.n})
			vr, vs := optest.Values(rows), optest.Values(scales)

			// int8 by int4, with float32 scales in the low halves of 64-bit integers.
			a1 := optest.Int8s(1, int(s.m*s.k))
			a2, x2 := int4s(t, dtype.Int32, 2, s.k, s.n)
			var bits []float64
			for _, v := range vs {
				bits = append(bits, float64(math.Float32bits(float32(v))))
			}
			offset := optest.Filled(t, 3, f, kerneltest.Contiguous, []int64{s.n})
			a := optest.Args{
				"x1": optest.Tensor(t, dtype.Int8, []int64{s.m, s.k}, a1...), "x2": x2, "x1Scale": rows, "x2Scale": optest.Tensor(t, dtype.Uint64, []int64{groups, s.n}, bits...), "yOffset": offset,
				"groupSize": 256, "out": out,
			}
			optest.Run(t, "QuantMatmulV5", a.With(optest.Args{"groupSize": int64(1<<32 | 1<<16 | 256)}))
			same := optest.Values(out)
			optest.Run(t, "QuantMatmulV5", a)
			assert.Equal(t, same, optest.Values(out), "sizes of 0 and 1 along M and N")
			var want []float64
			for i := range s.m {
				for j := range s.n {
					sum := optest.Values(offset)[j]
					for k := range s.k {
						sum += a1[i*s.k+k] * a2[k*s.n+j] * vs[k/256*s.n+j]
					}
					want = append(want, sum*vr[i])
				}
			}
			optest.CloseTo(t, fmt.Sprintf("%v %v", d, s), want, optest.Values(out), 2*optest.ResultLimit(d))
			optest.Refused(t, op.InvalidParam, "QuantMatmulV5", a.With(optest.Args{"yOffset": nil}), "yOffset is null")
			optest.Refused(t, op.InvalidParam, "QuantMatmulV5", a.With(optest.Args{"x1Scale": nil}), "x1Scale is null")
			optest.Refused(t, op.InvalidParam, "QuantMatmulV5", a.With(optest.Args{"bias": offset}), "does not belong")
			optest.Refused(t, op.InvalidParam, "QuantMatmulV5", a.With(optest.Args{"x2Scale": scales}), "dtype")

			// int4 by int4 with offsets.
			b1, y1 := int4s(t, dtype.Int4, 3, s.m, s.k)
			b2, y2 := int4s(t, dtype.Int4, 4, s.n, s.k)
			zero := optest.Filled(t, 4, dtype.Float16, kerneltest.Contiguous, []int64{groups, s.n})
			b := optest.Args{"x1": y1, "x2": y2, "x1Scale": rows, "x2Scale": scales, "x2Offset": zero, "transposeX2": true, "groupSize": 256, "out": out}
			optest.Run(t, "QuantMatmulV5", b)
			want = nil
			for i := range s.m {
				for j := range s.n {
					sum := 0.0
					for k := range s.k {
						g := k/256*s.n + j
						sum += b1[i*s.k+k] * (b2[j*s.k+k] - optest.Values(zero)[g]) * vs[g]
					}
					want = append(want, sum*vr[i])
				}
			}
			optest.CloseTo(t, fmt.Sprintf("int4 %v %v", d, s), want, optest.Values(out), 2*optest.ResultLimit(d))
			optest.Refused(t, op.NullPointer, "QuantMatmulV5", b.With(optest.Args{"x2Offset": nil}), "x2Offset is null")
			optest.Refused(t, op.InvalidParam, "QuantMatmulV5", b.With(optest.Args{"yOffset": offset}), "does not belong")
		}
	}
}
