package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// nz is a weight in FRACTAL_NZ storage.
func nz(b *opstest.Bench, w *aclnn.Tensor) *aclnn.Tensor {
	b.T.Helper()
	buf, err := b.Stream.Malloc(aclnn.NZBytes(w.DType(), w.Shape()...))
	require.NoError(b.T, err)
	b.T.Cleanup(func() { require.NoError(b.T, buf.Close()) })
	require.NoError(b.T, b.Stream.Memset(buf, 0xff, buf.Size()))
	t, err := aclnn.Wrap(buf, w.DType(), w.Shape()...)
	require.NoError(b.T, err)
	require.NoError(b.T, aclnn.NpuFormatCast(b.Stream, aclnn.NpuFormatCastParams{SrcTensor: w, DstTensor: t.AsNZ()}))
	return t.AsNZ()
}

// weightForms are the ways a weight [groups, in, out] may be stored.
var weightForms = map[string]func(b *opstest.Bench, w *aclnn.Tensor) *aclnn.Tensor{
	"ND": func(_ *opstest.Bench, w *aclnn.Tensor) *aclnn.Tensor { return w },
	"NZ": nz,
	"transposed ND": func(b *opstest.Bench, w *aclnn.Tensor) *aclnn.Tensor {
		return b.Copied(w.Transpose(1, 2)).Transpose(1, 2)
	},
	"transposed NZ": func(b *opstest.Bench, w *aclnn.Tensor) *aclnn.Tensor {
		return nz(b, b.Copied(w.Transpose(1, 2))).Transpose(1, 2)
	},
}

// lists are the ways to pass the sizes of groups.
func lists(b *opstest.Bench, sizes []int64) map[string]ops.Groups {
	ends, n := make([]int64, len(sizes)), int64(0)
	for i, s := range sizes {
		n += s
		ends[i] = n
	}
	e := int64(len(sizes))
	return map[string]ops.Groups{
		"sizes on the host": {Host: sizes}, "ends on the host": {Host: ends, Cumulative: true},
		"sizes": {Device: opstest.Data(b, aclnn.Int64, sizes, e)}, "ends": {Device: opstest.Data(b, aclnn.Int64, ends, e), Cumulative: true},
		"int32 sizes": {Device: opstest.Data(b, aclnn.Int32, opstest.Convert(sizes, func(n int64) int32 { return int32(n) }), e)},
	}
}

func groupedKernels(t *testing.T, test func(b *opstest.Bench) bool) {
	everyKernel(t, func(r *ops.Registry) dispatched { return r.GroupedMatmul() },
		func(r *ops.Registry) dispatched { return r.GroupedMatmulGrad() }, test)
}

// TestGroupedMatmul tests every kernel with every list and storage of the weight.
func TestGroupedMatmul(t *testing.T) {
	for name, c := range map[string]*opstest.GroupedCase{
		"odd":         opstest.NewGroupedCase(aclnn.Float32, 7, 5, 3, 0, 4, 1),
		"tiles":       opstest.NewGroupedCase(aclnn.BFloat16, 32, 48, 0, 5, 17, 0),
		"half":        opstest.NewGroupedCase(aclnn.Float16, 16, 16, 9),
		"one element": opstest.NewGroupedCase(aclnn.Float32, 1, 1, 1),
		"one column":  opstest.NewGroupedCase(aclnn.BFloat16, 1, 3, 2, 1),
		"one output":  opstest.NewGroupedCase(aclnn.Float16, 3, 1, 0, 4),
		"no rows":     opstest.NewGroupedCase(aclnn.BFloat16, 16, 32, 0, 0),
		"no rows f32": opstest.NewGroupedCase(aclnn.Float32, 4, 3, 0),
	} {
		for form, store := range weightForms {
			t.Run(name+"/"+form, func(t *testing.T) {
				if c.DType == aclnn.Float32 && c.K == 1 && form != "ND" && form != "transposed ND" {
					t.Skip("a matrix of one element has no FRACTAL_NZ product")
				}
				if (c.K == 1 || c.N == 1) && (form == "NZ" || form == "transposed NZ") {
					t.Skip("CANN has no product with such a FRACTAL_NZ weight; see TestGroupedMatmulRefused")
				}
				groupedKernels(t, func(b *opstest.Bench) bool {
					ran := false
					for _, list := range lists(b, c.Sizes) {
						ran = c.Check(b, store, list) || ran
					}
					return ran
				})
			})
		}
	}
}

// TestGroupedMatmulManyGroups tests the longest list that CANN's kernels take, and one group more,
// for which one product per group is used.
func TestGroupedMatmulManyGroups(t *testing.T) {
	b := opstest.New(t)
	for _, groups := range []int64{1024, 1025} {
		sizes := make([]int64, groups)
		sizes[0], sizes[groups-1] = 2, 3
		c := opstest.NewGroupedCase(aclnn.Float32, 3, 2, sizes...)
		list := ops.Groups{Host: sizes}
		a := &ops.GroupedMatmulArgs{
			X: b.Floats(c.DType, c.X, 5, 3), Weight: b.Floats(c.DType, c.W, groups, 3, 2), Groups: list, Out: b.Empty(c.DType, 5, 2),
		}
		want := "GroupedMatmulV5"
		if groups > 1024 {
			want = "per_group"
			require.Contains(t, b.GroupedMatmul().Explain(a).String(), "there are more than 1024 groups")
		}
		require.Equal(t, want, b.GroupedMatmul().Explain(a).Kernel)
		require.True(t, c.Check(b, weightForms["ND"], list))
	}
}

func TestGoldenGroupedMatmul(t *testing.T) {
	for _, g := range golden.Cases(t, "grouped_matmul") {
		g.Run(t, func(t *testing.T, g *golden.Case) {
			c := &opstest.GroupedCase{
				DType: g.DType, K: g.Int("K"), N: g.Int("N"), Sizes: opstest.Convert(g.Ints("sizes"), func(n int) int64 { return int64(n) }),
				X: g.Float32("x"), W: g.Float32("w"), DY: g.Float32("dy"), Y: g.Float32("y"), DX: g.Float32("dx"), DW: g.Float32("dw"),
			}
			c.DBias = newBiasGrad(c)
			for form, store := range weightForms {
				t.Run(form, func(t *testing.T) {
					groupedKernels(t, func(b *opstest.Bench) bool {
						ran := c.Check(b, store, ops.Groups{Device: opstest.Data(b, aclnn.Int64, g.Int64("group_list"), c.Groups()), Cumulative: true})
						return c.Check(b, store, ops.Groups{Host: g.Int64("group_list"), Cumulative: true}) || ran
					})
				})
			}
		})
	}
}

func newBiasGrad(c *opstest.GroupedCase) (sums []float32) {
	at := 0
	for _, s := range c.Sizes {
		dy := c.DY[at*c.N:]
		sums = append(sums, opstest.Product(1, int(s), c.N, func(int, int) float32 { return 1 }, func(l, j int) float32 { return dy[l*c.N+j] })...)
		at += int(s)
	}
	return sums
}

// TestGroupedMatmulActivation tests bias and activation on rows with gaps between them.
func TestGroupedMatmulActivation(t *testing.T) {
	functions := map[ops.Activation]func(x float64) float64{
		ops.Identity: func(x float64) float64 { return x },
		ops.ReLU:     func(x float64) float64 { return max(x, 0) },
		ops.GELU: func(x float64) float64 {
			return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		},
		ops.SiLU: func(x float64) float64 { return x / (1 + math.Exp(-x)) },
	}
	for _, dt := range opstest.FloatTypes {
		c := opstest.NewGroupedCase(dt, 6, 4, 2, 0, 3)
		biasType := dt
		if dt == aclnn.BFloat16 {
			biasType = aclnn.Float32
		}
		bias := opstest.Random(biasType, 9, 12)
		for act, f := range functions {
			t.Run(fmt.Sprintf("%v/%d", dt, act), func(t *testing.T) {
				b := opstest.New(t)
				want := make([]float32, len(c.Y))
				for i := range want {
					g := 0
					if i/c.N >= 2 {
						g = 2
					}
					want[i] = float32(f(float64(c.Y[i] + bias[g*c.N+i%c.N])))
				}
				for _, k := range b.GroupedMatmul().Kernels()[1:] { // the first takes FRACTAL_NZ only
					require.NoError(t, b.GroupedMatmul().Pin(k))
					out := b.Empty(dt, 5, 4)
					opstest.Run(b, b.GroupedMatmul(), &ops.GroupedMatmulArgs{
						X: gaps(b, b.Floats(dt, c.X, 5, 6)), Weight: b.Floats(dt, c.W, 3, 6, 4), Bias: b.Floats(biasType, bias, 3, 4),
						Groups: ops.Groups{Host: c.Sizes}, Activation: act, Out: out,
					})
					b.Near(k, out, want, 3*opstest.Tolerance(dt))
					require.NoError(t, b.GroupedMatmul().Unpin())
				}
			})
		}
	}
}

// TestGroupedMatmulRandom: random groups through every kernel, against the definition.
func TestGroupedMatmulRandom(t *testing.T) {
	b := opstest.New(t)
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 6).Draw(r, "sizes")
		k, n := rapid.IntRange(1, 20).Draw(r, "k"), rapid.IntRange(1, 20).Draw(r, "n")
		c := opstest.NewGroupedCase(rapid.SampledFrom(opstest.FloatTypes).Draw(r, "dtype"), k, n, sizes...)
		inner := &opstest.Bench{Registry: b.Registry, T: t, Stream: b.Stream}
		lists := lists(inner, sizes)
		list := lists[rapid.SampledFrom([]string{"sizes on the host", "ends on the host", "sizes", "ends", "int32 sizes"}).Draw(r, "list")]
		form := weightForms[rapid.SampledFrom([]string{"ND", "transposed ND"}).Draw(r, "form")]
		for _, kernel := range b.GroupedMatmul().Kernels()[1:] { // the first takes FRACTAL_NZ only
			require.NoError(r, b.GroupedMatmul().Pin(kernel))
			require.NoError(r, b.GroupedMatmulGrad().Pin(kernel))
			require.Equal(r, kernel != "per_group" || list.Device == nil, c.Check(inner, form, list))
			require.NoError(r, b.GroupedMatmul().Unpin())
			require.NoError(r, b.GroupedMatmulGrad().Unpin())
		}
	})
}

// TestGroupedMatmulRefused checks that invalid arguments are refused before launch, and that
// kernels give the reason for what they do not support.
func TestGroupedMatmulRefused(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.BFloat16, shape...) }
	valid := func() *ops.GroupedMatmulArgs {
		return &ops.GroupedMatmulArgs{X: f(6, 16), Weight: f(3, 16, 32), Groups: ops.Groups{Host: []int64{1, 2, 3}}, Out: f(6, 32)}
	}
	for name, c := range map[string]struct {
		change func(a *ops.GroupedMatmulArgs)
		text   string
	}{
		"no list":     {func(a *ops.GroupedMatmulArgs) { a.Groups = ops.Groups{} }, "one of Device and Host"},
		"two lists":   {func(a *ops.GroupedMatmulArgs) { a.Groups.Device = b.Empty(aclnn.Int64, 3) }, "one of Device and Host"},
		"short":       {func(a *ops.GroupedMatmulArgs) { a.Groups.Host = []int64{3, 3} }, "Groups has 2 groups, the weight 3"},
		"too few":     {func(a *ops.GroupedMatmulArgs) { a.Groups.Host = []int64{1, 2, 2} }, "Groups.Host holds 5 rows, X has 6"},
		"too many":    {func(a *ops.GroupedMatmulArgs) { a.Groups.Host = []int64{1, 2, 4} }, "Groups.Host holds 7 rows, X has 6"},
		"negative":    {func(a *ops.GroupedMatmulArgs) { a.Groups.Host = []int64{7, -1, 0} }, "group 0 of Groups.Host has 7 of the 6 rows"},
		"decreasing":  {func(a *ops.GroupedMatmulArgs) { a.Groups = ops.Groups{Host: []int64{4, 3, 6}, Cumulative: true} }, "group 1 of Groups.Host has -1 of the 6 rows (Cumulative is true)"},
		"overflow":    {func(a *ops.GroupedMatmulArgs) { a.Groups.Host = []int64{math.MaxInt64, math.MaxInt64, 8} }, "group 0"},
		"float list":  {func(a *ops.GroupedMatmulArgs) { a.Groups = ops.Groups{Device: b.Empty(aclnn.Float32, 3)} }, "Groups.Device is float32[3]ND"},
		"wide list":   {func(a *ops.GroupedMatmulArgs) { a.Groups = ops.Groups{Device: b.Empty(aclnn.Int64, 3, 2)} }, "must be [groups]"},
		"rank":        {func(a *ops.GroupedMatmulArgs) { a.X = f(2, 3, 16) }, "it must be [rows, in]"},
		"no groups":   {func(a *ops.GroupedMatmulArgs) { a.Weight = f(0, 16, 32) }, "none of them 0"},
		"inner":       {func(a *ops.GroupedMatmulArgs) { a.Weight = f(3, 17, 32) }, "its columns must be the 17 rows"},
		"dtype":       {func(a *ops.GroupedMatmulArgs) { a.Weight = b.Empty(aclnn.Float16, 3, 16, 32) }, "Weight is float16"},
		"NZ dtype":    {func(a *ops.GroupedMatmulArgs) { a.Weight = b.Empty(aclnn.Float16, 3, 16, 32).AsNZ() }, "its dtype must be"},
		"out":         {func(a *ops.GroupedMatmulArgs) { a.Out = f(6, 31) }, "Out is bfloat16[6,31]ND; its shape must be [6 32]"},
		"bias dtype":  {func(a *ops.GroupedMatmulArgs) { a.Bias = f(3, 32) }, "Bias is bfloat16[3,32]ND; its dtype must be one of [float32]"},
		"bias":        {func(a *ops.GroupedMatmulArgs) { a.Bias = b.Empty(aclnn.Float32, 32) }, "its shape must be [3 32]"},
		"activation":  {func(a *ops.GroupedMatmulArgs) { a.Activation = 9 }, "Activation is 9"},
		"broken view": {func(a *ops.GroupedMatmulArgs) { a.Weight = a.Weight.AsNZ().Reshape(1) }, "cannot be reshaped"},
	} {
		a := valid()
		c.change(a)
		err := b.GroupedMatmul().Run(t.Context(), b.Stream, a)
		require.ErrorIs(t, err, ops.ErrInvalid, name)
		require.ErrorContains(t, err, c.text, name)
	}
	a := valid()
	for name, g := range map[string]*ops.GroupedMatmulGradArgs{
		"DOut is nil":     {X: a.X, Weight: a.Weight, Groups: a.Groups},
		"must be [6 32]":  {X: a.X, Weight: a.Weight, Groups: a.Groups, DOut: f(6, 33)},
		"DX is":           {X: a.X, Weight: a.Weight, Groups: a.Groups, DOut: a.Out, DX: f(6, 15)},
		"DWeight is":      {X: a.X, Weight: a.Weight, Groups: a.Groups, DOut: a.Out, DWeight: f(3, 32, 16)},
		"contiguous":      {X: a.X, Weight: a.Weight, Groups: a.Groups, DOut: a.Out, DWeight: gaps(b, a.Weight)},
		"DBias is":        {X: a.X, Weight: a.Weight, Groups: a.Groups, DOut: a.Out, DBias: f(32)},
		"one of Device a": {X: a.X, Weight: a.Weight, DOut: a.Out},
	} {
		require.ErrorContains(t, b.GroupedMatmulGrad().Run(t.Context(), b.Stream, g), name)
	}

	a.Weight, a.X = b.Empty(aclnn.BFloat16, 3, 16, 32), f(6, 16)
	a.Groups = ops.Groups{Device: b.Empty(aclnn.Int64, 3)}
	require.NoError(t, b.GroupedMatmul().Pin("per_group"))
	err := b.GroupedMatmul().Run(t.Context(), b.Stream, a)
	require.ErrorIs(t, err, ops.ErrNoKernel)
	require.ErrorContains(t, err, "needs them on the host")
	require.NoError(t, b.GroupedMatmul().Unpin())

	// A FRACTAL_NZ weight that does not fill its tiles, and groups on the device: no kernel.
	w := f(3, 10, 30)
	odd := &ops.GroupedMatmulArgs{X: f(6, 10), Weight: nz(b, w), Groups: a.Groups, Out: f(6, 30)}
	err = b.GroupedMatmul().Run(t.Context(), b.Stream, odd)
	require.ErrorIs(t, err, ops.ErrNoKernel)
	require.ErrorContains(t, err, "not a multiple of 16")
	odd.Groups = valid().Groups
	require.Equal(t, "per_group", b.GroupedMatmul().Explain(odd).Kernel)

	reg, err := ops.NewRegistry(ops.Env{SoC: "Ascend310P3"})
	require.NoError(t, err)
	require.Contains(t, reg.GroupedMatmul().Explain(valid()).String(), "grouped_matmul: per_group; not GroupedMatmulWeightNz: the weight is not FRACTAL_NZ; not GroupedMatmulV5: Ascend310P3 has no GroupedMatmulV5")
}

// TestGroupedMatmulUnwritten checks that with a list on the device, rows past its sum are not
// written, and that a sum beyond the rows is an error of the stream.
func TestGroupedMatmulUnwritten(t *testing.T) {
	b := opstest.New(t)
	c := opstest.NewGroupedCase(aclnn.Float32, 4, 3, 2, 1)
	x, w := b.Floats(c.DType, append(append([]float32{}, c.X...), make([]float32, 8)...), 5, 4), b.Floats(c.DType, c.W, 2, 4, 3)
	out := b.Floats(c.DType, []float32{9, 9, 9, 9, 9, 9, 9, 9, 9, 7, 7, 7, 7, 7, 7}, 5, 3)
	opstest.Run(b, b.GroupedMatmul(), &ops.GroupedMatmulArgs{X: x, Weight: w, Groups: ops.Groups{Device: opstest.Data(b, aclnn.Int64, []int64{2, 1}, 2)}, Out: out})
	b.Near("rows", out.Narrow(0, 0, 3), c.Y, 1e-5)
	require.Equal(t, []float32{7, 7, 7, 7, 7, 7}, b.Read(out.Narrow(0, 3, 2)))
}
