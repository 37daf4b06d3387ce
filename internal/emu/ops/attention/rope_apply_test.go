package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestApplyRotary(t *testing.T) {
	const dim = 128
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, keys := range []int64{1, 3} {
				angle := []int64{2, 3, 1, dim}
				q, k := optest.Filled(t, 1, d, l, []int64{2, 3, 4, dim}), optest.Filled(t, 2, d, l, []int64{2, 3, keys, dim})
				cos, sin := optest.Filled(t, 3, d, l, angle), optest.Filled(t, 4, d, l, angle)
				rotated := func(x *op.Tensor) (y []float64) {
					wideCos, wideSin, values := optest.Repeated(t, cos, x.Shape), optest.Repeated(t, sin, x.Shape), optest.Values(x)
					for lo := 0; lo < len(values); lo += dim {
						y = append(y, rotaryDefinition(rowwise.RotaryHalf, values[lo:lo+dim], wideCos[lo:lo+dim], wideSin[lo:lo+dim])...)
					}
					return y
				}
				for _, name := range []string{"ApplyRotaryPosEmb", "ApplyRotaryPosEmbV2"} {
					wantQ, wantK := rotated(q), rotated(k)
					a := optest.Args{"queryRef": q, "keyRef": k, "cos": cos, "sin": sin, "layout": 1}
					if name == "ApplyRotaryPosEmbV2" {
						a["rotaryMode"] = "half"
					}
					optest.Run(t, name, a)
					optest.CloseTo(t, fmt.Sprint(name, d, l), wantQ, optest.Values(q), optest.ResultLimit(d))
					optest.CloseTo(t, fmt.Sprint(name, d, l), wantK, optest.Values(k), optest.ResultLimit(d))
				}
			}
		}
	}
}

// TestApplyRotaryRefusals holds the sizes that the kernel of a 910B refuses.
func TestApplyRotaryRefusals(t *testing.T) {
	of := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	f := func(shape ...int64) *op.Tensor { return of(dtype.Float16, shape...) }
	a := optest.Args{"queryRef": f(2, 3, 4, 128), "keyRef": f(2, 3, 1, 128), "cos": f(2, 3, 1, 128), "sin": f(2, 3, 1, 128), "layout": 1}
	optest.Run(t, "ApplyRotaryPosEmb", a)
	angles := func(shape ...int64) optest.Args { return optest.Args{"cos": f(shape...), "sin": f(shape...)} }
	for _, k := range []struct {
		code    int32
		changes optest.Args
		text    string
	}{
		{op.NullPointer, optest.Args{"keyRef": nil}, "keyRef is null"},
		{op.InvalidParam, optest.Args{"layout": 5}, "layout 5"},
		{op.TilingRefused, optest.Args{"layout": 3}, "layout is not one"},
		{op.InvalidParam, optest.Args{"queryRef": f(3, 4, 128)}, "dimensions"},
		{op.InvalidParam, optest.Args{"keyRef": of(dtype.Float32, 2, 3, 1, 128)}, "float32"},
		{op.TilingRefused, angles(1, 3, 1, 128), "the same first two dimensions"},
		{op.TilingRefused, optest.Args{"keyRef": f(2, 3, 4, 128), "cos": f(2, 3, 4, 128), "sin": f(2, 3, 4, 128)}, "cos dim2 is not one"},
		{op.TilingRefused, optest.Args{"queryRef": f(2, 3, 4, 64), "keyRef": f(2, 3, 1, 64), "cos": f(2, 3, 1, 64), "sin": f(2, 3, 1, 64)}, "last dims is not 128"},
		{op.TilingRefused, optest.Args{"keyRef": f(2, 3, 0, 128)}, "must not be empty"},
		{op.TilingRefused, optest.Args{"queryRef": f(2, 3, 160, 128)}, "oneLoop is too large"},
	} {
		optest.Refused(t, k.code, "ApplyRotaryPosEmb", a.With(k.changes), k.text)
	}
	optest.Refused(t, op.InvalidParam, "ApplyRotaryPosEmbV2", a.With(optest.Args{"rotaryMode": "no"}), "rotaryMode \"no\"")
	optest.Refused(t, op.TilingRefused, "ApplyRotaryPosEmbV2", a.With(optest.Args{"rotaryMode": "quarter"}), "has no kernel on this chip")
}

func TestCachedRotary(t *testing.T) {
	const size, limit = 8, 6
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, rotated := range []int64{8, 4} {
				for _, halves := range []bool{true, false} {
					angles := make([]float64, 0, limit*rotated)
					for p := range limit {
						for i := range rotated {
							angle := float64(p) / (1 + float64(i%(rotated/2)))
							if i < rotated/2 {
								angles = append(angles, kerneltest.Round(d, math.Cos(angle)))
							} else {
								angles = append(angles, kerneltest.Round(d, math.Sin(angle)))
							}
						}
					}
					q, k := optest.Filled(t, 1, d, l, []int64{3, 2 * size}), optest.Filled(t, 2, d, l, []int64{3, size})
					qOut, kOut := optest.TensorIn(t, d, l, q.Shape), optest.TensorIn(t, d, l, k.Shape)
					positions := []int{5, 0, 2}
					a := optest.Args{
						"positions": optest.Tensor(t, dtype.Int64, []int64{3}, 5, 0, 2), "queryIn": q, "keyIn": k, "cosSinCache": optest.TensorIn(t, d, l, []int64{limit, rotated}, angles...),
						"headSize": size, "isNeoxStyle": halves, "queryOut": qOut, "keyOut": kOut,
					}
					optest.Run(t, "RopeWithSinCosCache", a)
					for _, x := range []struct{ in, out *op.Tensor }{{q, qOut}, {k, kOut}} {
						want := optest.Values(x.in)
						in := optest.Values(x.in)
						for head := 0; head < len(in); head += size {
							position := positions[head/int(x.in.Shape[1])]
							for i := range int(rotated / 2) {
								first, second := head+i, head+i+int(rotated/2)
								if !halves {
									first, second = head+2*i, head+2*i+1
								}
								cos, sin := angles[position*int(rotated)+i], angles[position*int(rotated)+int(rotated/2)+i]
								want[first] = in[first]*cos - in[second]*sin
								want[second] = in[second]*cos + in[first]*sin
							}
						}
						optest.CloseTo(t, fmt.Sprintf("%v %v, %d rotated, halves %v", d, l, rotated, halves), want, optest.Values(x.out), 2*optest.ResultLimit(d))
					}
					optest.Refused(t, op.Unsupported, "RopeWithSinCosCache", a.With(optest.Args{"headSize": 3}), "headSize 3")
					optest.Refused(t, op.InvalidParam, "RopeWithSinCosCache", a.With(optest.Args{"mropeSection": []int64{1, 1, 3}}), "the sum must be")
					optest.Refused(t, op.InvalidParam, "RopeWithSinCosCache", a.With(optest.Args{"mropeSection": []int64{1, 1}}), "3 or 4 numbers")
					optest.Refused(t, op.InvalidParam, "RopeWithSinCosCache", a.With(optest.Args{"mropeSection": []int64{1, rotated/2 - 1, 0}}), "use one of")
					optest.Refused(t, op.InvalidParam, "RopeWithSinCosCache", a.With(optest.Args{"queryIn": k}), "shapes differ")
					require.Error(t, optest.Execute(t, "RopeWithSinCosCache", a.With(optest.Args{"positions": optest.Tensor(t, dtype.Int32, []int64{3}, 6)})))
				}
			}
		}
	}
}

// TestRotaryLines: heads and angles must fill lines of 64 bytes.
func TestRotaryLines(t *testing.T) {
	for _, name := range []string{"RopeWithSinCosCache", "RopeWithSinCosCacheV2"} {
		for d, line := range map[dtype.Type]int64{dtype.Float32: 16, dtype.Float16: 32, dtype.BFloat16: 32} {
			for size, rotated := range map[int64]int64{4 * line: 2 * line, 3 * line: 3 * line, 2*line + line/2: line, 2 * line: line / 2, 5 * line: 5*line - 2} {
				x := func(shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
				a := optest.Args{"positions": optest.Tensor(t, dtype.Int64, []int64{1}), "queryIn": x(1, 2*size), "keyIn": x(1, size), "cosSinCache": x(2, rotated), "headSize": size, "queryOut": x(1, 2*size), "keyOut": x(1, size)}
				_, err := optest.PrepareIn(t, op.Env{Tiled: true}, name, a)
				if size%line == 0 && rotated%line == 0 {
					require.NoError(t, err, "%v, %d of %d", d, rotated, size)
					continue
				}
				var refused *op.Error
				require.ErrorAs(t, err, &refused)
				require.Equal(t, op.Unsupported, refused.Code)
				require.ErrorContains(t, err, fmt.Sprintf("multiples of %d elements", line))
			}
		}
	}
}

// A token with several positions takes each section of its angles from the row of another one.
func TestCachedRotaryOfSections(t *testing.T) {
	const tokens, limit, size = 3, 40, 130
	for _, sections := range sectionLists {
		for _, halves := range []bool{true, false} {
			half := op.Total(sections)
			var angles []float64
			for p := range limit {
				for i := range 2 * half {
					angle := float64(p) / (1 + float64(i%half))
					angles = append(angles, float64(float32([]float64{math.Cos(angle), math.Sin(angle)}[i/half])))
				}
			}
			var positions []float64
			for i := range len(sections) * tokens {
				positions = append(positions, float64(7*i%limit))
			}
			q, k := optest.Filled(t, 1, dtype.Float32, kerneltest.Contiguous, []int64{tokens, 2 * size}), optest.Filled(t, 2, dtype.Float32, kerneltest.Contiguous, []int64{tokens, size})
			qOut, kOut := optest.Tensor(t, dtype.Float32, q.Shape), optest.Tensor(t, dtype.Float32, k.Shape)
			a := optest.Args{
				"positions": optest.Tensor(t, dtype.Int64, []int64{int64(len(sections)), tokens}, positions...), "queryIn": q, "keyIn": k, "cosSinCache": optest.Tensor(t, dtype.Float32, []int64{limit, 2 * half}, angles...),
				"mropeSection": sections, "headSize": size, "isNeoxStyle": halves, "queryOut": qOut, "keyOut": kOut,
			}
			optest.Run(t, "RopeWithSinCosCache", a)
			for _, x := range []struct{ in, out *op.Tensor }{{q, qOut}, {k, kOut}} {
				in, want := optest.Values(x.in), optest.Values(x.in)
				for head := 0; head < len(in); head += size {
					token := head / int(x.in.Shape[1])
					section, end := 0, sections[0]
					for i := range half {
						if i == end {
							section++
							end += sections[section]
						}
						row := int64(positions[section*tokens+token]) * 2 * half
						cos, sin := angles[row+i], angles[row+half+i]
						first, second := int64(head)+i, int64(head)+i+half
						if !halves {
							first, second = int64(head)+2*i, int64(head)+2*i+1
						}
						want[first], want[second] = in[first]*cos-in[second]*sin, in[second]*cos+in[first]*sin
					}
				}
				optest.CloseTo(t, fmt.Sprintf("%v halves %v", sections, halves), want, optest.Values(x.out), 2*optest.ResultLimit(dtype.Float32))
			}
			optest.Refused(t, op.InvalidParam, "RopeWithSinCosCache", a.With(optest.Args{"positions": optest.Tensor(t, dtype.Int64, []int64{tokens}, 1)}), "a row for each of mropeSection")
		}
	}
}
