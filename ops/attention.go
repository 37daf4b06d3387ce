package ops

import (
	"fmt"
	"math/bits"

	"github.com/goascend/cann/aclnn"
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

// BiasKind is how a position bias enters the scores.
type BiasKind int64

// Kinds, with the values of CANN's pseType. Bias has the dtype of the query for the first
// two and is float32 with one slope per head for the others.
const (
	BiasAfterScale   BiasKind = 0 // scale·QKᵀ + bias
	BiasBeforeScale  BiasKind = 1 // scale·(QKᵀ + bias)
	BiasDistance     BiasKind = 2 // scale·QKᵀ − slope·|KeyStart + j − QueryStart − i|
	BiasRootDistance BiasKind = 3 // the same with the root of the distance
)

// AttentionArgs is scaled dot-product attention with grouped query heads:
// Out = dropout(softmax(Scale·Query·Keyᵀ + bias, masked))·Value. With N query heads and Nkv
// key heads, N a multiple of Nkv, query head n reads key head n/(N/Nkv). All of Query, Key,
// Value and Out have one dtype, float32, float16 or bfloat16.
type AttentionArgs struct {
	// Query is [B,Sq,N·D], [Sq,B,N·D], [B,Sq,N,D], [B,N,Sq,D] or [T,N,D], as Layout says. Key and
	// Value have Skv and Nkv in these places, Value and Out the head dimension Dv ≤ D.
	Query, Key, Value *aclnn.Tensor
	Layout            Layout
	Heads             int       // N; may be 0 in layouts that show it
	Mask              mask.Mask // nil is mask.None
	Scale             float64   // usually 1/√D

	// Bias is a position bias: [B or 1, N, Sq or 1, Skv], or slopes [N] or [B,N], B being the
	// sequences in TND. In TND a bias that is no slopes is one row, the [N,Sq,Skv] of the
	// sequences one after another, or their [N,1,Skv]. Nil without. It gets no gradient.
	Bias     *aclnn.Tensor
	BiasKind BiasKind
	// QueryStart and KeyStart are the positions of the first query and the first key, from which
	// slopes count distances.
	QueryStart, KeyStart int64

	// DropMask has a bit for each probability, [B,N,Sq,Skv] in row-major order without row
	// padding, least significant bit of a byte first, 1 = keep, as DropoutGenMaskV2 makes it;
	// uint8. Kept probabilities are multiplied by 1/KeepProb. Nil without dropout, and then
	// KeepProb is 0 or 1.
	DropMask *aclnn.Tensor
	KeepProb float64

	Out *aclnn.Tensor // like Query, with Dv
	// SoftmaxMax and SoftmaxSum receive maximum and sum of every softmax row, which
	// AttentionGrad needs: [B,N,Sq,8] or [T,N,8], float32, eight equal copies; in TND the rows
	// of a sequence are ordered by head. Nil if the gradient will not be computed.
	SoftmaxMax, SoftmaxSum *aclnn.Tensor
}

// AttentionGradArgs are the gradients of Attention. Its Out, SoftmaxMax and SoftmaxSum are
// those that Attention wrote, and everything else must be as it was given to it.
type AttentionGradArgs struct {
	AttentionArgs
	DOut                 *aclnn.Tensor // like Out
	DQuery, DKey, DValue *aclnn.Tensor // like Query, Key, Value
}

// geometry is the sizes of an attention problem. In TND, b is 1 and sq, skv count the
// tokens of all sequences.
type geometry struct{ b, n, nkv, sq, skv, d, dv int64 }

// statLanes is how often the device stores every maximum and sum.
const statLanes = 8

// headLimit is the largest head dimension of the FlashAttentionScore family.
const headLimit = 768

// place is where a layout has its dimensions; −1 where heads are merged with the last one.
type place struct{ rank, batch, seq, heads int }

var places = map[Layout]place{
	BSH: {3, 0, 1, -1}, SBH: {3, 1, 0, -1}, BSND: {4, 0, 1, 2}, BNSD: {4, 0, 2, 1}, TND: {3, -1, 0, 1},
}

// geometry reads the sizes and checks that the tensors agree.
func (a *AttentionArgs) geometry(c *check) (g geometry) {
	c.tensor("Query", a.Query, floats...)
	c.tensor("Key", a.Key, floats...)
	c.tensor("Value", a.Value, floats...)
	if !c.ok() {
		return g
	}
	c.sameDType("Key", a.Key, "Query", a.Query)
	c.sameDType("Value", a.Value, "Query", a.Query)
	p, known := places[a.Layout]
	switch {
	case !known:
		c.fail("Layout is %q; use BSH, SBH, BSND, BNSD or TND", a.Layout)
	case a.Query.Rank() != p.rank || a.Key.Rank() != p.rank || a.Value.Rank() != p.rank:
		c.fail("Query is %v, Key %v and Value %v; layout %s has %d dimensions", a.Query, a.Key, a.Value, a.Layout, p.rank)
	case a.Heads < 0 || a.Heads == 0 && p.heads < 0:
		c.fail("Heads is %d; layout %s does not show the number of query heads, so give it", a.Heads, a.Layout)
	}
	if !c.ok() {
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
			c.fail("Query is %v; its last dimension is not a multiple of %d heads", a.Query, g.n)
			return g
		}
		g.d /= g.n
		g.nkv = a.Key.Dim(-1) / g.d
		if g.nkv == 0 || a.Key.Dim(-1)%g.d != 0 || a.Value.Dim(-1)%g.nkv != 0 {
			c.fail("Key is %v and Value %v; they do not divide into heads of %d, the head dimension of Query %v", a.Key, a.Value, g.d, a.Query)
			return g
		}
		g.dv /= g.nkv
	}
	a.agree(c, g, p)
	return g
}

// agree checks what the sizes must have in common.
func (a *AttentionArgs) agree(c *check, g geometry, p place) {
	switch {
	case a.Heads != 0 && int64(a.Heads) != g.n:
		c.fail("Heads is %d, but Query is %v in layout %s", a.Heads, a.Query, a.Layout)
	case g.n == 0 || g.nkv == 0 || g.n%g.nkv != 0:
		c.fail("there are %d query heads and %d key heads; the first must be a multiple of the second (Query %v, Key %v)", g.n, g.nkv, a.Query, a.Key)
	case p.heads >= 0 && a.Key.Dim(-1) != g.d:
		c.fail("Query is %v and Key %v; their head dimensions must be equal", a.Query, a.Key)
	case p.heads >= 0 && a.Value.Dim(p.heads) != g.nkv:
		c.fail("Key is %v and Value %v; they must have as many heads", a.Key, a.Value)
	case g.dv > g.d:
		c.fail("Value is %v; its head dimension must not exceed that of Key %v", a.Value, a.Key)
	case a.Value.Dim(p.seq) != g.skv:
		c.fail("Key is %v and Value %v; they must be as long", a.Key, a.Value)
	case p.batch >= 0 && (a.Key.Dim(p.batch) != g.b || a.Value.Dim(p.batch) != g.b):
		c.fail("Query is %v, Key %v and Value %v; they must have one batch size", a.Query, a.Key, a.Value)
	}
}

// validate checks everything that the host can know.
func (a *AttentionArgs) validate() error {
	var c check
	g := a.geometry(&c)
	if !c.ok() {
		return c.err
	}
	c.tensor("Out", a.Out, a.Query.DType())
	c.rows("Out", a.Out, "Query", a.Query)
	want := g.dv
	if places[a.Layout].heads < 0 {
		want *= g.n
	}
	if c.ok() && a.Out.Dim(-1) != want {
		c.fail("Out is %v; its last dimension must be %d for Value %v", a.Out, want, a.Value)
	}
	a.stats(&c, g, false)
	a.bias(&c, g)
	a.dropout(&c, g)
	if c.ok() {
		if _, err := a.decide(g); err != nil {
			c.err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return c.err
}

// stats checks the softmax tensors.
func (a *AttentionArgs) stats(c *check, g geometry, required bool) {
	for _, s := range []struct {
		name string
		t    *aclnn.Tensor
	}{{"SoftmaxMax", a.SoftmaxMax}, {"SoftmaxSum", a.SoftmaxSum}} {
		if s.t == nil && !required {
			continue
		}
		c.tensor(s.name, s.t, aclnn.Float32)
		c.contiguous(s.name, s.t)
		if a.Layout == TND {
			c.shape(s.name, s.t, g.sq, g.n, statLanes)
		} else {
			c.shape(s.name, s.t, g.b, g.n, g.sq, statLanes)
		}
	}
}

// bias checks the position bias.
func (a *AttentionArgs) bias(c *check, g geometry) {
	if c.ok() && (a.QueryStart != 0 || a.KeyStart != 0) && (a.Bias == nil || a.BiasKind < BiasDistance) {
		c.fail("QueryStart is %d and KeyStart %d; only slopes count distances from them", a.QueryStart, a.KeyStart)
	}
	if a.Bias == nil {
		return
	}
	switch a.BiasKind {
	case BiasAfterScale, BiasBeforeScale:
		c.tensor("Bias", a.Bias, a.Query.DType())
		if !c.ok() {
			return
		}
		t := a.Bias
		if a.Layout == TND {
			a.packedBias(c, g)
		} else if t.Rank() != 4 || t.Dim(0) != g.b && t.Dim(0) != 1 || t.Dim(1) != g.n || t.Dim(2) != g.sq && t.Dim(2) != 1 || t.Dim(3) != g.skv {
			c.fail("Bias is %v; it must be [%d or 1, %d, %d or 1, %d]", t, g.b, g.n, g.sq, g.skv)
		}
	case BiasDistance, BiasRootDistance:
		c.tensor("Bias", a.Bias, aclnn.Float32)
		if !c.ok() {
			return
		}
		t, items := a.Bias, g.b
		if m, packed := a.Mask.(mask.Varlen); packed {
			items = m.Len()
		}
		switch {
		case !(t.Rank() == 1 && t.Dim(0) == g.n || t.Rank() == 2 && t.Dim(0) == items && t.Dim(1) == g.n):
			c.fail("Bias is %v; slopes must be [%d] or [%d,%d]", t, g.n, items, g.n)
		case a.Layout != TND && g.sq != g.skv:
			c.fail("slopes need as many queries as keys; Query is %v and Key %v", a.Query, a.Key)
		}
	default:
		c.fail("BiasKind is %d; use one of the constants", a.BiasKind)
	}
}

// packedBias checks a bias of packed sequences. A mask that does not divide the tokens is
// left to its own check.
func (a *AttentionArgs) packedBias(c *check, g geometry) {
	d, err := a.decide(g)
	if err != nil {
		return
	}
	full, rows := g.n*cells(&d), g.n*g.skv
	if t := a.Bias; t.Rank() != 1 || t.Dim(0) != full && t.Dim(0) != rows {
		c.fail("Bias is %v; for packed sequences it must be [%d], an element per score, or [%d], a row of each head", t, full, rows)
	}
	c.contiguous("Bias", a.Bias)
}

// cells is the number of scores of a head in all packed sequences.
func cells(d *mask.Decision) (n int64) {
	q, k := int64(0), int64(0)
	for i := range d.SeqQueries {
		n += (d.SeqQueries[i] - q) * (d.SeqKeys[i] - k)
		q, k = d.SeqQueries[i], d.SeqKeys[i]
	}
	return n
}

// dropout checks that mask and probability come together: forward and backward of CANN
// look at one of them each.
func (a *AttentionArgs) dropout(c *check, g geometry) {
	dropping := a.KeepProb != 0 && a.KeepProb != 1
	switch {
	case !(a.KeepProb >= 0 && a.KeepProb <= 1):
		c.fail("KeepProb is %g; it must be in (0, 1], or 0 for no dropout", a.KeepProb)
	case dropping != (a.DropMask != nil):
		c.fail("KeepProb is %g and DropMask %v; dropout needs both, no dropout neither", a.KeepProb, a.DropMask)
	case dropping:
		c.tensor("DropMask", a.DropMask, aclnn.Uint8)
		if high, cells := bits.Mul64(uint64(g.b*g.n), uint64(g.sq*g.skv)); c.ok() && a.Layout != TND && (high != 0 || uint64(a.DropMask.Len()) < (cells+7)/8) {
			c.fail("DropMask is %v; it must have a bit for each of the %d probabilities", a.DropMask, cells)
		}
	}
}

// decide is the decision on the mask.
func (a *AttentionArgs) decide(g geometry) (mask.Decision, error) {
	return mask.Decide(a.Mask, mask.Shape{Layout: a.Layout, Batch: g.b, Heads: g.n, Queries: g.sq, Keys: g.skv})
}

// Decide tells how the mask reaches the device for these arguments, for logs and tests. It
// launches nothing.
func (a *AttentionArgs) Decide() (mask.Decision, error) {
	var c check
	g := a.geometry(&c)
	if !c.ok() {
		return mask.Decision{}, c.err
	}
	return a.decide(g)
}

func (a *AttentionGradArgs) validate() error {
	if err := a.AttentionArgs.validate(); err != nil {
		return err
	}
	var c check
	g := a.geometry(&c)
	a.stats(&c, g, true)
	for _, p := range []struct {
		name  string
		t     *aclnn.Tensor
		other string
		like  *aclnn.Tensor
	}{
		{"DOut", a.DOut, "Out", a.Out}, {"DQuery", a.DQuery, "Query", a.Query},
		{"DKey", a.DKey, "Key", a.Key}, {"DValue", a.DValue, "Value", a.Value},
	} {
		c.tensor(p.name, p.t, a.Query.DType())
		c.like(p.name, p.t, p.other, p.like)
	}
	return c.err
}

// signature is what the kernels look at.
func (a *AttentionArgs) signature() (s Signature) {
	var c check
	g := a.geometry(&c)
	s[0] = uint64(a.Query.DType())
	s[1] = uint64(g.d)
	for i, b := range []byte(a.Layout) {
		s[2] |= uint64(b) << (8 * i)
	}
	if a.Bias != nil {
		s[3] = 1 + uint64(a.BiasKind)
	}
	if a.DropMask != nil {
		s[3] |= 1 << 8
	}
	return s
}
