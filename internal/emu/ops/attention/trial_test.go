package attention

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// trial is one attention call. Its values are stored by item, each [heads, tokens, dim], so that
// they can be converted to every layout and compared with the definition.
type trial struct {
	layout          string
	dtype           dtype.Type
	heads, keyHeads int64
	dim, valDim     int64
	rows, cols      []int64     // by item; all equal unless TND
	version         string      // suffix of the operators
	args            optest.Args // options and optional tensors of both directions

	visible func(item int, head, row, col int64) bool
	score   func(item int, head, row, col int64, product float64) float64
	keep    func(item int, head, row, col int64) float64
	zero    bool
	noGrad  bool
	sinks   []float64 // of the heads
}

// unlimited is a value of preTokens or nextTokens that hides nothing.
const unlimited = math.MaxInt32

func (x *trial) String() string {
	return fmt.Sprintf("%s/%v/N%d:%d/D%d:%d/%v/%v", x.layout, x.dtype, x.heads, x.keyHeads, x.dim, x.valDim, x.rows, x.cols)
}

func (x *trial) packed() bool { return x.layout == "TND" }

func (x *trial) scale() float64 { return float64(float32(1 / math.Sqrt(float64(x.dim)))) }

// forward and backward return the names of the operators.
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
		out[i] = op.Total(lengths[:i+1])
	}
	return out
}

// shapeOf returns the shape of a tensor of the trial.
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
	return []int64{op.Total(lengths), heads, dim}
}

// place returns the position of an item's element in the row-major tensor.
func (x *trial) place(lengths []int64, item int, heads, dim, head, row, col int64) int64 {
	b, i, s := int64(len(lengths)), int64(item), lengths[item]
	switch x.layout {
	case "BNSD":
		return ((i*heads+head)*s+row)*dim + col
	case "SBH":
		return ((row*b+i)*heads+head)*dim + col
	case "TND":
		return ((op.Total(lengths[:item])+row)*heads+head)*dim + col
	}
	return ((i*s+row)*heads+head)*dim + col
}

// eachElement calls f with the position of each element in its item and in the tensor.
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

// join copies items to a tensor; split reads them back.
func (x *trial) join(t testing.TB, items [][]float64, lengths []int64, heads, dim int64, l kerneltest.Layout) *op.Tensor {
	flat := make([]float64, max(op.Total(lengths)*heads*dim, 1))
	x.eachElement(lengths, heads, dim, func(item int, at, place int64) { flat[place] = items[item][at] })
	return optest.TensorIn(t, x.dtype, l, x.shapeOf(lengths, heads, dim), flat...)
}

func (x *trial) split(v *op.Tensor, lengths []int64, heads, dim int64) [][]float64 {
	flat, out := optest.Values(v), make([][]float64, len(lengths))
	for i, s := range lengths {
		out[i] = make([]float64, heads*s*dim)
	}
	x.eachElement(lengths, heads, dim, func(item int, at, place int64) { out[item][at] = flat[place] })
	return out
}

// statistics reads softmaxMax or softmaxSum per item, in the order of the device.
func (x *trial) statistics(t testing.TB, v *op.Tensor) [][]float64 {
	flat, out := optest.Values(v), make([][]float64, len(x.rows))
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

// trialTensors holds the tensors of a trial.
type trialTensors struct {
	query, key, value, dy, out, max, sum *op.Tensor
	dq, dk, dv, dsink                    *op.Tensor
}

// start creates inputs, unwritten outputs and the arguments of the forward call.
func (x *trial) start(t testing.TB) (trialTensors, optest.Args) {
	r := rand.New(rand.NewPCG(3, uint64(op.Total(x.rows)*100+op.Total(x.cols))))
	layouts := []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Transposed, kerneltest.Gapped}
	strided := func() kerneltest.Layout { return layouts[r.IntN(len(layouts))] }
	input := func(lengths []int64, heads, dim int64) *op.Tensor {
		return x.join(t, noise(r, lengths, heads, dim), lengths, heads, dim, strided())
	}
	output := func(lengths []int64, heads, dim int64) *op.Tensor {
		return optest.TensorIn(t, x.dtype, strided(), x.shapeOf(lengths, heads, dim))
	}
	stats := []int64{int64(len(x.rows)), x.heads, x.rows[0], 8}
	if x.packed() {
		stats = []int64{op.Total(x.rows), x.heads, 8}
	}
	v := trialTensors{
		query: input(x.rows, x.heads, x.dim), key: input(x.cols, x.keyHeads, x.dim), value: input(x.cols, x.keyHeads, x.valDim),
		dy: input(x.rows, x.heads, x.valDim), out: output(x.rows, x.heads, x.valDim),
		max: optest.Tensor(t, dtype.Float32, stats), sum: optest.Tensor(t, dtype.Float32, stats),
		dq: output(x.rows, x.heads, x.dim), dk: output(x.cols, x.keyHeads, x.dim), dv: output(x.cols, x.keyHeads, x.valDim),
	}
	a := optest.Args{
		"query": v.query, "key": v.key, "value": v.value, "scaleValue": x.scale(), "keepProb": 1.0, "preTokens": unlimited, "nextTokens": unlimited,
		"headNum": x.heads, "inputLayout": x.layout, "softmaxMaxOut": v.max, "softmaxSumOut": v.sum, "attentionOutOut": v.out,
	}
	if x.packed() {
		a["actualSeqQLenOptional"], a["actualSeqKvLenOptional"] = ends(x.rows), ends(x.cols)
	}
	if x.sinks != nil {
		a["sinkOptional"] = optest.TensorIn(t, dtype.Float32, kerneltest.Gapped, []int64{x.heads}, x.sinks...)
		v.dsink = optest.TensorIn(t, dtype.Float32, kerneltest.Gapped, []int64{x.heads})
	}
	maps.Copy(a, x.args)
	return v, a
}

// backwardNames maps the arguments that have another name in the backward functions.
var backwardNames = map[string]string{
	"key": "keyIn", "realShiftOptional": "pseShiftOptional", "softmaxMaxOut": "softmaxMaxOptional",
	"softmaxSumOut": "softmaxSumOptional", "attentionOutOut": "attentionInOptional", "softmaxOutLayout": "softmaxInLayout",
	"sinkOptional": "sinkInOptional",
}

// backwardArgs converts the arguments of the forward call to those of the backward call.
func (v trialTensors) backwardArgs(forward optest.Args) optest.Args {
	a := optest.Args{"dy": v.dy, "dqOut": v.dq, "dkOut": v.dk, "dvOut": v.dv}
	if v.dsink != nil {
		a["dsinkOut"] = v.dsink
	}
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
	optest.Run(t, x.forward(), a)
	if !x.noGrad {
		optest.Run(t, x.backward(), v.backwardArgs(a))
	}
	query, key, value, dy := x.split(v.query, x.rows, x.heads, x.dim), x.split(v.key, x.cols, x.keyHeads, x.dim), x.split(v.value, x.cols, x.keyHeads, x.valDim), x.split(v.dy, x.rows, x.heads, x.valDim)
	sinkGrad := make([]float64, x.heads)
	out, top, total := x.split(v.out, x.rows, x.heads, x.valDim), x.statistics(t, v.max), x.statistics(t, v.sum)
	dq, dk, dv := x.split(v.dq, x.rows, x.heads, x.dim), x.split(v.dk, x.cols, x.keyHeads, x.dim), x.split(v.dv, x.cols, x.keyHeads, x.valDim)
	for i := range x.rows {
		o := kerneltest.Attention{
			Heads: x.heads, KeyHeads: x.keyHeads, Rows: x.rows[i], Cols: x.cols[i], Dim: x.dim, ValueDim: x.valDim,
			Query: query[i], Key: key[i], Value: value[i], OutGrad: dy[i], Scale: x.scale(), ZeroMaskedRows: x.zero, Sinks: x.sinks,
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
			optest.CloseTo(t, fmt.Sprintf("%s of item %d", what, i), want, got, limit)
		}
		close("out", want.Out, out[i], limit)
		close("max", want.Max, top[i], 5e-5)
		close("sum", want.Sum, total[i], 5e-5)
		if !x.noGrad {
			close("dq", want.QueryGrad, dq[i], limit)
			close("dk", want.KeyGrad, dk[i], limit)
			close("dv", want.ValueGrad, dv[i], limit)
			optest.Add(sinkGrad, want.SinkGrad)
		}
	}
	if v.dsink != nil && !x.noGrad {
		optest.CloseTo(t, "dsink", sinkGrad, optest.Values(v.dsink), 2*optest.ResultLimit(x.dtype))
	}
}

// triangle returns the compressed mask. The emulator reads only its shape and computes the rule.
func triangle(t testing.TB, rows int64) *op.Tensor {
	mask := optest.Tensor(t, dtype.Bool, []int64{1, 2048})
	mask.Shape, mask.Strides = []int64{rows, 2048}, []int64{0, 1}
	return mask
}

// denseMask returns a mask tensor of the invisible cells.
func denseMask(t testing.TB, shape []int64, visible func(item int, head, row, col int64) bool) *op.Tensor {
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
	return optest.Tensor(t, dtype.Uint8, shape, hidden...)
}
