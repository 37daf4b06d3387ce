package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

var attentionTrials = []trial{
	{heads: 2, keyHeads: 2, dim: 16, valDim: 16, rows: []int64{33, 33}, cols: []int64{33, 33}},
	{heads: 4, keyHeads: 2, dim: 24, valDim: 8, rows: []int64{7, 7, 7}, cols: []int64{130, 130, 130}},
	{heads: 3, keyHeads: 1, dim: 5, valDim: 5, rows: []int64{101}, cols: []int64{37}},
	{heads: 1, keyHeads: 1, dim: 1, valDim: 1, rows: []int64{1}, cols: []int64{1}},
}

// Every layout gives the result of the definition, in every dtype and with every sparse mode that
// needs no dense mask.
func TestFlashAttentionLayouts(t *testing.T) {
	for _, layout := range []string{"BSH", "SBH", "BSND", "BNSD", "TND"} {
		for _, base := range attentionTrials {
			for _, d := range attentionDTypes {
				x := base
				x.layout, x.dtype = layout, d
				if x.packed() && len(x.rows) > 1 {
					x.rows, x.cols = slices.Clone(x.rows), slices.Clone(x.cols)
					x.rows[1], x.cols[0] = 5, 40
				}
				t.Run(fmt.Sprintf("%v/full", &x), func(t *testing.T) { x.check(t) })
				x.args = optest.Args{"sparseMode": 2, "attenMaskOptional": triangle(t, 2048)}
				x.visible = func(_ int, _, i, j int64) bool { return j <= i }
				t.Run(fmt.Sprintf("%v/causal", &x), func(t *testing.T) { x.check(t) })
			}
		}
	}
}

// modeRule reports whether row i sees column j. It states the rules of sparseMode independently of
// the implementation.
func modeRule(mode, pre, next, prefix, rows, cols, i, j int64) bool {
	shift := cols - rows
	switch mode {
	case 0:
		return i-pre <= j && j <= i+next
	case 2:
		return j <= i
	case 3:
		return j <= i+shift
	case 4:
		return i+shift-pre <= j && j <= i+shift+next
	case 6:
		return j <= i+shift || j < prefix
	}
	return true
}

func TestFlashAttentionSparseModes(t *testing.T) {
	for _, c := range []struct {
		mode, pre, next int64
		prefix          []int64
		rows, cols      int64
		zero            bool
		dense           bool
	}{
		{mode: 3, rows: 1, cols: 10},
		{mode: 2, rows: 1, cols: 10},
		{mode: 3, rows: 4, cols: 10},
		{mode: 2, rows: 4, cols: 10},
		{mode: 3, rows: 10, cols: 4, zero: true},
		{mode: 2, rows: 10, cols: 4},
		{mode: 3, rows: 150, cols: 330},
		{mode: 3, rows: 330, cols: 150, zero: true},
		{mode: 4, pre: 9, next: 3, rows: 60, cols: 60},
		{mode: 4, pre: -1, next: 5, rows: 20, cols: 20, zero: true},
		{mode: 4, pre: 5, next: -1, rows: 20, cols: 20, zero: true},
		{mode: 4, pre: unlimited, next: unlimited, rows: 20, cols: 20},
		{mode: 4, pre: 40, next: 0, rows: 130, cols: 250},
		{mode: 4, pre: 10, next: 0, rows: 250, cols: 130, zero: true},
		{mode: 6, prefix: []int64{3, 17}, rows: 20, cols: 20},
		{mode: 6, prefix: []int64{100, 120}, rows: 30, cols: 130},
		{mode: 6, prefix: []int64{0, 20}, rows: 30, cols: 20, zero: true},
		{mode: 0, pre: 7, next: 2, rows: 40, cols: 40, dense: true},
		{mode: 0, pre: unlimited, next: 0, rows: 140, cols: 140, dense: true},
		{mode: 1, pre: 1, next: 1, rows: 40, cols: 35, dense: true},
		{mode: 5, pre: 1, next: 1, rows: 40, cols: 35, dense: true},
	} {
		x := trial{layout: "BNSD", dtype: dtype.Float32, heads: 4, keyHeads: 2, dim: 8, valDim: 8, rows: []int64{c.rows, c.rows}, cols: []int64{c.cols, c.cols}, zero: c.zero}
		rule := func(item int, i, j int64) bool {
			p := int64(0)
			if c.prefix != nil {
				p = c.prefix[item]
			}
			return modeRule(c.mode, c.pre, c.next, p, c.rows, c.cols, i, j)
		}
		x.visible = func(item int, _, i, j int64) bool { return rule(item, i, j) }
		x.args = optest.Args{"sparseMode": c.mode, "preTokens": c.pre, "nextTokens": c.next, "prefixOptional": c.prefix}
		switch {
		case c.dense:
			x.visible = func(item int, h, i, j int64) bool { return rule(item, i, j) && (int64(item)+h+3*i+7*j)%5 != 0 }
			x.args["attenMaskOptional"] = denseMask(t, []int64{2, 4, c.rows, c.cols}, x.visible)
		case c.mode == 6:
			x.args["attenMaskOptional"] = triangle(t, 3072)
		default:
			x.args["attenMaskOptional"] = triangle(t, 2048)
		}
		t.Run(fmt.Sprintf("%d/pre%d/next%d/%v/%dx%d", c.mode, c.pre, c.next, c.prefix, c.rows, c.cols), func(t *testing.T) { x.check(t) })
	}
}

// All legal forms of a dense mask with the same content give the same result.
func TestFlashAttentionDenseMaskForms(t *testing.T) {
	const b, n, s, k = 2, 4, 21, 34
	for name, shape := range map[string][]int64{"Sq,Skv": {s, k}, "1,1,Sq,Skv": {1, 1, s, k}, "B,1,Sq,Skv": {b, 1, s, k}, "B,N,Sq,Skv": {b, n, s, k}} {
		t.Run(name, func(t *testing.T) {
			wide := append([]int64{1, 1}, shape...)[len(shape)-2:]
			visible := func(item int, h, i, j int64) bool {
				return (int64(item)%wide[0]*5+h%wide[1]*3+i+2*j)%3 != 0
			}
			x := trial{layout: "BSND", dtype: dtype.Float32, heads: n, keyHeads: 2, dim: 8, valDim: 8, rows: []int64{s, s}, cols: []int64{k, k}, visible: visible}
			x.args = optest.Args{"sparseMode": 1, "attenMaskOptional": denseMask(t, shape, visible)}
			x.check(t)
		})
	}
	t.Run("stride 0", func(t *testing.T) {
		visible := func(_ int, _, _, j int64) bool { return j%3 != 1 }
		x := trial{layout: "SBH", dtype: dtype.BFloat16, heads: n, keyHeads: n, dim: 8, valDim: 8, rows: []int64{s, s}, cols: []int64{k, k}, visible: visible}
		row := denseMask(t, []int64{1, k}, visible)
		row.Shape, row.Strides = []int64{s, k}, []int64{0, 1}
		x.args = optest.Args{"sparseMode": 1, "attenMaskOptional": row}
		x.check(t)
	})
}

// A row that sees no column gets the mean of the values, or zero if innerPrecise asks for it.
func TestFlashAttentionBlindRows(t *testing.T) {
	const s, k = 30, 110
	visible := func(_ int, _, i, j int64) bool { return i%4 != 1 && j > 20 }
	for _, precise := range []int64{0, 1, 2, 3} {
		t.Run(fmt.Sprintf("innerPrecise %d", precise), func(t *testing.T) {
			x := trial{layout: "BNSD", dtype: dtype.Float32, heads: 2, keyHeads: 1, dim: 8, valDim: 8, rows: []int64{s}, cols: []int64{k}, visible: visible, zero: precise == 2}
			x.args = optest.Args{"sparseMode": 1, "innerPrecise": precise, "attenMaskOptional": denseMask(t, []int64{s, k}, visible)}
			x.check(t)
			v, a := x.start(t)
			optest.Run(t, x.forward(), a)
			require.Equal(t, -math.MaxFloat32, x.statistics(t, v.max)[0][1])
			want := float64(k)
			if x.zero {
				want = math.MaxFloat32
			}
			require.Equal(t, want, x.statistics(t, v.sum)[0][1])
		})
	}
}

func TestFlashAttentionHeadDims(t *testing.T) {
	for _, dim := range []int64{72, 80, 88, 125, 448, 768} {
		x := trial{layout: "BSH", dtype: dtype.Float16, heads: 2, keyHeads: 2, dim: dim, valDim: dim - dim/3, rows: []int64{20}, cols: []int64{50}}
		t.Run(fmt.Sprint(dim), func(t *testing.T) { x.check(t) })
	}
}

// The dropout bits continue from row to row without padding, and kept values are scaled.
func TestFlashAttentionDropout(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, layout := range []string{"BNSD", "TND"} {
		x := trial{layout: layout, dtype: dtype.Float32, heads: 2, keyHeads: 1, dim: 8, valDim: 8, rows: []int64{11, 11}, cols: []int64{13, 13}}
		if x.packed() {
			x.rows, x.cols = []int64{11, 3}, []int64{13, 21}
		}
		cells := []int64{0, x.heads * x.rows[0] * x.cols[0], x.heads * (x.rows[0]*x.cols[0] + x.rows[1]*x.cols[1])}
		bits := make([]float64, (cells[2]+7)/8)
		for i := range bits {
			bits[i] = float64(r.IntN(256))
		}
		x.keep = func(item int, h, i, j int64) float64 {
			bit := cells[item] + (h*x.rows[item]+i)*x.cols[item] + j
			return float64(int(bits[bit/8])>>(bit%8)&1) / 0.75
		}
		x.args = optest.Args{"keepProb": 0.75, "dropMaskOptional": optest.Tensor(t, dtype.Uint8, []int64{int64(len(bits))}, bits...)}
		t.Run(layout, func(t *testing.T) { x.check(t) })
	}
	t.Run("keepProb without mask is no dropout forward, refused backward", func(t *testing.T) {
		x := trial{layout: "BNSD", dtype: dtype.Float32, heads: 1, keyHeads: 1, dim: 8, valDim: 8, rows: []int64{5}, cols: []int64{5}, args: optest.Args{"keepProb": 0.5}, noGrad: true}
		x.check(t)
		v, a := x.start(t)
		optest.Refused(t, 161001, x.backward(), v.backwardArgs(a), "dropMask can not be nullptr")
	})
	t.Run("a mask counts forward with keepProb 1, and not backward", func(t *testing.T) {
		x := trial{layout: "BNSD", dtype: dtype.Float32, heads: 1, keyHeads: 1, dim: 8, valDim: 8, rows: []int64{5}, cols: []int64{5}, noGrad: true}
		x.args = optest.Args{"dropMaskOptional": optest.Tensor(t, dtype.Uint8, []int64{4}, 0)}
		x.keep = func(int, int64, int64, int64) float64 { return 0 }
		x.check(t)
	})
}

// element returns the address of element n in row-major order.
func element(x *op.Tensor, n int) (at unsafe.Pointer) {
	kerneltest.Each(x.View(), func(p unsafe.Pointer) {
		if n == 0 {
			at = p
		}
		n--
	})
	return at
}

// The gradients agree with difference quotients of the forward pass.
func TestFlashAttentionFiniteDifferences(t *testing.T) {
	x := trial{layout: "BSND", dtype: dtype.Float32, heads: 4, keyHeads: 2, dim: 6, valDim: 4, rows: []int64{9, 9}, cols: []int64{12, 12}}
	x.args = optest.Args{"sparseMode": 3, "attenMaskOptional": triangle(t, 2048), "keepProb": 0.8, "dropMaskOptional": optest.Tensor(t, dtype.Uint8, []int64{108}, 0xB7, 0x5D, 0xEE),
		"realShiftOptional": optest.Tensor(t, dtype.Float32, []int64{2, 4, 9, 12}, 0.5, -1, 0.25, 2, -0.75)}
	v, a := x.start(t)
	optest.Run(t, x.forward(), a)
	optest.Run(t, x.backward(), v.backwardArgs(a))
	loss := func() (sum float64) {
		optest.Run(t, x.forward(), a)
		dy := optest.Values(v.dy)
		for i, o := range optest.Values(v.out) {
			sum += o * dy[i]
		}
		return sum
	}
	for _, pair := range [][2]*op.Tensor{{v.query, v.dq}, {v.key, v.dk}, {v.value, v.dv}} {
		want := optest.Values(pair[1])
		for _, i := range []int{0, 7, 31, len(want) - 1} {
			const step = 1.0 / 64
			at := element(pair[0], i)
			was := kerneltest.Get(dtype.Float32, at)
			kerneltest.Set(dtype.Float32, at, was+step)
			up := loss()
			kerneltest.Set(dtype.Float32, at, was-step)
			down := loss()
			kerneltest.Set(dtype.Float32, at, was)
			require.InDelta(t, (up-down)/(2*step), want[i], 2e-3, "element %d", i)
		}
	}
}

// The kernel splits items independently of the batch, so the results are equal bit by bit.
func TestFlashAttentionBatchInvariance(t *testing.T) {
	x := trial{layout: "TND", dtype: dtype.BFloat16, heads: 2, keyHeads: 1, dim: 64, valDim: 64, rows: []int64{300}, cols: []int64{300}}
	v, a := x.start(t)
	optest.Run(t, x.forward(), a)
	alone := optest.Values(v.out)
	many := x
	many.rows, many.cols = []int64{300, 17, 40}, []int64{300, 5, 99}
	w, b := many.start(t)
	for _, pair := range [][2]*op.Tensor{{w.query, v.query}, {w.key, v.key}, {w.value, v.value}} {
		first := optest.Values(pair[1])
		kerneltest.Each(pair[0].View(), func(p unsafe.Pointer) {
			if len(first) > 0 {
				kerneltest.Set(x.dtype, p, first[0])
				first = first[1:]
			}
		})
	}
	optest.Run(t, many.forward(), b)
	require.Equal(t, alone, optest.Values(w.out)[:len(alone)])
}
