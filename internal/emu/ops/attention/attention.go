package attention

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/op"
)

// attentionTable is the FlashAttentionScore family. The functions look up in the declaration which
// parameters an operator has, so one function implements each direction.
var attentionTable = op.Table{
	"FlashAttentionScore":                flashAttention,
	"FlashAttentionScoreV2":              flashAttention,
	"FlashAttentionScoreV3":              flashAttention,
	"FlashAttentionVarLenScore":          flashAttention,
	"FlashAttentionVarLenScoreV2":        flashAttention,
	"FlashAttentionVarLenScoreV3":        flashAttention,
	"FlashAttentionVarLenScoreV4":        flashAttention,
	"FlashAttentionVarLenScoreV5":        flashAttention,
	"FlashAttentionScoreGrad":            flashAttentionGrad,
	"FlashAttentionScoreGradV2":          flashAttentionGrad,
	"FlashAttentionScoreGradV3":          flashAttentionGrad,
	"FlashAttentionUnpaddingScoreGrad":   flashAttentionGrad,
	"FlashAttentionUnpaddingScoreGradV2": flashAttentionGrad,
	"FlashAttentionUnpaddingScoreGradV3": flashAttentionGrad,
	"FlashAttentionUnpaddingScoreGradV4": flashAttentionGrad,
	"FlashAttentionUnpaddingScoreGradV5": flashAttentionGrad,
}.Selects()

// tilingFailed is the code that phase two of the forward operators returns if tiling failed,
// because phase one drops that status. The name of the code mentions a null pointer, which is not
// the cause.
const tilingFailed = op.NoStep

// maxHeadDim is the largest head dimension of the family, and maxHeads the largest number of query
// heads. The vendor documents maxHeads and narrowHeadDim, but checks maxHeadDim alone.
const (
	maxHeadDim    = 768
	narrowHeadDim = 512
	maxHeads      = 256
)

// wideHeads lists the functions that take head dimensions up to maxHeadDim; the others, and all of CANN
// 8.1, take narrowHeadDim.
var wideHeads = []string{"FlashAttentionScore", "FlashAttentionVarLenScore", "FlashAttentionVarLenScoreV4", "FlashAttentionScoreGrad"}

// headDimLimit returns the largest head dimension of the called function.
func headDimLimit(c *op.Call) int64 {
	if c.Older() || !slices.Contains(wideHeads, c.Op.Name) {
		return narrowHeadDim
	}
	return maxHeadDim
}

// farAway bounds preTokens and nextTokens, so that sums with lengths do not overflow.
const farAway = int64(1) << 50

// attention is one call in either direction.
type attention struct {
	attentionShape
	mask       attentionMask
	bias       attentionBias
	drop       *op.Tensor
	keepProb   float64
	scale      float32
	max, sum   *op.Tensor
	sink       *op.Tensor // [heads], float32
	out        *op.Tensor
	tokenMajor bool // TND: the statistics are [T,N,8] in memory, in the order of the tokens
}

// given returns an optional tensor. As in CANN, a tensor without dimensions counts as absent.
func given(c *op.Call, name string) *op.Tensor {
	if t := c.Optional(name); t != nil && t.Rank() > 0 {
		return t
	}
	return nil
}

// firstOf returns the first value of an optional list, or 0.
func firstOf(c *op.Call, name string) int64 {
	if !c.Has(name) {
		return 0
	}
	if v := c.Ints(name); len(v) > 0 {
		return v[0]
	}
	return 0
}

// readAttention reads the arguments that both directions have. key, pse and sink are the names of these
// parameters.
func readAttention(c *op.Call, key, pse, sink string) *attention {
	a := &attention{
		drop:     given(c, "dropMaskOptional"),
		keepProb: c.Float("keepProb"),
		scale:    float32(c.Float("scaleValue")),
	}
	a.query, a.key, a.value = c.Tensor("query"), c.Tensor(key), c.Tensor("value")
	a.dimLimit = headDimLimit(c)
	a.headNum = c.Int("headNum")
	a.mask = attentionMask{
		tensor: given(c, "attenMaskOptional"),
		mode:   c.Int("sparseMode"),
		pre:    min(max(c.Int("preTokens"), -farAway), farAway),
		next:   min(max(c.Int("nextTokens"), -farAway), farAway),
		prefix: c.Ints("prefixOptional"),
		zero:   c.Int("innerPrecise") == 2,
	}
	a.bias = attentionBias{
		tensor: given(c, pse), kind: pseBeforeScale,
		start: firstOf(c, "kvStartIdxOptional") - firstOf(c, "qStartIdxOptional"),
	}
	if c.Has(sink) {
		a.sink = given(c, sink)
	}
	if c.Has("pseType") {
		a.bias.kind = c.Int("pseType")
	}
	if c.Has("actualSeqQLenOptional") {
		a.queryEnds, a.keyEnds = c.Ints("actualSeqQLenOptional"), c.Ints("actualSeqKvLenOptional")
	}
	return a
}

// readLayout finds the layout and derives the sizes from the shapes. It refuses with 161002.
func (a *attention) readLayout(c *op.Call) {
	name := c.Text("inputLayout")
	varlen := c.Has("actualSeqQLenOptional")
	switch {
	case varlen && name != "TND":
		c.Invalid("Layout %q is not TND, invalid shape: this function takes packed sequences", name)
	case !varlen && name == "TND":
		c.Invalid("layout TND has no sequence lengths here; use aclnnFlashAttentionVarLenScore or aclnnFlashAttentionUnpaddingScoreGrad")
	}
	a.layout = readLayout(c, name, a.query, a.key, a.value)
	if c.Err() != nil {
		return
	}
	a.measure()
	a.checkDims(c)
}

// readStatsLayout reads the argument that selects the order of the tokens for the statistics of
// TND.
func (a *attention) readStatsLayout(c *op.Call, name string) {
	if !c.Has(name) {
		return
	}
	switch word := c.Text(name); word {
	case "":
	case "same_as_input":
		a.tokenMajor = true
	default:
		c.Invalid("%s %q is not same_as_input or Empty string", name, word)
	}
}

// checkRope checks the rotary columns that are passed as separate tensors. In the forward direction
// CANN uses one code for all refusals.
func (a *attention) checkRope(c *op.Call, code int32, queryRope, keyRope *op.Tensor) {
	a.queryRope, a.keyRope = queryRope, keyRope
	refuse := func(format string, args ...any) { c.Fail(code, "split rope: "+format, args...) }
	for _, t := range []*op.Tensor{a.query, a.key, a.value, queryRope, keyRope} {
		if t.DType != dtype.BFloat16 {
			refuse("%v must be bfloat16", t)
		}
	}
	switch {
	case a.query.Rank() != 3 || queryRope.Rank() != 3 || keyRope.Rank() != 3 || a.key.Rank() != 3:
		refuse("%v and %v must be [T,N,D]", queryRope, keyRope)
	case !slices.Equal(queryRope.Shape[:2], a.query.Shape[:2]) || !slices.Equal(keyRope.Shape[:2], a.key.Shape[:2]):
		refuse("%v and %v must have tokens and heads of %v and %v", queryRope, keyRope, a.query, a.key)
	case queryRope.Dim(2) != keyRope.Dim(2) || queryRope.Dim(2) > a.query.Dim(2):
		refuse("the last dimensions of %v and %v must be equal and at most that of %v", queryRope, keyRope, a.query)
	case a.bias.tensor != nil || a.drop != nil || a.keepProb != 1:
		refuse("pse and dropout are not supported; keepProb must be 1, it is %v", a.keepProb)
	case a.mask.tensor != nil && a.mask.mode == sparsePrefix2:
		refuse("sparseMode 6 is not supported")
	}
	if a.mask.tensor == nil {
		c.Fail(op.NullPointer, "split rope: attenMask is null")
	}
	if c.Err() == nil {
		a.ropeDim = queryRope.Dim(2)
	}
}

// checkTiling checks the conditions of CANN's tiling that both directions share.
func (a *attention) checkTiling(form func(*attentionShape) error) error {
	if err := a.checkPairs(); err != nil {
		return err
	}
	if a.query.Len() == 0 || a.key.Len() == 0 {
		a.blank()
		return nil
	}
	if !(a.keepProb > 0 && a.keepProb <= 1) {
		return tilingErrorf("keepProb value must be in range of (0, 1], it is %v", a.keepProb)
	}
	for _, check := range []func() error{
		a.checkDType,
		a.checkHeads,
		a.divide,
		func() error { return a.bias.checkForm(&a.attentionShape, &a.mask) },
		func() error { return form(&a.attentionShape) },
		a.checkDrop,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkSink checks the sinks, which the 950 does not have.
func (a *attention) checkSink(c *op.Call) {
	if a.sink == nil || c.Err() != nil {
		return
	}
	if c.Chip() == acceptance.Ascend950 {
		c.Invalid("%v: attention of the Ascend950 has no sinks", a.sink)
	}
	c.DType(a.sink, dtype.Float32)
	c.Shape(a.sink, []int64{a.headNum}, "headNum")
}

// checkDrop checks the size of the dropout bits.
func (a *attention) checkDrop() error {
	if a.drop == nil {
		return nil
	}
	if a.drop.DType != dtype.Uint8 {
		return tilingErrorf("invalid dropMask dtype[%v]; it must be uint8, a bit per score, 1 keeps", a.drop.DType)
	}
	if need := (a.heads*a.cells(len(a.items)) + 7) / 8; a.drop.Len() < need {
		return tilingErrorf("Input dropMask shapeSize is invalid: %v has fewer than the %d bytes for %d scores", a.drop, need, a.heads*a.cells(len(a.items)))
	}
	if !a.drop.Contiguous() {
		return tilingErrorf("dropMask must be contiguous: it holds bits")
	}
	return nil
}

// statsShape returns the shape of softmaxMax and softmaxSum.
func (a *attention) statsShape() []int64 {
	if a.layout.packed() {
		return []int64{a.query.Dim(0), a.heads, attentionkernel.AttentionStatCopies}
	}
	return []int64{a.batch, a.heads, a.query.Dim(a.layout.row), attentionkernel.AttentionStatCopies}
}

// stats returns the [heads, rows, copies] view of a statistic for one item. In TND each item is a
// contiguous [heads, rows, copies] block after the previous item's, unless the statistics are in
// the order of the tokens.
func (a *attention) stats(t *op.Tensor, item attentionItem) kernel.View {
	shape := []int64{a.heads, item.rows, attentionkernel.AttentionStatCopies}
	switch {
	case !a.layout.packed():
		return part(t, item.batch*t.Strides[0], shape, t.Strides[1:])
	case a.tokenMajor:
		return part(t, item.row*t.Strides[0], shape, []int64{t.Strides[1], t.Strides[0], t.Strides[2]})
	}
	return part(t, item.row*a.heads*attentionkernel.AttentionStatCopies, shape, []int64{item.rows * attentionkernel.AttentionStatCopies, attentionkernel.AttentionStatCopies, 1})
}

// checkStats checks the shapes and dtypes of the statistics.
func (a *attention) checkStats(refuse func(format string, args ...any)) {
	for _, t := range []*op.Tensor{a.max, a.sum} {
		if t.DType != dtype.Float32 || !slices.Equal(t.Shape, a.statsShape()) {
			refuse("The shape or dtype of %v is invalid; it should be float32%s (%s)", t, op.Dims(a.statsShape()), a.statsNote())
		} else if a.layout.packed() && !a.tokenMajor && !t.Contiguous() {
			refuse("%v must be contiguous: with TND its bytes are [N,S,8] for each sequence", t)
		}
	}
}

func (a *attention) statsNote() string {
	if a.layout.packed() {
		return "T,N,8"
	}
	return "B,N,S,8"
}

// blank sets up a call without scores, whose results are zero. Like CANN, it ignores the mask and
// the bias.
func (a *attention) blank() {
	a.mask.tensor, a.bias.tensor, a.drop = nil, nil, nil
	a.keyHeads = max(1, a.keyHeads)
	if a.heads%a.keyHeads != 0 {
		a.keyHeads = 1
	}
	if a.key.Len() == 0 {
		a.cols = 0
	}
	for b := range max(a.batch, 1) {
		a.items = append(a.items, attentionItem{batch: b, rows: a.rows}, attentionItem{batch: b, cols: a.cols})
	}
}

// blankTail adds items for the tokens after the last sequence of TND. Their results are zero.
func (a *attention) blankTail() {
	a.items = append(a.items,
		attentionItem{row: a.rowsPacked, rows: a.query.Dim(0) - a.rowsPacked},
		attentionItem{col: a.colsTotal, cols: a.key.Dim(0) - a.colsTotal})
}

// kernelItems returns the items of the call for the kernel.
func (a *attention) kernelItems() []attentionkernel.Attention {
	first, _ := a.nonEmpty()
	items := make([]attentionkernel.Attention, 0, len(a.items))
	for i, it := range a.items {
		if it.rows == 0 || it.cols == 0 {
			items = append(items, a.kernelItem(it))
			continue
		}
		k := a.kernelItem(it)
		k.First, k.Last, k.Prefix = it.window.first, it.window.last, it.window.prefix
		k.Mask = a.mask.view(&a.attentionShape, it)
		a.bias.set(&k, &a.attentionShape, i, i == first, a.mask.mode)
		if a.drop != nil {
			k.Keep, k.KeepBit, k.KeepProb = a.drop.Data, a.heads*a.cells(i), float32(a.keepProb)
		}
		items = append(items, k)
	}
	return items
}

// kernelItem returns an item for the kernel without window, mask, bias and dropout.
func (a *attention) kernelItem(it attentionItem) attentionkernel.Attention {
	l := a.layout
	k := attentionkernel.Attention{
		Query: l.view(a.query, it.batch, it.row, a.heads, it.rows, a.dim),
		Key:   l.view(a.key, it.batch, it.col, a.keyHeads, it.cols, a.dim),
		Value: l.view(a.value, it.batch, it.col, a.keyHeads, it.cols, a.valDim),
		Out:   l.view(a.out, it.batch, it.row, a.heads, it.rows, a.valDim),
		Max:   a.stats(a.max, it), Sum: a.stats(a.sum, it),
		Scale: a.scale, ZeroMaskedRows: a.mask.zero,
	}
	if a.sink != nil {
		k.Sink = a.sink.As([]int64{a.heads, 1, 1}, []int64{a.sink.Strides[0], 0, 0})
	}
	if a.queryRope != nil {
		k.QueryRope = l.view(a.queryRope, it.batch, it.row, a.heads, it.rows, a.ropeDim)
		k.KeyRope = l.view(a.keyRope, it.batch, it.col, a.keyHeads, it.cols, a.ropeDim)
	}
	return k
}
