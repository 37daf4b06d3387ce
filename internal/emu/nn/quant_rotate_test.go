package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// nibbles are the int4 elements of contiguous memory.
func nibbles(x *Tensor, n int) (out []float64) {
	for _, b := range unsafe.Slice((*byte)(x.host), n/2) {
		out = append(out, float64(int8(b<<4)>>4), float64(int8(b)>>4))
	}
	return out
}

// byExtremes compares rows of numbers with what was quantised of them and the scales.
func byExtremes(t *testing.T, what string, want []float64, size int, most float64, got, scales []float64) {
	t.Helper()
	for r := range len(want) / size {
		extent := 0.0
		for _, v := range want[r*size:][:size] {
			extent = max(extent, math.Abs(v))
		}
		assert.InDelta(t, extent/most, scales[r], 1e-5*max(extent, 1), what)
		for i, v := range want[r*size:][:size] {
			q := v * most / extent
			if most < 127 {
				q = min(max(q, -8), 7)
			}
			assert.InDelta(t, q, got[r*size+i], 0.52, what)
		}
	}
}

func TestRotateQuant(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ m, n, k int64 }{{3, 128, 16}, {1, 128, 128}, {0, 160, 32}} {
				what := fmt.Sprintf("%v %v %v", d, l, s)
				x, rotation := filled(t, 1, d, l, []int64{s.m, s.n}), filled(t, 2, d, l, []int64{s.k, s.k})
				y, packed, scale := tensorIn(t, dtype.Int8, l, []int64{s.m, s.n}), tensor(t, dtype.Int32, []int64{s.m, s.n / 8}), tensor(t, dtype.Float32, []int64{s.m})
				var want []float64
				vx, vr := values(x), values(rotation)
				for i := range vx {
					sum, first := 0.0, i/int(s.k)*int(s.k)
					for j := range int(s.k) {
						sum += vx[first+j] * vr[j*int(s.k)+i-first]
					}
					want = append(want, sum)
				}
				a := args{"x": x, "rotation": rotation, "axis": -1, "yOut": y, "scaleOut": scale}
				run(t, "RotateQuant", a)
				byExtremes(t, what, want, int(s.n), 127, values(y), values(scale))
				run(t, "RotateQuant", a.with(args{"yOut": packed, "roundMode": "rint"}))
				byExtremes(t, what, want, int(s.n), 7, nibbles(packed, len(want)), values(scale))
				for text, set := range map[string]args{
					"clamping": {"alpha": tensor(t, dtype.BFloat16, []int64{1}, 0.5)}, "trans is true": {"trans": true}, "roundMode": {"roundMode": "floor"},
					"axis is 0": {"axis": 0}, "a square": {"rotation": tensor(t, d, []int64{16, 32}, 1)}, "multiple of 8": {"rotation": tensor(t, d, []int64{24, 24}, 1)},
					"one for each row": {"scaleOut": tensor(t, dtype.Float32, []int64{9})}, "dtype": {"yOut": x},
				} {
					refused(t, invalidParam, "RotateQuant", a.with(set), text)
				}
				refused(t, nullPointer, "RotateQuant", a.with(args{"rotation": nil}), "rotation is null")
			}
		}
	}
}

func TestFlatQuant(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct {
				m, n1, n2 int64
				clip      float64
			}{{3, 5, 8, 1}, {1, 1, 8, 0.7}, {4, 2, 16, 1}} {
				what := fmt.Sprintf("%v %v %v", d, l, s)
				x, p1, p2 := filled(t, 1, d, l, []int64{s.m, s.n1, s.n2}), filled(t, 2, d, l, []int64{s.n1, s.n1}), filled(t, 3, d, l, []int64{s.n2, s.n2})
				vx, v1, v2 := values(x), values(p1), values(p2)
				var want []float64
				walk(x.Shape, func(at []int64) {
					sum := 0.0
					for i := range s.n1 {
						for j := range s.n2 {
							sum += v1[at[1]*s.n1+i] * vx[(at[0]*s.n1+i)*s.n2+j] * v2[j*s.n2+at[2]]
						}
					}
					want = append(want, sum)
				})
				packed, scale := tensor(t, dtype.Int32, []int64{s.m, s.n1, s.n2 / 8}, 0), tensor(t, dtype.Float32, []int64{s.m}, -1)
				size := int(s.n1 * s.n2)
				a := args{"x": x, "kroneckerP1": p1, "kroneckerP2": p2, "clipRatio": s.clip, "out": packed, "quantScale": scale}
				for _, name := range []string{"FlatQuant", "FlatQuantV2", "FlatQuantV3"} {
					run(t, name, a)
					byExtremes(t, what, want, size, 7/s.clip, nibbles(packed, len(want)), values(scale))
				}
				// Of groups the last end counts: later matrices are left alone.
				fill(scale, -1)
				groups := tensor(t, dtype.Int64, []int64{2}, 0, float64(s.m-1))
				for kind := range 2 {
					run(t, "FlatQuantV3", a.with(args{"groupListOptional": groups, "groupListType": kind}))
					byExtremes(t, what, want[:len(want)-size], size, 7/s.clip, nibbles(packed, len(want)), values(scale))
					assert.Equal(t, -1.0, values(scale)[s.m-1])
				}
				for text, set := range map[string]args{
					"clipRatio is 0": {"clipRatio": 0.0}, "dstTypeMax is 6": {"dstTypeMax": 6.0}, "groupListType is 2": {"groupListOptional": groups, "groupListType": 2},
					"as many as x has rows": {"kroneckerP1": tensor(t, d, []int64{3, 3}, 1)}, "dtype": {"out": x}, "must not be empty": {"x": tensor(t, d, []int64{0, 2, 2})},
				} {
					refused(t, invalidParam, "FlatQuantV3", a.with(set), text)
				}
			}
		}
	}
}

func TestSimThreadExponential(t *testing.T) {
	const n, lambda = 20000, 2.0
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x, again, other := tensorIn(t, d, l, []int64{n / 4, 4}), tensorIn(t, d, l, []int64{n / 4, 4}), tensorIn(t, d, l, []int64{n / 4, 4})
			a := args{"selfRef": x, "count": n, "lambda": lambda, "seed": 7, "offset": 4}
			run(t, "SimThreadExponential", a)
			run(t, "SimThreadExponential", a.with(args{"selfRef": again}))
			run(t, "SimThreadExponential", a.with(args{"selfRef": other, "seed": 8}))
			v := values(x)
			assert.Equal(t, v, values(again))
			assert.NotEqual(t, v, values(other))
			mean, above := 0.0, 0
			for _, y := range v {
				mean += y / n
				if y > 1 {
					above++
				}
			}
			assert.GreaterOrEqual(t, slices.Min(v), 0.0)
			assert.False(t, math.IsInf(slices.Max(v), 0))
			assert.InDelta(t, 1/lambda, mean, 0.02, "%v %v", d, l)
			assert.InDelta(t, math.Exp(-lambda), float64(above)/n, 0.01, "%v %v", d, l)
			refused(t, invalidParam, "SimThreadExponential", a.with(args{"lambda": 0.0}), "lambda is 0")
			refused(t, invalidParam, "SimThreadExponential", a.with(args{"count": 3}), "count is 3")
			refused(t, invalidParam, "SimThreadExponential", a.with(args{"selfRef": tensor(t, dtype.Int32, []int64{n}, 0)}), "dtype")
		}
	}
}
