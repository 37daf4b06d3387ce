package nn

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// hansArgs are tensors for a whole of n elements, whose code may have some bytes beyond fixed.
func hansArgs(t *testing.T, d dtype.Type, l kerneltest.Layout, whole *Tensor, rest int64) args {
	n, size := whole.Len(), int64(d.Size())
	return args{
		"inputTensor": whole, "pdfRef": tensorIn(t, dtype.Int32, l, []int64{1, 256}, 1), "statistic": true, "mantissaOut": tensorIn(t, d, l, []int64{1, n * (size - 1) / size}),
		"fixedOut": tensorIn(t, d, l, []int64{1, n / size}), "varOut": tensorIn(t, d, l, []int64{1, rest}),
	}
}

func decodingArgs(t *testing.T, d dtype.Type, l kerneltest.Layout, a args) args {
	return args{"mantissa": a["mantissaOut"], "fixed": a["fixedOut"], "var": a["varOut"], "pdf": a["pdfRef"], "out": tensorIn(t, d, l, a["inputTensor"].(*Tensor).Shape)}
}

func TestHans(t *testing.T) {
	const n = 32768
	for i, d := range transformerTypes {
		for kind, data := range map[string][]float64{"numbers": normal(1, d, n), "one number": {1}, "zeros": {0}} {
			l := kerneltest.Layouts[i%len(kerneltest.Layouts)]
			whole := tensorIn(t, d, l, []int64{2, n / 2}, data...)
			a := hansArgs(t, d, l, whole, n)
			run(t, "HansEncode", a)
			counts, total := values(a["pdfRef"].(*Tensor)), 0.0
			for _, c := range counts {
				total += c
			}
			require.Equal(t, float64(n), total, "%v %s", d, kind)
			b := decodingArgs(t, d, l, a)
			run(t, "HansDecode", b)
			require.Equal(t, values(whole), values(b["out"].(*Tensor)), "%v %s", d, kind)
			// The same shares compress other numbers too, if there is room.
			second := tensorIn(t, d, l, []int64{2, n / 2}, normal(2, d, n)...)
			a = a.with(args{"inputTensor": second, "statistic": false, "varOut": tensorIn(t, d, l, []int64{1, 2 * n})})
			run(t, "HansEncode", a)
			b = decodingArgs(t, d, l, a)
			run(t, "HansDecode", b)
			require.Equal(t, values(second), values(b["out"].(*Tensor)), "%v after %s", d, kind)
		}
	}
}

func TestHansRefuses(t *testing.T) {
	const n = 32768
	d, l := dtype.Float32, kerneltest.Contiguous
	a := hansArgs(t, d, l, tensor(t, d, []int64{n}, normal(1, d, n)...), 64)
	run(t, "HansEncode", a)
	for text, set := range map[string]args{
		"multiple of 64": {"inputTensor": tensor(t, d, []int64{100})}, "without exponents": {"mantissaOut": tensor(t, d, []int64{5})}, "512 bytes": {"fixedOut": tensor(t, d, []int64{5})},
		"count for each byte": {"pdfRef": tensor(t, dtype.Int32, []int64{256})}, "dtypes differ": {"varOut": tensor(t, dtype.Float16, []int64{5})},
	} {
		refused(t, invalidParam, "HansEncode", a.with(set), text)
	}
	refused(t, nullPointer, "HansEncode", a.with(args{"pdfRef": nil}), "pdfRef is null")
	require.ErrorContains(t, execute(t, "HansEncode", a.with(args{"fixedOut": tensor(t, d, []int64{128})})), "have room for")
	b := decodingArgs(t, d, l, a)
	require.ErrorContains(t, execute(t, "HansDecode", b.with(args{"fixed": tensor(t, d, []int64{128}, 0)})), "no code")
	require.ErrorContains(t, execute(t, "HansDecode", b.with(args{"pdf": tensor(t, dtype.Int32, []int64{1, 256}, -1)})), "a count of -1")
	short := a["fixedOut"].(*Tensor)
	require.ErrorContains(t, execute(t, "HansDecode", b.with(args{"fixed": tensor(t, d, []int64{128}, values(short)[:128]...), "var": tensor(t, d, []int64{1})})), "the code is")
}

// Any bytes come back under any counts; a code that was changed is refused or gives other bytes,
// and nothing else happens.
func TestByteShares(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		counts := make([]int64, 256)
		for i := range rapid.IntRange(0, 256).Draw(r, "kinds") {
			counts[i] = rapid.Int64Range(0, 1<<31-1).Draw(r, "count")
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		bytes := make([]byte, rapid.IntRange(0, 300).Draw(r, "length"))
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		s, err := newByteShares(counts)
		require.NoError(t, err)
		code, state := s.encode(bytes)
		got := make([]byte, len(bytes))
		require.NoError(t, s.decode(got, code, state))
		require.Equal(t, bytes, got)
		for i := range code {
			code[i] ^= byte(random.Uint32())
		}
		_ = s.decode(got, code, state)
	})
}
