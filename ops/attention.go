package ops

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
	"github.com/goascend/cann/ops/mask"
)

// Layout is the order of dimensions of query, key, value and output.
type Layout = mask.Layout

// Layouts of attention: B batch, S sequence, N heads, D head dimension, H = N·D, T all tokens
// of packed sequences.
const (
	BSH  = mask.BSH
	SBH  = mask.SBH
	BSND = mask.BSND
	BNSD = mask.BNSD
	TND  = mask.TND
)

// BiasKind says how a position bias enters the scores.
type BiasKind = key.BiasKind

// The kinds, with the values of CANN's pseType. For the first two, Bias has the dtype of the query;
// for the others it is float32 with one slope per head.
const (
	BiasAfterScale   BiasKind = BiasKind(aclnn.PseAfterScale)  // scale·QKᵀ + bias
	BiasBeforeScale  BiasKind = BiasKind(aclnn.PseBeforeScale) // scale·(QKᵀ + bias)
	BiasDistance     BiasKind = BiasKind(aclnn.PseSlope)       // scale·QKᵀ − slope·|KeyStart + j − QueryStart − i|
	BiasRootDistance BiasKind = BiasKind(aclnn.PseSlopeRoot)   // the same with √distance
)

// AttentionArgs describes scaled dot-product attention with grouped query heads: Out =
// dropout(softmax(Scale·Query·Keyᵀ + bias, masked))·Value. With N query heads and Nkv key heads, N
// being a multiple of Nkv, query head n reads key head n/(N/Nkv). Query, Key, Value and Out have
// one dtype, float32, float16 or bfloat16.
type AttentionArgs struct {
	// Query is [B,Sq,N·D], [Sq,B,N·D], [B,Sq,N,D], [B,N,Sq,D] or [T,N,D], depending on Layout. Key
	// and Value have Skv and Nkv instead of Sq and N; Value and Out have head dim Dv ≤ D.
	Query, Key, Value *aclnn.Tensor
	Layout            Layout
	Heads             int       // N; may be 0 in layouts with an axis N
	Mask              mask.Mask // nil is mask.None
	Scale             float64   // usually 1/√D, which is ScaleOf(D); 0 is refused

	// Bias is a position bias [B or 1, N, Sq or 1, Skv], or slopes [N] or [B,N], where B is the
	// number of sequences in TND. In TND a bias other than slopes is one row: the [N,Sq,Skv] of the
	// sequences one after another, or their [N,1,Skv]. Nil means no bias. It gets no gradient.
	Bias     *aclnn.Tensor
	BiasKind BiasKind
	// QueryStart and KeyStart are the positions of the first query and the first key, used to
	// compute the distances of slope biases.
	QueryStart, KeyStart int64

	// DropMask has one bit for each probability, [B,N,Sq,Skv] in row-major order without row
	// padding, least significant bit of a byte first, 1 = keep, as DropoutGenMaskV2 makes it;
	// uint8. Kept probabilities are multiplied by 1/KeepProb. Nil means no dropout; KeepProb must
	// then be 0 or 1.
	DropMask *aclnn.Tensor
	KeepProb float64
	// Sinks are scores that each softmax row of a head has besides those of its keys, as of a key whose value is zero: [N],
	// float32. A token then need not attend to anything (arXiv:2309.17453; gpt-oss learns them). Nil means none.
	Sinks *aclnn.Tensor

	Out *aclnn.Tensor // like Query, with Dv
	// SoftmaxMax and SoftmaxSum receive the maximum and the sum of every softmax row, its sink among them, which
	// AttentionGrad needs: [B,N,Sq,8] or [T,N,8], float32, eight equal copies. In TND the rows of a
	// sequence are ordered by head. Nil if the gradient is not needed.
	SoftmaxMax, SoftmaxSum *aclnn.Tensor
}

// AttentionGradArgs describes the gradients of Attention. Out, SoftmaxMax and SoftmaxSum are those
// that Attention wrote; all other arguments must be the same as for Attention.
type AttentionGradArgs struct {
	AttentionArgs
	DOut                 *aclnn.Tensor // like Out
	DQuery, DKey, DValue *aclnn.Tensor // like Query, Key, Value
	DSinks               *aclnn.Tensor // like Sinks; nil without them, or if it is not wanted
}

// geometry holds the sizes of an attention problem. In TND, b is 1, and sq and skv count the tokens
// of all sequences.
type geometry struct{ b, n, nkv, sq, skv, d, dv int64 }

// SoftmaxCopies is the number of copies of every maximum and sum that the device stores: the last
// dimension of SoftmaxMax and SoftmaxSum.
const SoftmaxCopies = 8

// Limits of the FlashAttentionScore family: query heads, and the head dimension of its entry
// points.
const (
	headLimit  = 256
	wideDims   = 768
	narrowDims = 512
)

// place holds the axes of a layout; −1 if the heads are merged with the last axis.
type place struct{ rank, batch, seq, heads int }

// placeOf returns the axes of a layout; for an unknown layout the rank is 0.
func placeOf(l Layout) place {
	switch l {
	case BSH:
		return place{3, 0, 1, -1}
	case SBH:
		return place{3, 1, 0, -1}
	case BSND:
		return place{4, 0, 1, 2}
	case BNSD:
		return place{4, 0, 2, 1}
	case TND:
		return place{3, -1, 0, 1}
	}
	return place{}
}

// geometry reads the sizes and checks that the tensors agree.
func (a *AttentionArgs) geometry(c *args) (g geometry) {
	c.Tensor("Query", a.Query, floats...)
	c.Tensor("Key", a.Key, floats...)
	c.Tensor("Value", a.Value, floats...)
	if !c.OK() {
		return g
	}
	c.sameDType("Key", a.Key, "Query", a.Query)
	c.sameDType("Value", a.Value, "Query", a.Query)
	p := placeOf(a.Layout)
	switch {
	case p.rank == 0:
		c.Fail("Layout is %q; use BSH, SBH, BSND, BNSD or TND", a.Layout)
	case a.Query.Rank() != p.rank || a.Key.Rank() != p.rank || a.Value.Rank() != p.rank:
		c.Fail("Query is %v, Key %v and Value %v; layout %s has %d dimensions", a.Query, a.Key, a.Value, a.Layout, p.rank)
	case a.Heads < 0 || a.Heads == 0 && p.heads < 0:
		c.Fail("Heads is %d; layout %s does not show the number of query heads, so give it", a.Heads, a.Layout)
	}
	if !c.OK() {
		return g
	}
	g.b = 1
	if p.batch >= 0 {
		g.b = a.Query.Dim(p.batch)
	}
	g.sq, g.skv = a.Query.Dim(p.seq), a.Key.Dim(p.seq)
	g.d, g.dv = a.Query.Dim(-1), a.Value.Dim(-1)
	if p.heads >= 0 {
		g.n, g.nkv = a.Query.Dim(p.heads), a.Key.Dim(p.heads)
	} else {
		g.n = int64(a.Heads)
		if g.d%g.n != 0 || g.d == 0 {
			c.Fail("Query is %v; its last dimension is not a multiple of %d heads", a.Query, g.n)
			return g
		}
		g.d /= g.n
		g.nkv = a.Key.Dim(-1) / g.d
		if g.nkv == 0 || a.Key.Dim(-1)%g.d != 0 || a.Value.Dim(-1)%g.nkv != 0 {
			c.Fail("Key is %v and Value %v; they do not divide into heads of %d, the head dimension of Query %v", a.Key, a.Value, g.d, a.Query)
			return g
		}
		g.dv /= g.nkv
	}
	a.agree(c, g, p)
	return g
}

// agree checks the relations between the sizes.
func (a *AttentionArgs) agree(c *args, g geometry, p place) {
	switch {
	case a.Heads != 0 && int64(a.Heads) != g.n:
		c.Fail("Heads is %d, but Query is %v in layout %s", a.Heads, a.Query, a.Layout)
	case g.n == 0 || g.nkv == 0 || g.n%g.nkv != 0:
		c.Fail("there are %d query heads and %d key heads; the first must be a multiple of the second (Query %v, Key %v)", g.n, g.nkv, a.Query, a.Key)
	case p.heads >= 0 && a.Key.Dim(-1) != g.d:
		c.Fail("Query is %v and Key %v; their head dimensions must be equal", a.Query, a.Key)
	case p.heads >= 0 && a.Value.Dim(p.heads) != g.nkv:
		c.Fail("Key is %v and Value %v; they must have as many heads", a.Key, a.Value)
	case g.dv > g.d:
		c.Fail("Value is %v; its head dimension must not exceed that of Key %v", a.Value, a.Key)
	case a.Value.Dim(p.seq) != g.skv:
		c.Fail("Key is %v and Value %v; they must be as long", a.Key, a.Value)
	case p.batch >= 0 && (a.Key.Dim(p.batch) != g.b || a.Value.Dim(p.batch) != g.b):
		c.Fail("Query is %v, Key %v and Value %v; they must have one batch size", a.Query, a.Key, a.Value)
	}
}

// AttentionSizes holds the sizes of an attention problem, read from its tensors. In TND Batch is 1,
// and Queries and Keys count the tokens of all sequences.
type AttentionSizes struct {
	Batch, Heads, KeyHeads, Queries, Keys, Dim, ValueDim int64
}

// Sizes reads the sizes of query, key and value. If they do not agree, the error is ErrInvalid.
func (a *AttentionArgs) Sizes() (AttentionSizes, error) {
	var c args
	g := a.geometry(&c)
	return AttentionSizes{g.b, g.n, g.nkv, g.sq, g.skv, g.d, g.dv}, c.Err
}

// examine checks everything that is known on the host, and fills the plan with sizes and mask.
func (a *AttentionArgs) examine(p *plan) (k key.Attention, err error) {
	var c args
	if a.check(&c, p); c.OK() {
		k = a.key(&p.geometry)
	}
	return k, c.Err
}

// check is examine without the key.
func (a *AttentionArgs) check(c *args, p *plan) {
	g := a.geometry(c)
	if !c.OK() {
		return
	}
	d, err := a.decide(g)
	p.geometry, p.Decision = g, d
	c.Tensor("Out", a.Out, a.Query.DType())
	c.Rows("Out", a.Out, "Query", a.Query)
	want := g.dv
	if placeOf(a.Layout).heads < 0 {
		want *= g.n
	}
	if c.OK() && a.Out.Dim(-1) != want {
		c.Fail("Out is %v; its last dimension must be %d for Value %v", a.Out, want, a.Value)
	}
	c.scale(a.Scale, g.d)
	a.stats(c, g, false)
	a.bias(c, p)
	a.dropout(c, g)
	if a.Sinks != nil {
		c.sinks("Sinks", a.Sinks, g.n)
	}
	if c.OK() && err != nil {
		c.Err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
}

// ScaleOf returns the usual Scale of attention, 1/√dim for heads of dim features.
func ScaleOf(dim int64) float64 { return 1 / math.Sqrt(float64(dim)) }

// scale checks the factor of attention scores. A factor that was left out would make all keys count alike.
func (c *args) scale(scale float64, dim int64) {
	if c.OK() && (scale == 0 || math.IsNaN(scale) || math.IsInf(scale, 0)) {
		c.Fail("Scale is %g; it must be a number other than 0, usually ops.ScaleOf(%d), which is %.4g", scale, dim, ScaleOf(dim))
	}
}

// stats checks the softmax tensors.
func (a *AttentionArgs) stats(c *args, g geometry, required bool) {
	for _, s := range []struct {
		name string
		t    *aclnn.Tensor
	}{{"SoftmaxMax", a.SoftmaxMax}, {"SoftmaxSum", a.SoftmaxSum}} {
		if s.t == nil && !required {
			continue
		}
		c.Tensor(s.name, s.t, aclnn.Float32)
		c.Contiguous(s.name, s.t)
		if a.Layout == TND {
			c.Shape(s.name, s.t, g.sq, g.n, SoftmaxCopies)
		} else {
			c.Shape(s.name, s.t, g.b, g.n, g.sq, SoftmaxCopies)
		}
	}
}

// bias checks the position bias.
func (a *AttentionArgs) bias(c *args, p *plan) {
	g := &p.geometry
	if c.OK() && (a.QueryStart != 0 || a.KeyStart != 0) && (a.Bias == nil || a.BiasKind < BiasDistance) {
		c.Fail("QueryStart is %d and KeyStart %d; only slopes count distances from them", a.QueryStart, a.KeyStart)
	}
	if a.Bias == nil {
		return
	}
	switch a.BiasKind {
	case BiasAfterScale, BiasBeforeScale:
		c.Tensor("Bias", a.Bias, a.Query.DType())
		if !c.OK() {
			return
		}
		t := a.Bias
		if a.Layout == TND {
			a.packedBias(c, p)
		} else if t.Rank() != 4 || t.Dim(0) != g.b && t.Dim(0) != 1 || t.Dim(1) != g.n || t.Dim(2) != g.sq && t.Dim(2) != 1 || t.Dim(3) != g.skv {
			c.Fail("Bias is %v; it must be [%d or 1, %d, %d or 1, %d]", t, g.b, g.n, g.sq, g.skv)
		}
	case BiasDistance, BiasRootDistance:
		c.Tensor("Bias", a.Bias, aclnn.Float32)
		if !c.OK() {
			return
		}
		t, items := a.Bias, g.b
		if m, packed := a.Mask.(mask.Varlen); packed {
			items = m.Len()
		}
		switch {
		case !(t.Rank() == 1 && t.Dim(0) == g.n || t.Rank() == 2 && t.Dim(0) == items && t.Dim(1) == g.n):
			c.Fail("Bias is %v; slopes must be [%d] or [%d,%d]", t, g.n, items, g.n)
		case a.Layout != TND && g.sq != g.skv:
			c.Fail("slopes need as many queries as keys; Query is %v and Key %v", a.Query, a.Key)
		}
	default:
		c.Fail("BiasKind is %d; use one of the constants", a.BiasKind)
	}
}

// packedBias checks a bias of packed sequences. It skips a mask that does not divide the tokens,
// which the check of the mask refuses.
func (a *AttentionArgs) packedBias(c *args, p *plan) {
	if p.SeqQueries == nil {
		return
	}
	full, rows := p.n*cells(&p.Decision), p.n*p.skv
	if t := a.Bias; t.Rank() != 1 || t.Dim(0) != full && t.Dim(0) != rows {
		c.Fail("Bias is %v; for packed sequences it must be [%d], an element per score, or [%d], a row of each head", t, full, rows)
	}
	c.Contiguous("Bias", a.Bias)
}

// cells returns the number of scores of one head in all packed sequences.
func cells(d *mask.Decision) (n int64) {
	q, k := int64(0), int64(0)
	for i := range d.SeqQueries {
		n += (d.SeqQueries[i] - q) * (d.SeqKeys[i] - k)
		q, k = d.SeqQueries[i], d.SeqKeys[i]
	}
	return n
}

// dropout checks that mask and probability are given together: CANN's forward pass looks at one of
// them and its backward pass at the other.
func (a *AttentionArgs) dropout(c *args, g geometry) {
	dropping := a.KeepProb != 0 && a.KeepProb != 1
	switch {
	case !(a.KeepProb >= 0 && a.KeepProb <= 1):
		c.Fail("KeepProb is %g; it must be in (0, 1], or 0 for no dropout", a.KeepProb)
	case dropping != (a.DropMask != nil):
		c.Fail("KeepProb is %g and DropMask %v; dropout needs both, no dropout neither", a.KeepProb, a.DropMask)
	case dropping:
		c.Tensor("DropMask", a.DropMask, aclnn.Uint8)
		if high, cells := bits.Mul64(uint64(g.b*g.n), uint64(g.sq*g.skv)); c.OK() && a.Layout != TND && (high != 0 || uint64(a.DropMask.Len()) < (cells+7)/8) {
			c.Fail("DropMask is %v; it must have a bit for each of the %d probabilities", a.DropMask, cells)
		}
	}
}

// decide returns the decision on the mask.
func (a *AttentionArgs) decide(g geometry) (mask.Decision, error) {
	return mask.Decide(a.Mask, mask.Shape{Layout: a.Layout, Batch: g.b, Heads: g.n, Queries: g.sq, Keys: g.skv})
}

// Decide returns how the mask is passed to the device for these arguments, for logs and tests. It
// launches nothing.
func (a *AttentionArgs) Decide() (mask.Decision, error) {
	var c args
	g := a.geometry(&c)
	if !c.OK() {
		return mask.Decision{}, c.Err
	}
	return a.decide(g)
}

func (a *AttentionGradArgs) examine(p *plan) (k key.Attention, err error) {
	var c args
	if a.AttentionArgs.check(&c, p); !c.OK() {
		return k, c.Err
	}
	a.stats(&c, p.geometry, true)
	for _, g := range []struct {
		name  string
		t     *aclnn.Tensor
		other string
		like  *aclnn.Tensor
	}{
		{"DOut", a.DOut, "Out", a.Out}, {"DQuery", a.DQuery, "Query", a.Query},
		{"DKey", a.DKey, "Key", a.Key}, {"DValue", a.DValue, "Value", a.Value},
	} {
		c.Tensor(g.name, g.t, a.Query.DType())
		c.Like(g.name, g.t, g.other, g.like)
	}
	switch {
	case a.DSinks == nil:
	case a.Sinks == nil:
		c.Fail("DSinks is %v; without Sinks there is no gradient of them", a.DSinks)
	default:
		c.sinks("DSinks", a.DSinks, p.n)
	}
	if c.OK() {
		k = a.key(&p.geometry)
		k.Contiguous = k.Contiguous && contiguous(a.DOut, a.DQuery, a.DKey, a.DValue)
	}
	return k, c.Err
}

func (a *AttentionArgs) key(g *geometry) key.Attention {
	k := key.Attention{
		DType: a.Query.DType(), Layout: a.Layout, Heads: g.n, KeyHeads: g.nkv, Dim: g.d, ValueDim: g.dv,
		Batch: key.ExtentOf(g.b), Queries: key.ExtentOf(g.sq), Keys: key.ExtentOf(g.skv), Mask: mask.KindOf(a.Mask),
		Bias: a.Bias != nil, Dropout: a.DropMask != nil, Sinks: a.Sinks != nil, Stats: a.SoftmaxMax != nil && a.SoftmaxSum != nil,
		Contiguous: contiguous(a.Query, a.Key, a.Value, a.Bias, a.DropMask, a.Out, a.SoftmaxMax, a.SoftmaxSum),
	}
	if k.Bias {
		k.BiasKind = a.BiasKind
	}
	return k
}
