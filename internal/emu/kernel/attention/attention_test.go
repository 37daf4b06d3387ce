package attention_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// attentionCase is one item of flash attention with its tensors in host memory.
type attentionCase struct {
	name                string
	dtype               dtype.Type
	layout              kerneltest.Layout
	heads, keyHeads     int64
	rows, cols          int64
	dim, valueDim       int64
	first, last, prefix int64
	mask                float64 // share of hidden cells
	bias                attention.BiasKind
	keep                float32 // probability of being kept; 0 means no dropout
	zero                bool
	scale               float32 // 0 means 1/√dim
}

func (c attentionCase) String() string {
	s := fmt.Sprintf("%s/%v/%v/N%d:%d/S%dx%d/D%d:%d", c.name, c.dtype, c.layout, c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim)
	if c.bias != attention.BiasNone {
		s += fmt.Sprintf("/bias%d", c.bias)
	}
	return s
}

func random(r *rand.Rand, n int64) []float64 {
	out := make([]float64, max(n, 1))
	for i := range out {
		out[i] = r.NormFloat64()
	}
	return out
}

// item makes the tensors of c, with random inputs and uninitialised outputs.
func (c attentionCase) item(t testing.TB, r *rand.Rand) attention.Attention {
	view := func(heads, rows, cols int64) kernel.View {
		return kerneltest.New(t, c.dtype, c.layout, []int64{heads, rows, cols}, random(r, heads*rows*cols))
	}
	stats := func() kernel.View {
		return kerneltest.New(t, dtype.Float32, c.layout, []int64{c.heads, c.rows, attention.AttentionStatCopies}, nil)
	}
	a := attention.Attention{
		Query: view(c.heads, c.rows, c.dim), Key: view(c.keyHeads, c.cols, c.dim), Value: view(c.keyHeads, c.cols, c.valueDim),
		Out: kerneltest.New(t, c.dtype, c.layout, []int64{c.heads, c.rows, c.valueDim}, nil),
		Max: stats(), Sum: stats(), Scale: float32(1 / math.Sqrt(float64(c.dim))),
		First: c.first, Last: c.last, Prefix: c.prefix, BiasKind: c.bias, Distance: 3, ZeroMaskedRows: c.zero,
	}
	if c.scale != 0 {
		a.Scale = c.scale
	}
	cells := c.heads * c.rows * c.cols
	switch c.bias {
	case attention.BiasAfterScale, attention.BiasBeforeScale:
		a.Bias = view(c.heads, c.rows, c.cols)
	case attention.BiasDistance, attention.BiasRootDistance:
		slopes := random(r, c.heads)
		for i := range slopes {
			slopes[i] /= 16 // small scores, so that fp32 resolves their differences
		}
		a.Bias = kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{c.heads, 1, 1}, slopes)
	}
	if c.mask > 0 {
		hidden := make([]float64, max(cells, 1))
		for i := range hidden {
			// Some rows see nothing; the rest hides single cells.
			row := int64(i) / max(c.cols, 1)
			if row%7 == 3 || r.Float64() < c.mask {
				hidden[i] = 1
			}
		}
		a.Mask = kerneltest.New(t, dtype.Bool, c.layout, []int64{c.heads, c.rows, c.cols}, hidden)
	}
	if c.keep > 0 {
		a.KeepBit, a.KeepProb = 5, c.keep
		bytes := random(r, (cells+5+7)/8)
		for i := range bytes {
			bytes[i] = float64(r.IntN(256))
		}
		a.Keep = kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{int64(len(bytes))}, bytes).Data
	}
	return a
}

// oracle converts a to the reference implementation.
func oracle(a *attention.Attention, dout kernel.View) *kerneltest.Attention {
	o := &kerneltest.Attention{
		Heads: a.Query.Shape[0], KeyHeads: a.Key.Shape[0], Rows: a.Query.Shape[1], Cols: a.Key.Shape[1],
		Dim: a.Query.Shape[2], ValueDim: a.Value.Shape[2], Scale: float64(a.Scale), ZeroMaskedRows: a.ZeroMaskedRows,
		Query: kerneltest.Values(a.Query), Key: kerneltest.Values(a.Key), Value: kerneltest.Values(a.Value), OutGrad: kerneltest.Values(dout),
	}
	var mask, bias []float64
	if a.Mask.Data != nil {
		mask = kerneltest.Values(a.Mask)
	}
	if a.BiasKind != attention.BiasNone {
		bias = kerneltest.Values(a.Bias)
	}
	o.Visible = func(h, i, j int64) bool {
		return (j >= i+a.First && j <= i+a.Last || j < a.Prefix) && (mask == nil || mask[(h*o.Rows+i)*o.Cols+j] == 0)
	}
	o.Score = func(h, i, j int64, product float64) float64 {
		cell, distance := (h*o.Rows+i)*o.Cols+j, math.Abs(float64(j-i+a.Distance))
		switch a.BiasKind {
		case attention.BiasAfterScale:
			return product*o.Scale + bias[cell]
		case attention.BiasBeforeScale:
			return (product + bias[cell]) * o.Scale
		case attention.BiasDistance:
			return product*o.Scale - bias[h]*distance
		case attention.BiasRootDistance:
			return product*o.Scale - bias[h]*math.Sqrt(distance)
		}
		return product * o.Scale
	}
	if a.Keep != nil {
		o.Keep = func(h, i, j int64) float64 {
			bit := a.KeepBit + (h*o.Rows+i)*o.Cols + j
			return float64(*(*uint8)(unsafe.Add(a.Keep, bit/8))>>(bit%8)&1) / float64(a.KeepProb)
		}
	}
	return o
}

// near asserts that got equals want up to tolerance times their root mean square.
func near(t testing.TB, what string, want, got []float64, tolerance float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	squares := 0.0
	for _, w := range want {
		squares += w * w
	}
	// The minimum is for gradients that cancel out, of which only rounding errors remain.
	unit := max(math.Sqrt(squares/float64(max(len(want), 1))), 0.2)
	for i := range want {
		// Written so that NaN fails.
		if !(math.Abs(got[i]-want[i]) <= tolerance*max(unit, math.Abs(want[i]))) {
			require.Failf(t, what, "element %d is %v, want %v (unit %v)", i, got[i], want[i], unit)
		}
	}
}

func tolerance(d dtype.Type) float64 {
	switch d {
	case dtype.BFloat16:
		return 0.03
	case dtype.Float16:
		return 0.006
	}
	return 2e-5
}

// statistic returns the first of the eight copies, after checking that all are equal.
func statistic(t testing.TB, v kernel.View) []float64 {
	t.Helper()
	var out []float64
	for i, x := range kerneltest.Values(v) {
		if i%attention.AttentionStatCopies == 0 {
			out = append(out, x)
		}
		require.Equal(t, out[len(out)-1], x, "copies of a statistic differ")
	}
	return out
}

// checkAttention runs both passes of c and compares with the reference.
func checkAttention(t *testing.T, c attentionCase) {
	checkItem(t, c, c.item(t, rand.New(rand.NewPCG(1, uint64(c.rows*1000+c.cols)))))
}

// checkItem compares both directions with the reference.
func checkItem(t *testing.T, c attentionCase, a attention.Attention) {
	r := rand.New(rand.NewPCG(2, uint64(c.rows*1000+c.cols)))
	require.NoError(t, attention.FlashAttention([]attention.Attention{a}))
	dout := kerneltest.New(t, c.dtype, c.layout, a.Out.Shape, random(r, a.Out.Len()))
	want := oracle(&a, dout).Compute()
	tol := tolerance(c.dtype)
	near(t, "out", want.Out, kerneltest.Values(a.Out), tol)
	near(t, "max", want.Max, statistic(t, a.Max), 2e-5)
	near(t, "sum", want.Sum, statistic(t, a.Sum), 2e-5)

	g := attention.AttentionGrad{
		OutGrad:   dout,
		QueryGrad: kerneltest.New(t, c.dtype, c.layout, a.Query.Shape, nil),
		KeyGrad:   kerneltest.New(t, c.dtype, c.layout, a.Key.Shape, nil),
		ValueGrad: kerneltest.New(t, c.dtype, c.layout, a.Value.Shape, nil),
	}
	n, err := attention.FlashAttentionGradWorkspace([]attention.Attention{a})
	require.NoError(t, err)
	w := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{n}, nil)
	require.NoError(t, attention.FlashAttentionGrad([]attention.Attention{a}, []attention.AttentionGrad{g}, w.Data))
	near(t, "query gradient", want.QueryGrad, kerneltest.Values(g.QueryGrad), 2*tol)
	near(t, "key gradient", want.KeyGrad, kerneltest.Values(g.KeyGrad), 2*tol)
	near(t, "value gradient", want.ValueGrad, kerneltest.Values(g.ValueGrad), 2*tol)
}

var (
	full   = attentionCase{name: "full", first: -attention.Unlimited, last: attention.Unlimited}
	causal = attentionCase{name: "causal", first: -attention.Unlimited}
	lower  = attentionCase{name: "lower right", first: -attention.Unlimited, last: 40, zero: true}
	band   = attentionCase{name: "band", first: -20, last: 7}
	gap    = attentionCase{name: "band with rows that see nothing", first: -90, last: -30, zero: true}
	prefix = attentionCase{name: "prefix", first: -attention.Unlimited, last: -5, prefix: 33}
	dense  = attentionCase{name: "dense", first: -attention.Unlimited, last: attention.Unlimited, mask: 0.3}
	blind  = attentionCase{name: "dense, rows that see nothing average", first: -60, mask: 0.8}
	zeroed = attentionCase{name: "dense, rows that see nothing are zero", first: -60, mask: 0.8, zero: true}
)

func TestFlashAttention(t *testing.T) {
	sizes := []attentionCase{
		{heads: 1, keyHeads: 1, rows: 1, cols: 1, dim: 1, valueDim: 1},
		{heads: 2, keyHeads: 2, rows: 5, cols: 3, dim: 8, valueDim: 8},
		{heads: 4, keyHeads: 2, rows: 33, cols: 47, dim: 16, valueDim: 16},
		{heads: 3, keyHeads: 1, rows: 130, cols: 131, dim: 17, valueDim: 9},
		{heads: 2, keyHeads: 1, rows: 97, cols: 200, dim: 72, valueDim: 40},
		{heads: 2, keyHeads: 2, rows: 103, cols: 95, dim: 24, valueDim: 24},
		{heads: 1, keyHeads: 1, rows: 230, cols: 200, dim: 32, valueDim: 32},
		{heads: 8, keyHeads: 1, rows: 1, cols: 193, dim: 128, valueDim: 128},
		{heads: 1, keyHeads: 1, rows: 140, cols: 1060, dim: 40, valueDim: 24},
		{heads: 2, keyHeads: 1, rows: 300, cols: 150, dim: 40, valueDim: 24},
		{heads: 8, keyHeads: 8, rows: 257, cols: 260, dim: 8, valueDim: 8},
	}
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, rule := range []attentionCase{full, causal, lower, band, gap, prefix, dense, blind, zeroed} {
			for i, s := range sizes {
				for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
					c := rule
					c.dtype, c.layout = d, kerneltest.Layouts[i%len(kerneltest.Layouts)]
					c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = s.heads, s.keyHeads, s.rows, s.cols, s.dim, s.valueDim
					t.Run(c.String(), func(t *testing.T) { checkAttention(t, c) })
				}
			}
		}
	})
}

func TestFlashAttentionBias(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, kind := range []attention.BiasKind{attention.BiasAfterScale, attention.BiasBeforeScale, attention.BiasDistance, attention.BiasRootDistance} {
			for _, l := range kerneltest.Layouts {
				for _, rule := range []attentionCase{full, causal} {
					c := rule
					c.dtype, c.layout, c.bias = dtype.Float32, l, kind
					c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = 4, 2, 261, 137, 20, 20
					t.Run(c.String(), func(t *testing.T) { checkAttention(t, c) })
					c.rows, c.cols = 51, 107
					t.Run(c.String(), func(t *testing.T) { checkAttention(t, c) })
				}
			}
		}
	})
}

func TestFlashAttentionDropout(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, rule := range []attentionCase{full, causal, blind} {
			for _, keep := range []float32{1, 0.75} {
				for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
					if rule.mask > 0 && d != dtype.Float32 {
						continue // of rows with few cells the rounding of the output leaves little
					}
					c := rule
					c.dtype, c.keep = d, keep
					c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = 4, 2, 261, 137, 20, 20
					t.Run(fmt.Sprintf("%v/keep%v", c, keep), func(t *testing.T) { checkAttention(t, c) })
					c.rows, c.cols = 51, 107
					t.Run(fmt.Sprintf("%v/keep%v", c, keep), func(t *testing.T) { checkAttention(t, c) })
				}
			}
		}
	})
}

// TestFlashAttentionScale: a scale may be negative, which reverses the order of the scores, and so small or
// large that hidden cells could become visible by it.
func TestFlashAttentionScale(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, rule := range []attentionCase{full, causal, gap, blind, zeroed} {
			for _, scale := range []float32{-0.4, 1e-14, 1e-36, 0.5} {
				for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
					c := rule
					c.dtype, c.scale = d, scale
					c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = 2, 1, 258, 140, 20, 20
					t.Run(fmt.Sprintf("%v/scale%v", c, scale), func(t *testing.T) { checkAttention(t, c) })
				}
			}
		}
	})
}

// TestFlashAttentionExtremes: a row of the largest numbers leaves the bits of the other rows alone, and infinite values are
// averaged to infinities.
func TestFlashAttentionExtremes(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, layout := range kerneltest.Layouts {
			c := full
			c.dtype, c.layout, c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = dtype.Float32, layout, 2, 1, 200, 150, 40, 24
			run := func(change func(query, key, value []float64)) ([]float64, *kerneltest.Attention) {
				r := rand.New(rand.NewPCG(7, 8))
				query, key, value := random(r, c.heads*c.rows*c.dim), random(r, c.cols*c.dim), random(r, c.cols*c.valueDim)
				for j := range c.cols {
					key[j*c.dim] *= 0x1p-128
				}
				change(query, key, value)
				a := c.item(t, r)
				a.Query = kerneltest.New(t, c.dtype, layout, a.Query.Shape, query)
				a.Key = kerneltest.New(t, c.dtype, layout, a.Key.Shape, key)
				a.Value = kerneltest.New(t, c.dtype, layout, a.Value.Shape, value)
				require.NoError(t, attention.FlashAttention([]attention.Attention{a}))
				return kerneltest.Values(a.Out), oracle(&a, a.Out)
			}
			plain, _ := run(func(_, _, _ []float64) {})
			large := map[int64]bool{0: true, 60: true, 61: true, 199: true, 255: true} // rows of both heads
			got, reference := run(func(query, _, _ []float64) {
				for row := range large {
					query[row*c.dim] = math.MaxFloat32
				}
			})
			near(t, "out", reference.Compute().Out, got, 2e-5)
			for i := range got {
				if !large[int64(i)/c.valueDim] {
					require.Equal(t, plain[i], got[i], "element %d", i)
				}
			}
			got, _ = run(func(_, _, value []float64) { value[70*c.valueDim+3] = math.Inf(1) })
			for i := range got {
				if int64(i)%c.valueDim == 3 {
					require.Equal(t, math.Inf(1), got[i], "element %d", i)
				} else {
					require.InDelta(t, plain[i], got[i], 2e-5, "element %d", i)
				}
			}
		}
	})
}

// TestFlashAttentionGradExtremes: gradients are finite where an element is the largest number.
func TestFlashAttentionGradExtremes(t *testing.T) {
	kerneltest.EachVariant(t, func(t *testing.T) {
		c := causal
		c.dtype, c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = dtype.Float32, 2, 1, 280, 150, 40, 24
		a := c.item(t, rand.New(rand.NewPCG(9, 10)))
		query, key := kerneltest.Values(a.Query), kerneltest.Values(a.Key)
		query[70*c.dim] = math.MaxFloat32
		for j := range c.cols {
			key[j*c.dim] *= 0x1p-128
		}
		a.Query = kerneltest.New(t, c.dtype, c.layout, a.Query.Shape, query)
		a.Key = kerneltest.New(t, c.dtype, c.layout, a.Key.Shape, key)
		checkItem(t, c, a)
	})
}

func TestFlashAttentionLargeHead(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		for _, dims := range [][2]int64{{192, 128}, {256, 256}, {448, 32}, {32, 512}, {768, 768}, {1000, 1000}} {
			c := causal
			c.dtype, c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = d, 1, 1, 260, 130, dims[0], dims[1]
			t.Run(c.String(), func(t *testing.T) { checkAttention(t, c) })
		}
	}
}

// TestFlashAttentionWithoutKeys checks that without keys the output and the statistics are zero.
func TestFlashAttentionWithoutKeys(t *testing.T) {
	c := full
	c.dtype, c.heads, c.keyHeads, c.rows, c.dim, c.valueDim = dtype.Float32, 2, 1, 5, 8, 8
	checkAttention(t, c)
}

// TestFlashAttentionThreads checks that the bits of the result do not depend on the number of
// threads, with one batch item or many.
func TestFlashAttentionThreads(t *testing.T) {
	for _, d := range []dtype.Type{dtype.BFloat16, dtype.Float32} {
		t.Run(d.String(), func(t *testing.T) { checkThreads(t, d) })
	}
}

func checkThreads(t *testing.T, d dtype.Type) {
	r := rand.New(rand.NewPCG(5, 6))
	var items []attention.Attention
	var grads []attention.AttentionGrad
	for _, c := range []attentionCase{causal, full, blind} {
		c.dtype, c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = d, 2, 1, 260, 310, 64, 64
		a := c.item(t, r)
		new := func(v kernel.View, values []float64) kernel.View {
			return kerneltest.New(t, c.dtype, kerneltest.Contiguous, v.Shape, values)
		}
		items = append(items, a)
		grads = append(grads, attention.AttentionGrad{
			OutGrad: new(a.Out, random(r, a.Out.Len())), QueryGrad: new(a.Query, nil), KeyGrad: new(a.Key, nil), ValueGrad: new(a.Value, nil),
		})
	}
	results := func(threads int) (all []float64) {
		kerneltest.Threads(t, threads)
		n, err := attention.FlashAttentionGradWorkspace(items)
		require.NoError(t, err)
		w := kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{n}, nil)
		require.NoError(t, attention.FlashAttention(items))
		require.NoError(t, attention.FlashAttentionGrad(items, grads, w.Data))
		for i := range items {
			for _, v := range []kernel.View{items[i].Out, items[i].Max, items[i].Sum, grads[i].QueryGrad, grads[i].KeyGrad, grads[i].ValueGrad} {
				all = append(all, kerneltest.Values(v)...)
			}
		}
		return all
	}
	want := results(1)
	for _, threads := range []int{2, 3, 8} {
		require.Equal(t, want, results(threads), "%d threads", threads)
	}
}

// TestFlashAttentionRefusals checks that inconsistent arguments are refused.
func TestFlashAttentionRefusals(t *testing.T) {
	good := func(t *testing.T) attention.Attention {
		c := full
		c.dtype, c.heads, c.keyHeads, c.rows, c.cols, c.dim, c.valueDim = dtype.Float32, 4, 2, 3, 5, 8, 8
		return c.item(t, rand.New(rand.NewPCG(1, 1)))
	}
	view := func(d dtype.Type, shape ...int64) kernel.View {
		return kerneltest.New(t, d, kerneltest.Contiguous, shape, []float64{0})
	}
	for _, c := range []struct {
		text   string
		change func(a *attention.Attention)
	}{
		{"dimensions, not 3", func(a *attention.Attention) { a.Query = view(dtype.Float32, 12, 8) }},
		{"dtype int32 is not", func(a *attention.Attention) { a.Query = view(dtype.Int32, 4, 3, 8) }},
		{"differ", func(a *attention.Attention) { a.Key = view(dtype.Float16, 2, 5, 8) }},
		{"4 query heads are no multiple of 3 key heads", func(a *attention.Attention) { a.Key = view(dtype.Float32, 3, 5, 8) }},
		{"differ in the head dimension", func(a *attention.Attention) { a.Key = view(dtype.Float32, 2, 5, 9) }},
		{"head dimensions 6000 and 8 are too large", func(a *attention.Attention) {
			a.Query, a.Key = view(dtype.Float32, 4, 3, 6000), view(dtype.Float32, 2, 5, 6000)
		}},
		{"differ in heads or tokens", func(a *attention.Attention) { a.Value = view(dtype.Float32, 2, 6, 8) }},
		{"does not fit query", func(a *attention.Attention) { a.Out = view(dtype.Float32, 4, 3, 7) }},
		{"softmax statistics", func(a *attention.Attention) { a.Max = view(dtype.Float32, 4, 3, 1) }},
		{"mask [4 3 4] does not fit", func(a *attention.Attention) { a.Mask = view(dtype.Bool, 4, 3, 4) }},
		{"bias float16", func(a *attention.Attention) {
			a.Bias, a.BiasKind = view(dtype.Float16, 4, 3, 5), attention.BiasAfterScale
		}},
		{"slopes", func(a *attention.Attention) {
			a.Bias, a.BiasKind = view(dtype.Float32, 4, 1, 2), attention.BiasDistance
		}},
		{"bias kind 9 is unknown", func(a *attention.Attention) { a.BiasKind = 9 }},
		{"folded at row 7", func(a *attention.Attention) {
			a.Bias, a.BiasKind, a.BiasFold = view(dtype.Float32, 4, 1024, 5), attention.BiasAfterScale, 7
		}},
		{"only one of query and key has rope columns", func(a *attention.Attention) { a.QueryRope = view(dtype.Float32, 4, 3, 2) }},
		{"rope columns", func(a *attention.Attention) {
			a.QueryRope, a.KeyRope = view(dtype.Float32, 4, 3, 2), view(dtype.Float32, 2, 5, 3)
		}},
		{"keep probability 0", func(a *attention.Attention) { a.Keep = a.Query.Data }},
	} {
		a := good(t)
		c.change(&a)
		require.ErrorContains(t, attention.FlashAttention([]attention.Attention{a}), c.text)
	}
	a := good(t)
	items := []attention.Attention{a}
	require.ErrorContains(t, attention.FlashAttentionGrad(items, nil, nil), "1 items have 0 gradients")
	grads := []attention.AttentionGrad{{OutGrad: a.Out, QueryGrad: a.Key, KeyGrad: a.Key, ValueGrad: a.Value}}
	require.ErrorContains(t, attention.FlashAttentionGrad(items, grads, nil), "gradient float32[2 5 8] does not fit")
	require.NoError(t, attention.FlashAttention(nil))
	require.NoError(t, attention.FlashAttentionGrad(nil, nil, nil))
}
