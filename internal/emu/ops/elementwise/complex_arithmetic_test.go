package elementwise

import (
	"encoding/binary"
	"math"
	"math/cmplx"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// complexOf returns a complex tensor and the tensor of its parts, [..., 2].
func complexOf(t *testing.T, seed uint64, d dtype.Type, shape ...int64) (x, parts *op.Tensor) {
	part := op.PartTypes[d]
	parts = optest.Filled(t, seed, part, kerneltest.Contiguous, append(append([]int64{}, shape...), 2))
	x = optest.Of(parts.View())
	x.DType, x.Shape, x.Strides = d, shape, op.ContiguousStrides(shape)
	return x, parts
}

func numbers(parts *op.Tensor) []complex128 {
	v := optest.Values(parts)
	out := make([]complex128, len(v)/2)
	for i := range out {
		out[i] = complex(v[2*i], v[2*i+1])
	}
	return out
}

func scalarOf(v complex64) *op.Scalar {
	s := &op.Scalar{DType: dtype.Complex64}
	binary.LittleEndian.PutUint32(s.Bits[:], math.Float32bits(real(v)))
	binary.LittleEndian.PutUint32(s.Bits[4:], math.Float32bits(imag(v)))
	return s
}

func TestComplexArithmetic(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		x, xs := complexOf(t, 1, d, 3, 1)
		y, ys := complexOf(t, 2, d, 4)
		out, outs := complexOf(t, 3, d, 3, 4)
		same := func(want func(a, b complex128) complex128) {
			t.Helper()
			got := numbers(outs)
			for i, a := range numbers(xs) {
				for k, b := range numbers(ys) {
					assert.InDelta(t, 0, cmplx.Abs(want(a, b)-got[4*i+k]), 1e-5*(1+cmplx.Abs(got[4*i+k])), "%v %v", a, b)
				}
			}
		}
		optest.Run(t, "Mul", optest.Args{"self": x, "other": y, "out": out})
		same(func(a, b complex128) complex128 { return a * b })
		optest.Run(t, "Add", optest.Args{"self": x, "other": y, "alpha": scalarOf(2 - 1i), "out": out})
		same(func(a, b complex128) complex128 { return a + (2-1i)*b })
		optest.Run(t, "Sub", optest.Args{"self": x, "other": y, "alpha": scalarOf(1i), "out": out})
		same(func(a, b complex128) complex128 { return a - 1i*b })
		optest.Run(t, "Rsub", optest.Args{"self": x, "other": y, "alpha": scalarOf(3), "out": out})
		same(func(a, b complex128) complex128 { return b - 3*a })
		optest.Run(t, "Div", optest.Args{"self": x, "other": y, "out": out})
		same(func(a, b complex128) complex128 { return a / b })

		z, zs := complexOf(t, 4, d, 3, 1)
		for name, fn := range map[string]func(complex128) complex128{
			"Neg": func(a complex128) complex128 { return -a }, "Sin": cmplx.Sin, "Cos": cmplx.Cos, "Exp": cmplx.Exp, "Sqrt": cmplx.Sqrt, "Log": cmplx.Log,
			"Asinh": cmplx.Asinh, "Acosh": cmplx.Acosh, "Atanh": cmplx.Atanh,
		} {
			a := optest.Args{"out": z}
			for _, p := range op.Find(name).Params[:1] {
				a[p.Name] = x
			}
			optest.Run(t, name, a)
			for i, v := range numbers(xs) {
				assert.InDelta(t, 0, cmplx.Abs(fn(v)-numbers(zs)[i]), 1e-5*(1+cmplx.Abs(fn(v))), "%s %v", name, v)
			}
		}
		if d == dtype.Complex64 {
			length := optest.Tensor(t, dtype.Float32, []int64{3, 1})
			optest.Run(t, "Abs", optest.Args{"self": x, "out": length})
			for i, v := range numbers(xs) {
				assert.InDelta(t, cmplx.Abs(v), optest.Values(length)[i], 1e-6)
			}
		}
	}
	x, _ := complexOf(t, 1, dtype.Complex64, 2)
	optest.Refused(t, op.InvalidParam, "Mul", optest.Args{"self": x, "other": x, "out": optest.Tensor(t, dtype.Float32, []int64{2})}, "")
}

// CANN does not limit the dimensions of Sign.
func TestManyDimensions(t *testing.T) {
	shape := []int64{1, 2, 1, 1, 2, 1, 1, 3, 2}
	x, out := optest.Filled(t, 1, dtype.Float32, kerneltest.Contiguous, shape), optest.Tensor(t, dtype.Float32, shape)
	optest.Run(t, "Sign", optest.Args{"self": x, "result": out})
	for i, v := range optest.Values(x) {
		assert.Equal(t, math.Copysign(1, v), optest.Values(out)[i])
	}
}

func TestComplexLogarithms(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		x, xs := complexOf(t, 4, d, 3, 5)
		out, outs := complexOf(t, 5, d, 3, 5)
		for name, base := range map[string]float64{"Log2": 2, "Log10": 10} {
			optest.Run(t, name, optest.Args{"self": x, "out": out})
			got := numbers(outs)
			for i, v := range numbers(xs) {
				assert.InDelta(t, 0, cmplx.Abs(cmplx.Log(v)/complex(math.Log(base), 0)-got[i]), 1e-5, "%s of %v", name, v)
			}
		}
	}
}

// Quotients and remainders of real numbers may be stored as complex ones.
func TestRealResultsAsComplex(t *testing.T) {
	x, y := optest.Tensor(t, dtype.Float32, []int64{3}, 7, -7, 8), optest.Tensor(t, dtype.Float32, []int64{3}, 2)
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		for _, c := range []struct {
			name string
			args optest.Args
			want []complex128
		}{
			{"FloorDivide", optest.Args{"other": y}, []complex128{3, -4, 4}},
			{"RemainderTensorScalar", optest.Args{"other": optest.Scalar(2)}, []complex128{1, 1, 0}},
			{"DivMods", optest.Args{"other": optest.Scalar(2), "mode": 1}, []complex128{3, -3, 4}},
		} {
			out, parts := complexOf(t, 1, d, 3)
			optest.Run(t, c.name, c.args.With(optest.Args{"self": x, "out": out}))
			assert.Equal(t, c.want, numbers(parts), c.name)
		}
		z, parts := complexOf(t, 1, d, 3)
		out, quotients := complexOf(t, 2, d, 3)
		for i, v := range numbers(parts) {
			optest.Run(t, "DivMods", optest.Args{"self": z, "other": scalarOf(2i), "mode": 0, "out": out})
			assert.InDelta(t, 0, cmplx.Abs(v/2i-numbers(quotients)[i]), 1e-6)
		}
		optest.Run(t, "InplaceDivMods", optest.Args{"selfRef": z, "other": scalarOf(2i), "mode": 0})
		assert.Equal(t, numbers(quotients), numbers(parts))
	}
}

// The sources of Mul ask before the 950 whether the output can store the product, those of Muls on the 950 only. Otherwise the
// product is cast: integers lose the fraction, real numbers the imaginary part.
func TestNarrowProducts(t *testing.T) {
	f := optest.Tensor(t, dtype.Float32, []int64{3}, 1.5, -2.5, 3)
	two := optest.Tensor(t, dtype.Float32, []int64{1}, 1.25)
	for _, chip := range []acceptance.Chip{acceptance.Ascend910, acceptance.Ascend910B, acceptance.Ascend910_93, acceptance.Ascend310P, acceptance.Ascend950} {
		for _, name := range []string{"Mul", "Muls", "InplaceMul", "InplaceMuls"} {
			out := optest.Tensor(t, dtype.Int32, []int64{3}, 1, -2, 3)
			args := optest.Args{"self": f, "other": two, "out": out}
			want := []float64{1, -3, 3}
			if strings.HasPrefix(name, "Inplace") {
				args, want = optest.Args{"selfRef": out, "other": two}, []float64{1, -2, 3}
			}
			if strings.HasSuffix(name, "s") {
				args["other"] = optest.Scalar(1.25)
			}
			e, err := optest.PrepareIn(t, op.Env{Chip: chip}, name, args)
			if (chip == acceptance.Ascend950) == strings.HasSuffix(name, "s") {
				assert.Error(t, err, "%v %s", chip, name)
				continue
			}
			if !assert.NoError(t, err, "%v %s", chip, name) {
				continue
			}
			require.NoError(t, optest.Together([]*op.Executor{e}, []uint64{optest.WorkspaceOf(t, e)}))
			assert.Equal(t, want, optest.Values(out), "%v %s", chip, name)
		}
	}
	c := optest.Tensor(t, dtype.Complex64, []int64{2})
	require.NoError(t, c.SetNumbers([]complex128{1 + 2i, 1i}))
	for d, want := range map[dtype.Type][]float64{dtype.Float32: {-3, -1}, dtype.Bool: {1, 1}} {
		out := optest.Tensor(t, d, []int64{2})
		e, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "Mul", optest.Args{"self": c, "other": c, "out": out})
		require.NoError(t, err)
		require.NoError(t, optest.Together([]*op.Executor{e}, []uint64{optest.WorkspaceOf(t, e)}))
		assert.Equal(t, want, optest.Values(out), d)
	}
}

// Atan2 casts its result to the type of any output.
func TestNarrowAngles(t *testing.T) {
	y, x := optest.Tensor(t, dtype.Float32, []int64{3}, 1, -4, 0), optest.Tensor(t, dtype.Int16, []int64{1}, -1)
	for d, want := range map[dtype.Type][]float64{dtype.Int8: {2, -1, 3}, dtype.Bool: {1, 1, 1}} {
		out := optest.Tensor(t, d, []int64{3})
		optest.Run(t, "Atan2", optest.Args{"self": y, "other": x, "out": out})
		assert.Equal(t, want, optest.Values(out), d)
	}
	self := optest.Tensor(t, dtype.Int32, []int64{3}, 1, -4, 0)
	optest.Run(t, "InplaceAtan2", optest.Args{"selfRef": self, "other": optest.Tensor(t, dtype.Float32, []int64{3}, -1)})
	assert.Equal(t, []float64{2, -1, 3}, optest.Values(self))
}

// One element without dimensions and with one are the same to remainders of two tensors, but not on the 950, and not in place.
func TestRemaindersOfOneElement(t *testing.T) {
	one := func(rank int, v float64) *op.Tensor {
		return optest.Tensor(t, dtype.Float32, []int64{1}[:rank], v)
	}
	for i := range 8 {
		args := optest.Args{"self": one(i&1, 7), "other": one(i>>1&1, 4), "out": one(i>>2, 0)}
		optest.Run(t, "RemainderTensorTensor", args)
		assert.Equal(t, []float64{3}, optest.Values(args["out"].(*op.Tensor)))
		_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "RemainderTensorTensor", args)
		assert.Equal(t, (i&1|i>>1&1) == i>>2, err == nil, i)
	}
	optest.Refused(t, op.InvalidParam, "InplaceRemainderTensorTensor", optest.Args{"selfRef": one(0, 7), "other": one(1, 4)}, "broadcast shape")
}

// Remainders of a tensor and a scalar are computed in the types of remainders of tensors: narrow integers are refused, bools with an int64 are not.
func TestRemaindersOfNarrowIntegers(t *testing.T) {
	for d, refused := range map[dtype.Type]bool{dtype.Int8: true, dtype.Uint8: true, dtype.Int16: true, dtype.Int32: false, dtype.Bool: false} {
		args := optest.Args{"self": optest.Tensor(t, d, []int64{2}, 1), "other": optest.Scalar(3), "out": optest.Tensor(t, dtype.Int64, []int64{2})}
		inPlace := optest.Args{"selfRef": args["self"], "other": args["other"]}
		if refused {
			optest.Refused(t, op.InvalidParam, "RemainderTensorScalar", args, "use operands that are computed in one of")
			optest.Refused(t, op.InvalidParam, "InplaceRemainderTensorScalar", inPlace, "use operands that are computed in one of")
			continue
		}
		optest.Run(t, "RemainderTensorScalar", args)
		assert.Equal(t, []float64{1, 1}, optest.Values(args["out"].(*op.Tensor)))
	}
	x := optest.Tensor(t, dtype.BFloat16, []int64{2}, 1)
	for chip, refused := range map[acceptance.Chip]bool{acceptance.Ascend910: true, acceptance.Ascend310P: true, acceptance.Ascend910B: false, acceptance.Ascend950: false} {
		_, err := optest.PrepareIn(t, op.Env{Chip: chip}, "InplaceRemainderTensorScalar", optest.Args{"selfRef": x, "other": optest.Scalar(3)})
		assert.Equal(t, refused, err != nil, "%v: %v", chip, err)
	}
}
