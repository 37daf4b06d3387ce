package nn

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// trial is one attention call, described by items ([heads, tokens, dim] each) so that it can
// be laid out in every layout and checked against the definition.
type trial struct {
	layout          string
	dtype           dtype.Type
	heads, keyHeads int64
	dim, valDim     int64
	rows, cols      []int64 // per item; equal ones unless TND
	version         string  // suffix of the operators
	args            args    // options and optional tensors of both directions

	visible func(item int, head, row, col int64) bool
	score   func(item int, head, row, col int64, product float64) float64
	keep    func(item int, head, row, col int64) float64
	zero    bool
	noGrad  bool
}

// unlimited is a preTokens or nextTokens that hides nothing.
const unlimited = math.MaxInt32

func (x *trial) String() string {
	return fmt.Sprintf("%s/%v/N%d:%d/D%d:%d/%v/%v", x.layout, x.dtype, x.heads, x.keyHeads, x.dim, x.valDim, x.rows, x.cols)
}

func (x *trial) packed() bool { return x.layout == "TND" }

func (x *trial) scale() float64 { return float64(float32(1 / math.Sqrt(float64(x.dim)))) }

// forward and backward are the names of the operators.
func (x *trial) forward() string {
	if x.packed() {
		return "FlashAttentionVarLenScore" + x.version
	}
	return "FlashAttentionScore" + x.version
}

func (x *trial) backward() string {
	if x.packed() {
		return "FlashAttentionUnpaddingScoreGrad" + x.version
	}
	return "FlashAttentionScoreGrad" + x.version
}

func ends(lengths []int64) []int64 {
	out := make([]int64, len(lengths))
	for i := range out {
		out[i] = total(lengths[:i+1])
	}
	return out
}

// shapeOf is the shape of a tensor of the trial.
func (x *trial) shapeOf(lengths []int64, heads, dim int64) []int64 {
	b, s := int64(len(lengths)), lengths[0]
	switch x.layout {
	case "BSH":
		return []int64{b, s, heads * dim}
	case "SBH":
		return []int64{s, b, heads * dim}
	case "BSND":
		return []int64{b, s, heads, dim}
	case "BNSD":
		return []int64{b, heads, s, dim}
	}
	return []int64{total(lengths), heads, dim}
}

// place is where an element of an item lies in the row-major tensor.
func (x *trial) place(lengths []int64, item int, heads, dim, head, row, col int64) int64 {
	b, i, s := int64(len(lengths)), int64(item), lengths[item]
	switch x.layout {
	case "BNSD":
		return ((i*heads+head)*s+row)*dim + col
	case "SBH":
		return ((row*b+i)*heads+head)*dim + col
	case "TND":
		return ((total(lengths[:item])+row)*heads+head)*dim + col
	}
	return ((i*s+row)*heads+head)*dim + col
}

// eachElement calls f with the index in the items and the index in the tensor.
func (x *trial) eachElement(lengths []int64, heads, dim int64, f func(item int, at, place int64)) {
	for item, s := range lengths {
		at := int64(0)
		for head := range heads {
			for row := range s {
				for col := range dim {
					f(item, at, x.place(lengths, item, heads, dim, head, row, col))
					at++
				}
			}
		}
	}
}

// join lays items out as a tensor, split reads them back.
func (x *trial) join(t testing.TB, items [][]float64, lengths []int64, heads, dim int64, l kerneltest.Layout) *Tensor {
	flat := make([]float64, max(total(lengths)*heads*dim, 1))
	x.eachElement(lengths, heads, dim, func(item int, at, place int64) { flat[place] = items[item][at] })
	return tensorIn(t, x.dtype, l, x.shapeOf(lengths, heads, dim), flat...)
}

func (x *trial) split(v *Tensor, lengths []int64, heads, dim int64) [][]float64 {
	flat, out := values(v), make([][]float64, len(lengths))
	for i, s := range lengths {
		out[i] = make([]float64, heads*s*dim)
	}
	x.eachElement(lengths, heads, dim, func(item int, at, place int64) { out[item][at] = flat[place] })
	return out
}

// statistics reads softmaxMax or softmaxSum per item, in the order of the device.
func (x *trial) statistics(t testing.TB, v *Tensor) [][]float64 {
	flat, out := values(v), make([][]float64, len(x.rows))
	start := int64(0)
	for item, s := range x.rows {
		for head := range x.heads {
			for row := range s {
				at := start + head*s + row
				if x.args["softmaxOutLayout"] == "same_as_input" {
					at = (start/x.heads+row)*x.heads + head
				}
				eight := flat[at*8 : at*8+8]
				for _, copy := range eight {
					require.Equal(t, eight[0], copy, "copies of a statistic differ")
				}
				out[item] = append(out[item], eight[0])
			}
		}
		start += x.heads * s
	}
	return out
}

func noise(r *rand.Rand, lengths []int64, heads, dim int64) [][]float64 {
	out := make([][]float64, len(lengths))
	for i, s := range lengths {
		out[i] = make([]float64, heads*s*dim)
		for k := range out[i] {
			out[i][k] = r.NormFloat64()
		}
	}
	return out
}

// tensors of a trial that ran.
type trialTensors struct {
	query, key, value, dy, out, max, sum *Tensor
	dq, dk, dv                           *Tensor
}

// start makes inputs and unwritten outputs and the arguments of the forward call.
func (x *trial) start(t testing.TB) (trialTensors, args) {
	r := rand.New(rand.NewPCG(3, uint64(total(x.rows)*100+total(x.cols))))
	layouts := []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed, kerneltest.Gapped}
	strided := func() kerneltest.Layout { return layouts[r.IntN(len(layouts))] }
	input := func(lengths []int64, heads, dim int64) *Tensor {
		return x.join(t, noise(r, lengths, heads, dim), lengths, heads, dim, strided())
	}
	output := func(lengths []int64, heads, dim int64) *Tensor {
		return tensorIn(t, x.dtype, strided(), x.shapeOf(lengths, heads, dim))
	}
	stats := []int64{int64(len(x.rows)), x.heads, x.rows[0], 8}
	if x.packed() {
		stats = []int64{total(x.rows), x.heads, 8}
	}
	v := trialTensors{
		query: input(x.rows, x.heads, x.dim), key: input(x.cols, x.keyHeads, x.dim), value: input(x.cols, x.keyHeads, x.valDim),
		dy: input(x.rows, x.heads, x.valDim), out: output(x.rows, x.heads, x.valDim),
		max: tensor(t, dtype.Float32, stats), sum: tensor(t, dtype.Float32, stats),
		dq: output(x.rows, x.heads, x.dim), dk: output(x.cols, x.keyHeads, x.dim), dv: output(x.cols, x.keyHeads, x.valDim),
	}
	a := args{
		"query": v.query, "key": v.key, "value": v.value, "scaleValue": x.scale(), "keepProb": 1.0, "preTokens": unlimited, "nextTokens": unlimited,
		"headNum": x.heads, "inputLayout": x.layout, "softmaxMaxOut": v.max, "softmaxSumOut": v.sum, "attentionOutOut": v.out,
	}
	if x.packed() {
		a["actualSeqQLenOptional"], a["actualSeqKvLenOptional"] = ends(x.rows), ends(x.cols)
	}
	maps.Copy(a, x.args)
	return v, a
}

// backwardNames are the arguments that the backward functions call otherwise.
var backwardNames = map[string]string{
	"key": "keyIn", "realShiftOptional": "pseShiftOptional", "softmaxMaxOut": "softmaxMaxOptional",
	"softmaxSumOut": "softmaxSumOptional", "attentionOutOut": "attentionInOptional", "softmaxOutLayout": "softmaxInLayout",
}

// backwardArgs turns the arguments of the forward call into those of the backward call.
func (v trialTensors) backwardArgs(forward args) args {
	a := args{"dy": v.dy, "dqOut": v.dq, "dkOut": v.dk, "dvOut": v.dv}
	for name, value := range forward {
		if other, ok := backwardNames[name]; ok {
			name = other
		}
		a[name] = value
	}
	return a
}

// check runs both directions and compares every output with the definition.
func (x *trial) check(t *testing.T) {
	t.Helper()
	v, a := x.start(t)
	run(t, x.forward(), a)
	if !x.noGrad {
		run(t, x.backward(), v.backwardArgs(a))
	}
	query, key, value, dy := x.split(v.query, x.rows, x.heads, x.dim), x.split(v.key, x.cols, x.keyHeads, x.dim), x.split(v.value, x.cols, x.keyHeads, x.valDim), x.split(v.dy, x.rows, x.heads, x.valDim)
	out, top, total := x.split(v.out, x.rows, x.heads, x.valDim), x.statistics(t, v.max), x.statistics(t, v.sum)
	dq, dk, dv := x.split(v.dq, x.rows, x.heads, x.dim), x.split(v.dk, x.cols, x.keyHeads, x.dim), x.split(v.dv, x.cols, x.keyHeads, x.valDim)
	for i := range x.rows {
		o := kerneltest.Attention{
			Heads: x.heads, KeyHeads: x.keyHeads, Rows: x.rows[i], Cols: x.cols[i], Dim: x.dim, ValueDim: x.valDim,
			Query: query[i], Key: key[i], Value: value[i], OutGrad: dy[i], Scale: x.scale(), ZeroMaskedRows: x.zero,
		}
		if x.visible != nil {
			o.Visible = func(h, r, c int64) bool { return x.visible(i, h, r, c) }
		}
		if x.score != nil {
			o.Score = func(h, r, c int64, p float64) float64 { return x.score(i, h, r, c, p) }
		}
		if x.keep != nil {
			o.Keep = func(h, r, c int64) float64 { return x.keep(i, h, r, c) }
		}
		want, limit := o.Compute(), map[dtype.Type]float64{dtype.Float32: 5e-5, dtype.Float16: 0.012, dtype.BFloat16: 0.06}[x.dtype]
		close := func(what string, want, got []float64, limit float64) {
			closeTo(t, fmt.Sprintf("%s of item %d", what, i), want, got, limit)
		}
		close("out", want.Out, out[i], limit)
		close("max", want.Max, top[i], 5e-5)
		close("sum", want.Sum, total[i], 5e-5)
		if !x.noGrad {
			close("dq", want.QueryGrad, dq[i], limit)
			close("dk", want.KeyGrad, dk[i], limit)
			close("dv", want.ValueGrad, dv[i], limit)
		}
	}
}

// closeTo compares up to a share of the root mean square; NaN fails.
func closeTo(t testing.TB, what string, want, got []float64, limit float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	squares := 0.0
	for _, w := range want {
		squares += w * w
	}
	unit := max(math.Sqrt(squares/float64(max(len(want), 1))), 0.2)
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= limit*max(unit, math.Abs(want[i]))) {
			require.Failf(t, what, "element %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// triangle is the compressed mask; the emulator computes its rule and reads only the shape.
func triangle(t testing.TB, rows int64) *Tensor {
	mask := tensor(t, dtype.Bool, []int64{1, 2048})
	mask.Shape, mask.Strides = []int64{rows, 2048}, []int64{0, 1}
	return mask
}

// denseMask is a mask tensor of the cells that are not visible.
func denseMask(t testing.TB, shape []int64, visible func(item int, head, row, col int64) bool) *Tensor {
	n := len(shape)
	wide := append([]int64{1, 1}, shape...)[n-2:]
	var hidden []float64
	for b := range wide[0] {
		for h := range wide[1] {
			for i := range wide[2] {
				for j := range wide[3] {
					x := 0.0
					if !visible(int(b), h, i, j) {
						x = 1
					}
					hidden = append(hidden, x)
				}
			}
		}
	}
	return tensor(t, dtype.Uint8, shape, hidden...)
}

var attentionTrials = []trial{
	{heads: 2, keyHeads: 2, dim: 16, valDim: 16, rows: []int64{33, 33}, cols: []int64{33, 33}},
	{heads: 4, keyHeads: 2, dim: 24, valDim: 8, rows: []int64{7, 7, 7}, cols: []int64{130, 130, 130}},
	{heads: 3, keyHeads: 1, dim: 5, valDim: 5, rows: []int64{101}, cols: []int64{37}},
	{heads: 1, keyHeads: 1, dim: 1, valDim: 1, rows: []int64{1}, cols: []int64{1}},
}

// Every layout gives what the definition gives, in every dtype, with every rule that needs no
// dense mask.
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
				x.args = args{"sparseMode": 2, "attenMaskOptional": triangle(t, 2048)}
				x.visible = func(_ int, _, i, j int64) bool { return j <= i }
				t.Run(fmt.Sprintf("%v/causal", &x), func(t *testing.T) { x.check(t) })
			}
		}
	}
}

// Row i sees column j by the rules of sparseMode, written down a second time.
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
		x.args = args{"sparseMode": c.mode, "preTokens": c.pre, "nextTokens": c.next, "prefixOptional": c.prefix}
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

// Every legal form of a dense mask means the same where it says the same.
func TestFlashAttentionDenseMaskForms(t *testing.T) {
	const b, n, s, k = 2, 4, 21, 34
	for name, shape := range map[string][]int64{"Sq,Skv": {s, k}, "1,1,Sq,Skv": {1, 1, s, k}, "B,1,Sq,Skv": {b, 1, s, k}, "B,N,Sq,Skv": {b, n, s, k}} {
		t.Run(name, func(t *testing.T) {
			wide := append([]int64{1, 1}, shape...)[len(shape)-2:]
			visible := func(item int, h, i, j int64) bool {
				return (int64(item)%wide[0]*5+h%wide[1]*3+i+2*j)%3 != 0
			}
			x := trial{layout: "BSND", dtype: dtype.Float32, heads: n, keyHeads: 2, dim: 8, valDim: 8, rows: []int64{s, s}, cols: []int64{k, k}, visible: visible}
			x.args = args{"sparseMode": 1, "attenMaskOptional": denseMask(t, shape, visible)}
			x.check(t)
		})
	}
	t.Run("stride 0", func(t *testing.T) {
		visible := func(_ int, _, _, j int64) bool { return j%3 != 1 }
		x := trial{layout: "SBH", dtype: dtype.BFloat16, heads: n, keyHeads: n, dim: 8, valDim: 8, rows: []int64{s, s}, cols: []int64{k, k}, visible: visible}
		row := denseMask(t, []int64{1, k}, visible)
		row.Shape, row.Strides = []int64{s, k}, []int64{0, 1}
		x.args = args{"sparseMode": 1, "attenMaskOptional": row}
		x.check(t)
	})
}

// A row that sees nothing: the mean of the values, or nothing when innerPrecise says so.
func TestFlashAttentionBlindRows(t *testing.T) {
	const s, k = 30, 110
	visible := func(_ int, _, i, j int64) bool { return i%4 != 1 && j > 20 }
	for _, precise := range []int64{0, 1, 2, 3} {
		t.Run(fmt.Sprintf("innerPrecise %d", precise), func(t *testing.T) {
			x := trial{layout: "BNSD", dtype: dtype.Float32, heads: 2, keyHeads: 1, dim: 8, valDim: 8, rows: []int64{s}, cols: []int64{k}, visible: visible, zero: precise == 2}
			x.args = args{"sparseMode": 1, "innerPrecise": precise, "attenMaskOptional": denseMask(t, []int64{s, k}, visible)}
			x.check(t)
			v, a := x.start(t)
			run(t, x.forward(), a)
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

// The value of dropout bits is spread over rows without padding; kept ones are scaled.
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
		x.args = args{"keepProb": 0.75, "dropMaskOptional": tensor(t, dtype.Uint8, []int64{int64(len(bits))}, bits...)}
		t.Run(layout, func(t *testing.T) { x.check(t) })
	}
	t.Run("keepProb without mask is no dropout forward, refused backward", func(t *testing.T) {
		x := trial{layout: "BNSD", dtype: dtype.Float32, heads: 1, keyHeads: 1, dim: 8, valDim: 8, rows: []int64{5}, cols: []int64{5}, args: args{"keepProb": 0.5}, noGrad: true}
		x.check(t)
		v, a := x.start(t)
		refused(t, 161001, x.backward(), v.backwardArgs(a), "dropMask can not be nullptr")
	})
	t.Run("a mask counts forward with keepProb 1, and not backward", func(t *testing.T) {
		x := trial{layout: "BNSD", dtype: dtype.Float32, heads: 1, keyHeads: 1, dim: 8, valDim: 8, rows: []int64{5}, cols: []int64{5}, noGrad: true}
		x.args = args{"dropMaskOptional": tensor(t, dtype.Uint8, []int64{4}, 0)}
		x.keep = func(int, int64, int64, int64) float64 { return 0 }
		x.check(t)
	})
}

// element is the address of element n in row-major order.
func element(x *Tensor, n int) (at unsafe.Pointer) {
	kerneltest.Each(x.View(), func(p unsafe.Pointer) {
		if n == 0 {
			at = p
		}
		n--
	})
	return at
}

// Gradients agree with differences of the forward pass: nothing of the backward pass is
// assumed.
func TestFlashAttentionFiniteDifferences(t *testing.T) {
	x := trial{layout: "BSND", dtype: dtype.Float32, heads: 4, keyHeads: 2, dim: 6, valDim: 4, rows: []int64{9, 9}, cols: []int64{12, 12}}
	x.args = args{"sparseMode": 3, "attenMaskOptional": triangle(t, 2048), "keepProb": 0.8, "dropMaskOptional": tensor(t, dtype.Uint8, []int64{108}, 0xB7, 0x5D, 0xEE),
		"realShiftOptional": tensor(t, dtype.Float32, []int64{2, 4, 9, 12}, 0.5, -1, 0.25, 2, -0.75)}
	v, a := x.start(t)
	run(t, x.forward(), a)
	run(t, x.backward(), v.backwardArgs(a))
	loss := func() (sum float64) {
		run(t, x.forward(), a)
		dy := values(v.dy)
		for i, o := range values(v.out) {
			sum += o * dy[i]
		}
		return sum
	}
	for _, pair := range [][2]*Tensor{{v.query, v.dq}, {v.key, v.dk}, {v.value, v.dv}} {
		want := values(pair[1])
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

// The kernel cuts items at the same places whatever the batch, so results are equal bit by bit.
func TestFlashAttentionBatchInvariance(t *testing.T) {
	x := trial{layout: "TND", dtype: dtype.BFloat16, heads: 2, keyHeads: 1, dim: 64, valDim: 64, rows: []int64{300}, cols: []int64{300}}
	v, a := x.start(t)
	run(t, x.forward(), a)
	alone := values(v.out)
	many := x
	many.rows, many.cols = []int64{300, 17, 40}, []int64{300, 5, 99}
	w, b := many.start(t)
	for _, pair := range [][2]*Tensor{{w.query, v.query}, {w.key, v.key}, {w.value, v.value}} {
		first := values(pair[1])
		kerneltest.Each(pair[0].View(), func(p unsafe.Pointer) {
			if len(first) > 0 {
				kerneltest.Set(x.dtype, p, first[0])
				first = first[1:]
			}
		})
	}
	run(t, many.forward(), b)
	require.Equal(t, alone, values(w.out)[:len(alone)])
}
