package layout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// hansArgs returns the arguments for n elements, with room for some bytes of code beyond fixed.
func hansArgs(t *testing.T, d dtype.Type, l kerneltest.Layout, whole *op.Tensor, rest int64) optest.Args {
	n, size := whole.Len(), int64(d.Size())
	return optest.Args{
		"inputTensor": whole, "pdfRef": optest.TensorIn(t, dtype.Int32, l, []int64{1, 256}, 1), "statistic": true, "mantissaOut": optest.TensorIn(t, d, l, []int64{1, n * (size - 1) / size}),
		"fixedOut": optest.TensorIn(t, d, l, []int64{1, n / size}), "varOut": optest.TensorIn(t, d, l, []int64{1, rest}),
	}
}

func decodingArgs(t *testing.T, d dtype.Type, l kerneltest.Layout, a optest.Args) optest.Args {
	return optest.Args{"mantissa": a["mantissaOut"], "fixed": a["fixedOut"], "var": a["varOut"], "pdf": a["pdfRef"], "out": optest.TensorIn(t, d, l, a["inputTensor"].(*op.Tensor).Shape)}
}

func TestHans(t *testing.T) {
	const n = 32768
	for i, d := range op.FloatTypes {
		for kind, data := range map[string][]float64{"numbers": optest.Normal(1, d, n), "one number": {1}, "zeros": {0}} {
			l := kerneltest.Layouts[i%len(kerneltest.Layouts)]
			whole := optest.TensorIn(t, d, l, []int64{2, n / 2}, data...)
			a := hansArgs(t, d, l, whole, n)
			optest.Run(t, "HansEncode", a)
			counts, total := optest.Values(a["pdfRef"].(*op.Tensor)), 0.0
			for _, c := range counts {
				total += c
			}
			require.Equal(t, float64(n), total, "%v %s", d, kind)
			b := decodingArgs(t, d, l, a)
			optest.Run(t, "HansDecode", b)
			require.Equal(t, optest.Values(whole), optest.Values(b["out"].(*op.Tensor)), "%v %s", d, kind)
			// The same shares also compress other values if there is enough room.
			second := optest.TensorIn(t, d, l, []int64{2, n / 2}, optest.Normal(2, d, n)...)
			a = a.With(optest.Args{"inputTensor": second, "statistic": false, "varOut": optest.TensorIn(t, d, l, []int64{1, 2 * n})})
			optest.Run(t, "HansEncode", a)
			b = decodingArgs(t, d, l, a)
			optest.Run(t, "HansDecode", b)
			require.Equal(t, optest.Values(second), optest.Values(b["out"].(*op.Tensor)), "%v after %s", d, kind)
		}
	}
}

func TestHansRefuses(t *testing.T) {
	const n = 32768
	d, l := dtype.Float32, kerneltest.Contiguous
	a := hansArgs(t, d, l, optest.Tensor(t, d, []int64{n}, optest.Normal(1, d, n)...), 64)
	optest.Run(t, "HansEncode", a)
	for text, set := range map[string]optest.Args{
		"multiple of 64": {"inputTensor": optest.Tensor(t, d, []int64{100})}, "without exponents": {"mantissaOut": optest.Tensor(t, d, []int64{5})}, "512 bytes": {"fixedOut": optest.Tensor(t, d, []int64{5})},
		"count for each byte": {"pdfRef": optest.Tensor(t, dtype.Int32, []int64{256})}, "dtypes differ": {"varOut": optest.Tensor(t, dtype.Float16, []int64{5})},
	} {
		optest.Refused(t, op.InvalidParam, "HansEncode", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "HansEncode", a.With(optest.Args{"pdfRef": nil}), "pdfRef is null")
	require.ErrorContains(t, optest.Execute(t, "HansEncode", a.With(optest.Args{"fixedOut": optest.Tensor(t, d, []int64{128})})), "have room for")
	b := decodingArgs(t, d, l, a)
	require.ErrorContains(t, optest.Execute(t, "HansDecode", b.With(optest.Args{"fixed": optest.Tensor(t, d, []int64{128}, 0)})), "no code")
	require.ErrorContains(t, optest.Execute(t, "HansDecode", b.With(optest.Args{"pdf": optest.Tensor(t, dtype.Int32, []int64{1, 256}, -1)})), "a count of -1")
	short := a["fixedOut"].(*op.Tensor)
	require.ErrorContains(t, optest.Execute(t, "HansDecode", b.With(optest.Args{"fixed": optest.Tensor(t, d, []int64{128}, optest.Values(short)[:128]...), "var": optest.Tensor(t, d, []int64{1})})), "the code is")
}
