package quantization

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// nibbles returns the int4 elements of contiguous memory.
func nibbles(x *op.Tensor, n int) (out []float64) {
	for _, b := range unsafe.Slice((*byte)(x.Data), n/2) {
		out = append(out, float64(int8(b<<4)>>4), float64(int8(b)>>4))
	}
	return out
}

// byExtremes compares rows of numbers with their quantised values and scales.
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
				x, rotation := optest.Filled(t, 1, d, l, []int64{s.m, s.n}), optest.Filled(t, 2, d, l, []int64{s.k, s.k})
				y, packed, scale := optest.TensorIn(t, dtype.Int8, l, []int64{s.m, s.n}), optest.Tensor(t, dtype.Int32, []int64{s.m, s.n / 8}), optest.Tensor(t, dtype.Float32, []int64{s.m})
				var want []float64
				vx, vr := optest.Values(x), optest.Values(rotation)
				for i := range vx {
					sum, first := 0.0, i/int(s.k)*int(s.k)
					for j := range int(s.k) {
						sum += vx[first+j] * vr[j*int(s.k)+i-first]
					}
					want = append(want, sum)
				}
				a := optest.Args{"x": x, "rotation": rotation, "axis": -1, "yOut": y, "scaleOut": scale}
				optest.Run(t, "RotateQuant", a)
				byExtremes(t, what, want, int(s.n), 127, optest.Values(y), optest.Values(scale))
				optest.Run(t, "RotateQuant", a.With(optest.Args{"yOut": packed, "roundMode": "rint"}))
				byExtremes(t, what, want, int(s.n), 7, nibbles(packed, len(want)), optest.Values(scale))
				if x.Len() == 0 { // CANN starts no kernel, whatever else the call holds
					continue
				}
				for text, set := range map[string]optest.Args{
					"clamping": {"alpha": optest.Tensor(t, dtype.BFloat16, []int64{1}, 0.5)}, "trans is true": {"trans": true}, "roundMode": {"roundMode": "floor"},
					"axis is 0": {"axis": 0}, "a square": {"rotation": optest.Tensor(t, d, []int64{16, 32}, 1)}, "multiple of 8": {"rotation": optest.Tensor(t, d, []int64{24, 24}, 1)},
					"one for each row": {"scaleOut": optest.Tensor(t, dtype.Float32, []int64{9})}, "dtype": {"yOut": x},
				} {
					optest.Refused(t, op.InvalidParam, "RotateQuant", a.With(set), text)
				}
				optest.Refused(t, op.NullPointer, "RotateQuant", a.With(optest.Args{"rotation": nil}), "rotation is null")
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
				x, p1, p2 := optest.Filled(t, 1, d, l, []int64{s.m, s.n1, s.n2}), optest.Filled(t, 2, d, l, []int64{s.n1, s.n1}), optest.Filled(t, 3, d, l, []int64{s.n2, s.n2})
				vx, v1, v2 := optest.Values(x), optest.Values(p1), optest.Values(p2)
				var want []float64
				optest.Walk(x.Shape, func(at []int64) {
					sum := 0.0
					for i := range s.n1 {
						for j := range s.n2 {
							sum += v1[at[1]*s.n1+i] * vx[(at[0]*s.n1+i)*s.n2+j] * v2[j*s.n2+at[2]]
						}
					}
					want = append(want, sum)
				})
				packed, scale := optest.Tensor(t, dtype.Int32, []int64{s.m, s.n1, s.n2 / 8}, 0), optest.Tensor(t, dtype.Float32, []int64{s.m}, -1)
				size := int(s.n1 * s.n2)
				a := optest.Args{"x": x, "kroneckerP1": p1, "kroneckerP2": p2, "clipRatio": s.clip, "out": packed, "quantScale": scale}
				for _, name := range []string{"FlatQuant", "FlatQuantV2", "FlatQuantV3"} {
					optest.Run(t, name, a)
					byExtremes(t, what, want, size, 7/s.clip, nibbles(packed, len(want)), optest.Values(scale))
				}
				// Only the last end of the groups matters: matrices after it are left unchanged.
				optest.Fill(scale, -1)
				groups := optest.Tensor(t, dtype.Int64, []int64{2}, 0, float64(s.m-1))
				for kind := range 2 {
					optest.Run(t, "FlatQuantV3", a.With(optest.Args{"groupListOptional": groups, "groupListType": kind}))
					byExtremes(t, what, want[:len(want)-size], size, 7/s.clip, nibbles(packed, len(want)), optest.Values(scale))
					assert.Equal(t, -1.0, optest.Values(scale)[s.m-1])
				}
				for text, set := range map[string]optest.Args{
					"clipRatio is 0": {"clipRatio": 0.0}, "dstTypeMax is 6": {"dstTypeMax": 6.0}, "groupListType is 2": {"groupListOptional": groups, "groupListType": 2},
					"as many as x has rows": {"kroneckerP1": optest.Tensor(t, d, []int64{3, 3}, 1)}, "dtype": {"out": x}, "must not be empty": {"x": optest.Tensor(t, d, []int64{0, 2, 2})},
				} {
					optest.Refused(t, op.InvalidParam, "FlatQuantV3", a.With(set), text)
				}
			}
		}
	}
}
