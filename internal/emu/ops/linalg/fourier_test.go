package linalg

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// definition computes the transform of x directly from the definition.
func definition(x []complex128, w int) (sum complex128) {
	for k, v := range x {
		sum += v * cmplx.Rect(1, -2*math.Pi*float64(w*k%len(x))/float64(len(x)))
	}
	return sum
}

func TestFourierLengths(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 12, 64, 97, 100, 255} {
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(math.Sin(float64(i*i)), math.Cos(float64(3*i)))
		}
		got := slices.Clone(x)
		newFourier(n).transform(got)
		for w := range got {
			require.InDelta(t, 0, cmplx.Abs(definition(x, w)-got[w]), 1e-10*float64(n), "%d of %d", w, n)
		}
	}
}

func TestRfft1D(t *testing.T) {
	run1 := func(l kerneltest.Layout, shape []int64, axis int, n int64, mode int) {
		self := optest.Filled(t, 1, dtype.Float32, l, shape)
		place := (axis + len(shape)) % len(shape)
		into := slices.Clone(shape)
		into[place] = n/2 + 1
		out := optest.TensorIn(t, dtype.Float32, l, append(into, 2))
		optest.Run(t, "Rfft1D", optest.Args{"self": self, "n": n, "dim": axis, "norm": mode, "out": out})
		x, inner := optest.Values(self), op.Count(shape[place+1:])
		var want []float64
		for i := range op.Count(into[:place]) {
			for w := range n/2 + 1 {
				for j := range inner {
					row := make([]complex128, n)
					for k := range min(n, shape[place]) {
						row[k] = complex(x[(i*shape[place]+k)*inner+j], 0)
					}
					v := definition(row, int(w)) * complex([]float64{1, 1 / float64(n), 1 / math.Sqrt(float64(n))}[mode-1], 0)
					want = append(want, real(v), imag(v))
				}
			}
		}
		optest.CloseTo(t, fmt.Sprint(shape, axis, n), want, optest.Values(out), 1e-5)
	}
	for _, l := range kerneltest.Layouts {
		run1(l, []int64{4}, 0, 4, 1)
		run1(l, []int64{3, 5}, -1, 7, 2)
		run1(l, []int64{2, 6, 3}, 1, 5, 3)
		run1(l, []int64{2, 1}, -2, 1, 1)
	}
	x, out := optest.Tensor(t, dtype.Float32, []int64{4}, 1, 2, 3, 4), optest.Tensor(t, dtype.Float32, []int64{3, 2})
	a := optest.Args{"self": x, "n": 4, "dim": 0, "norm": 1, "out": out}
	optest.Run(t, "Rfft1D", a)
	optest.CloseTo(t, "1 2 3 4", []float64{10, 0, -2, 2, -2, 0}, optest.Values(out), 1e-6)
	for text, set := range map[string]optest.Args{
		"n is 4097": {"n": 4097}, "norm 0": {"norm": 0}, "out of range": {"dim": 1}, "frequencies": {"n": 6}, "dtype": {"self": optest.Tensor(t, dtype.Float16, []int64{4}, 1)},
		"is empty": {"self": optest.Tensor(t, dtype.Float32, []int64{0})},
	} {
		optest.Refused(t, op.InvalidParam, "Rfft1D", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "Rfft1D", a.With(optest.Args{"out": nil}), "out is null")
}

// complexTensor returns a tensor with the given complex numbers as elements.
func complexTensor(t *testing.T, d dtype.Type, shape []int64, x []complex128) *op.Tensor {
	var parts []float64
	for _, v := range x {
		parts = append(parts, real(v), imag(v))
	}
	z := optest.Of(optest.Tensor(t, op.PartTypes[d], append(slices.Clone(shape), 2), parts...).View())
	z.DType, z.Shape, z.Strides, z.Storage = d, shape, op.ContiguousStrides(shape), shape
	return z
}

func TestStft(t *testing.T) {
	for n, s := range []struct {
		shape           []int64
		fft, hop, width int64
		window, norm    bool
	}{
		{[]int64{8}, 4, 2, 4, true, false}, {[]int64{2, 21}, 6, 4, 3, true, true}, {[]int64{3, 10}, 10, 1, 10, false, false}, {[]int64{1, 9}, 5, 3, 2, false, true},
	} {
		for _, d := range []dtype.Type{dtype.Float32, dtype.Float64, dtype.Complex64, dtype.Complex128} {
			part, isComplex := op.PartTypes[d]
			whole := map[dtype.Type]dtype.Type{dtype.Float32: dtype.Complex64, dtype.Float64: dtype.Complex128, dtype.Complex64: d, dtype.Complex128: d}[d]
			if !isComplex {
				part = d
			}
			numbers := func(seed uint64, shape []int64) ([]complex128, *op.Tensor) {
				re, im := optest.Normal(seed, part, op.Count(shape)), optest.Normal(seed+1, part, op.Count(shape))
				z := make([]complex128, len(re))
				for i := range z {
					if z[i] = complex(re[i], 0); isComplex {
						z[i] += complex(0, im[i])
					}
				}
				if isComplex {
					return z, complexTensor(t, d, shape, z)
				}
				return z, optest.TensorIn(t, d, kerneltest.Layouts[n%len(kerneltest.Layouts)], shape, re...)
			}
			x, self := numbers(1, s.shape)
			w, window := numbers(5, []int64{s.width})
			if !s.window {
				window = nil
			}
			for _, half := range []bool{false, true} {
				if half && isComplex {
					continue
				}
				kept := s.fft
				if half {
					kept = s.fft/2 + 1
				}
				length := s.shape[len(s.shape)-1]
				frames := (length-s.fft)/s.hop + 1
				var want []float64
				for first := int64(0); first < int64(len(x)); first += length {
					for f := range kept {
						for m := range frames {
							row := make([]complex128, s.fft)
							for k := range s.width {
								at := (s.fft-s.width)/2 + k
								if row[at] = x[first+m*s.hop+at]; s.window {
									row[at] *= w[k]
								}
							}
							v := definition(row, int(f))
							if s.norm {
								v /= complex(math.Sqrt(float64(s.fft)), 0)
							}
							want = append(want, real(v), imag(v))
						}
					}
				}
				shape := append(slices.Clone(s.shape[:len(s.shape)-1]), kept, frames)
				apart, together := optest.Tensor(t, part, append(slices.Clone(shape), 2)), complexTensor(t, whole, shape, make([]complex128, op.Count(shape)))
				a := optest.Args{"self": self, "windowOptional": window, "nFft": s.fft, "hopLength": s.hop, "winLength": s.width, "normalized": s.norm, "onesided": half}
				optest.Run(t, "Stft", a.With(optest.Args{"out": apart}))
				optest.CloseTo(t, fmt.Sprint(s, d), want, optest.Values(apart), 1e-5)
				optest.Run(t, "Stft", a.With(optest.Args{"out": together, "returnComplex": true}))
				together.DType, together.Shape, together.Strides = part, apart.Shape, apart.Strides
				require.Equal(t, optest.Values(apart), optest.Values(together), "%v %v", s, d)
			}
		}
	}
	x := optest.Tensor(t, dtype.Float32, []int64{8}, 1)
	a := optest.Args{"self": x, "nFft": 4, "hopLength": 2, "winLength": 4, "out": optest.Tensor(t, dtype.Float32, []int64{4, 3, 2})}
	optest.Run(t, "Stft", a)
	for text, set := range map[string]optest.Args{
		"hopLength 0": {"hopLength": 0}, "winLength 5": {"winLength": 5}, "nFft is 9": {"nFft": 9}, "complex type": {"returnComplex": true}, "frequencies and windows": {"onesided": true},
		"dtypes differ": {"windowOptional": optest.Tensor(t, dtype.Float64, []int64{4})}, "is complex": {"self": complexTensor(t, dtype.Complex64, []int64{8}, make([]complex128, 8)), "onesided": true},
		"(winLength)": {"windowOptional": optest.Tensor(t, dtype.Float32, []int64{3})},
	} {
		optest.Refused(t, op.InvalidParam, "Stft", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "Stft", a.With(optest.Args{"self": nil}), "self is null")
	x.Format = dtype.HWCN
	optest.Refused(t, op.InvalidParam, "Stft", a, "the format ND")
}
