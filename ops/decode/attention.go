package decode

import (
	"cmp"
	"math"
	"slices"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
	"github.com/goascend/cann/ops/key"
)

// AttentionArgs describes attention of the newest tokens of each sequence to all its tokens, whose
// keys and values are in a cache: Out = softmax(Scale·Query·Keysᵀ, masked)·Values. With N query
// heads and Nkv key heads, N being a multiple of Nkv, query head n reads key head n/(N/Nkv). All
// tensors except Blocks, Hidden, Sinks and a cache of int8 with its scales have one dtype, float32, float16 or bfloat16.
type AttentionArgs struct {
	// Query is [B,Sq,N·D], [B,Sq,N,D] or [B,N,Sq,D], depending on Layout, which is BSH, BSND or BNSD.
	Query  *aclnn.Tensor
	Layout ops.Layout
	Heads  int // N; may be 0 in layouts with an axis N

	// Keys and Values are the cache, in a shape of their own each. Without Blocks they are like Query
	// with Nkv and the places of a sequence in the place of N and Sq. With Blocks they are [blocks,
	// tokens of a block, Nkv·D] or [blocks, Nkv, tokens of a block, D].
	Keys, Values *aclnn.Tensor
	// KeyScales and ValueScales hold the scales of a cache of int8, in which a key or value is its codes times its scale, as Write stores them: [rows,
	// Nkv, places of a row], float32, where a row is a block, or a sequence without Blocks. Both are nil for a cache like Query. Such a cache has no
	// features besides.
	KeyScales, ValueScales *aclnn.Tensor
	// Blocks lists the blocks of each sequence in order, [B, blocks of a sequence], int32. The
	// device does not check them, so unused entries should be the number of some block. Nil for a
	// cache without blocks.
	Blocks *aclnn.Tensor

	// QueryRope and KeyRope are features besides those of Query and Keys, usually the rotated ones, whose products add to the scores: like Query and
	// Keys, with another number of features. Values then often is the same tensor as Keys, as in latent attention (arXiv:2405.04434), whose cache
	// has one key head of latents. Both are nil for none.
	QueryRope, KeyRope *aclnn.Tensor
	// Sinks are scores that each softmax row of a head has besides those of its keys: [N], float32, as in ops.AttentionArgs. Nil means none.
	Sinks *aclnn.Tensor
	// Lengths are the numbers of tokens that the cache holds of each sequence, the newest included:
	// [B], or one number for all. They may be nil without Blocks: then all places are taken. The host
	// gives them, so a captured graph keeps those of its capture.
	Lengths []int64
	// Hidden is nonzero where a token does not see a key, [B,1,Sq,places of a sequence], bool or
	// uint8; in place of the rule that a token sees itself and those before it. Every token must see
	// a key. A captured graph reads what it holds at the replay.
	Hidden *aclnn.Tensor
	// Window is the number of tokens that a token sees, itself included: a sliding window. 0 is no window. It is 0 with Hidden, which says it.
	Window int64

	Scale float64       // usually 1/√D, which is ops.ScaleOf(D); 0 is refused
	Out   *aclnn.Tensor // like Query
}

// sizes are those of a problem.
type sizes struct {
	batch, queries, heads, keyHeads, dim int64
	places                               int64 // of a sequence in the cache
	block                                int64 // tokens of a block, 0 without blocks
	headMajor                            bool  // the blocks have an axis of heads before that of tokens
}

// axes returns the axes of tokens and heads; the second is −1 if heads and features are merged.
func axes(l ops.Layout) (tokens, heads int) {
	switch l {
	case ops.BSH:
		return 1, -1
	case ops.BSND:
		return 1, 2
	}
	return 2, 1
}

// rank returns the number of dimensions of a layout.
func rank(l ops.Layout) int {
	if l == ops.BSH {
		return 3
	}
	return 4
}

// query reads the sizes of the query.
func (a *AttentionArgs) query(c *args) (z sizes) {
	c.Tensor("Query", a.Query, check.Floats...)
	if !c.OK() {
		return z
	}
	switch {
	case !slices.Contains([]ops.Layout{ops.BSH, ops.BSND, ops.BNSD}, a.Layout):
		c.Fail("Layout is %q; use BSH, BSND or BNSD", a.Layout)
	case a.Query.Rank() != rank(a.Layout):
		c.Fail("Query is %v; layout %s has %d dimensions", a.Query, a.Layout, rank(a.Layout))
	case a.Heads < 0 || a.Heads == 0 && a.Layout == ops.BSH:
		c.Fail("Heads is %d; layout %s does not show the number of query heads, so give it", a.Heads, a.Layout)
	}
	if !c.OK() {
		return z
	}
	tokens, heads := axes(a.Layout)
	z.batch, z.queries, z.dim, z.heads = a.Query.Dim(0), a.Query.Dim(tokens), a.Query.Dim(-1), int64(a.Heads)
	switch {
	case heads >= 0 && z.heads != 0 && z.heads != a.Query.Dim(heads):
		c.Fail("Heads is %d, but Query is %v in layout %s", a.Heads, a.Query, a.Layout)
	case heads >= 0:
		z.heads = a.Query.Dim(heads)
	case z.dim%z.heads != 0:
		c.Fail("Query is %v; its last dimension is not a multiple of %d heads", a.Query, z.heads)
	default:
		z.dim /= z.heads
	}
	if c.OK() && (z.heads == 0 || z.dim == 0) {
		c.Fail("Query is %v; it has no heads or no features", a.Query)
	}
	return z
}

// sizes reads the sizes and checks that the tensors agree.
func (a *AttentionArgs) sizes(c *args) sizes {
	z := a.query(c)
	if !c.OK() {
		return z
	}
	dt := a.Query.DType()
	if a.coded() {
		dt = aclnn.Int8
	}
	c.Tensor("Keys", a.Keys, dt)
	c.Tensor("Values", a.Values, dt)
	if !c.OK() {
		return z
	}
	c.Like("Values", a.Values, "Keys", a.Keys)
	if c.OK() {
		if a.Blocks != nil {
			a.blocks(c, &z)
		} else {
			a.plain(c, &z)
		}
	}
	if c.OK() && (z.keyHeads == 0 || z.heads%z.keyHeads != 0) {
		c.Fail("there are %d query heads and %d key heads; the first must be a multiple of the second (Query %v, Keys %v)", z.heads, z.keyHeads, a.Query, a.Keys)
	}
	return z
}

// plain reads the sizes of a cache without blocks.
func (a *AttentionArgs) plain(c *args, z *sizes) {
	k := a.Keys
	if k.Rank() != rank(a.Layout) || k.Dim(0) != z.batch {
		c.Fail("Keys is %v; without Blocks it must be like Query %v, %d sequences in layout %s", k, a.Query, z.batch, a.Layout)
		return
	}
	tokens, heads := axes(a.Layout)
	z.places = k.Dim(tokens)
	if heads >= 0 {
		z.keyHeads = k.Dim(heads)
	}
	a.features(c, z, heads < 0)
}

// blocks reads the sizes of a cache in blocks.
func (a *AttentionArgs) blocks(c *args, z *sizes) {
	k := a.Keys
	c.Tensor("Blocks", a.Blocks, aclnn.Int32)
	if !c.OK() {
		return
	}
	switch {
	case a.Blocks.Rank() != 2 || a.Blocks.Dim(0) != z.batch:
		c.Fail("Blocks is %v; it must have a row for each of %d sequences", a.Blocks, z.batch)
	case k.Rank() != 3 && k.Rank() != 4:
		c.Fail("Keys is %v; with Blocks it must be [blocks, tokens, heads·features] or [blocks, heads, tokens, features]", k)
	case k.Dim(-2) == 0:
		c.Fail("Keys is %v; its blocks hold no tokens", k)
	}
	if !c.OK() {
		return
	}
	z.block, z.headMajor = k.Dim(-2), k.Rank() == 4
	z.places = a.Blocks.Dim(1) * z.block
	if z.headMajor {
		z.keyHeads = k.Dim(1)
	}
	a.features(c, z, !z.headMajor)
}

// features checks the last dimension of the keys, which may hold the heads too.
func (a *AttentionArgs) features(c *args, z *sizes, merged bool) {
	n := a.Keys.Dim(-1)
	switch {
	case merged && n%z.dim == 0:
		z.keyHeads = n / z.dim
	case merged:
		c.Fail("Keys is %v; its last dimension does not divide into heads of %d, the head dimension of Query %v", a.Keys, z.dim, a.Query)
	case n != z.dim:
		c.Fail("Query is %v and Keys %v; their head dimensions must be equal", a.Query, a.Keys)
	}
}

func (a *AttentionArgs) validate() error {
	var c args
	z := a.sizes(&c)
	if !c.OK() {
		return c.Err
	}
	c.Same("Out", a.Out, "Query", a.Query)
	switch n := int64(len(a.Lengths)); {
	case n == 0 && a.Blocks != nil:
		c.Fail("Lengths is empty; a cache in blocks needs the tokens of each sequence")
	case n > 1 && n != z.batch:
		c.Fail("there are %d Lengths; give one for all of %d sequences, or one for each", n, z.batch)
	}
	for i, n := range a.Lengths {
		if n < 0 || n > z.places {
			c.Fail("Lengths[%d] is %d; a sequence has %d places in the cache", i, n, z.places)
		}
	}
	if c.OK() && (a.Scale == 0 || math.IsNaN(a.Scale) || math.IsInf(a.Scale, 0)) {
		c.Fail("Scale is %g; it must be a number other than 0, usually ops.ScaleOf(%d), which is %.4g", a.Scale, z.dim, ops.ScaleOf(z.dim))
	}
	a.rope(&c, z)
	if c.OK() && a.coded() {
		c.scales(a.Keys.Dim(0), z.keyHeads, cmp.Or(z.block, z.places), a.KeyScales, a.ValueScales)
		if a.QueryRope != nil {
			c.Fail("QueryRope is %v and Keys %v; CANN's attention to a cache of int8 takes no features besides", a.QueryRope, a.Keys)
		}
	}
	if c.OK() && c.Optional("Sinks", a.Sinks, aclnn.Float32) {
		c.Shape("Sinks", a.Sinks, z.heads)
	}
	if c.OK() && (a.Window < 0 || a.Window > 0 && a.Hidden != nil) {
		c.Fail("Window is %d; it must be positive, or 0 for no window and with Hidden, which says which keys a token sees", a.Window)
	}
	if c.Optional("Hidden", a.Hidden, aclnn.Bool, aclnn.Uint8) {
		c.Shape("Hidden", a.Hidden, z.batch, 1, z.queries, z.places)
	}
	return c.Err
}

// coded reports whether the cache has codes of int8.
func (a *AttentionArgs) coded() bool { return a.KeyScales != nil || a.ValueScales != nil }

// scales checks the scales of a cache of int8.
func (c *args) scales(rows, heads, places int64, keys, values *aclnn.Tensor) {
	for _, t := range []struct {
		name string
		t    *aclnn.Tensor
	}{{"KeyScales", keys}, {"ValueScales", values}} {
		if c.Tensor(t.name, t.t, aclnn.Float32); c.OK() {
			c.Shape(t.name, t.t, rows, heads, places)
		}
	}
}

// rope checks the features besides.
func (a *AttentionArgs) rope(c *args, z sizes) {
	if a.QueryRope == nil && a.KeyRope == nil || !c.OK() {
		return
	}
	dt := a.Query.DType()
	c.Tensor("QueryRope", a.QueryRope, dt)
	c.Tensor("KeyRope", a.KeyRope, dt)
	if !c.OK() {
		return
	}
	extra := a.QueryRope.Dim(-1)
	if a.Layout == ops.BSH {
		extra /= z.heads
	}
	// Each has the shape of its partner, with other features in the last dimension.
	for _, t := range []struct {
		name        string
		t, partner  *aclnn.Tensor
		merged      bool
		heads, size int64
	}{{"QueryRope", a.QueryRope, a.Query, a.Layout == ops.BSH, z.heads, extra}, {"KeyRope", a.KeyRope, a.Keys, a.Keys.Rank() == 3, z.keyHeads, extra}} {
		want := t.partner.Shape()
		want[len(want)-1] = t.size
		if t.merged {
			want[len(want)-1] *= t.heads
		}
		c.Shape(t.name, t.t, want...)
	}
	if c.OK() && extra == 0 {
		c.Fail("QueryRope is %v; it has no features", a.QueryRope)
	}
}

// longest returns the largest of the lengths, and whether all sequences have it.
func (a *AttentionArgs) longest(z sizes) (most int64, equal bool) {
	if len(a.Lengths) == 0 {
		return z.places, true
	}
	most = slices.Max(a.Lengths)
	return most, slices.Min(a.Lengths) == most
}

func (a *AttentionArgs) key() key.DecodeAttention {
	var c args
	z := a.sizes(&c)
	rope := int64(0)
	if a.QueryRope != nil {
		if rope = a.QueryRope.Dim(-1); a.Layout == ops.BSH {
			rope /= z.heads
		}
	}
	return key.DecodeAttention{
		DType: a.Query.DType(), Layout: a.Layout, Heads: z.heads, KeyHeads: z.keyHeads, Dim: z.dim, Block: z.block, HeadMajor: z.headMajor,
		Batch: key.ExtentOf(z.batch), Queries: key.ExtentOf(z.queries), Places: key.ExtentOf(z.places), Hidden: a.Hidden != nil, Window: a.Window > 0,
		Rope: rope, Sinks: a.Sinks != nil, Int8: a.coded(), Contiguous: contiguous(a.Query, a.Keys, a.Values, a.KeyScales, a.ValueScales, a.QueryRope, a.KeyRope, a.Blocks, a.Hidden, a.Sinks, a.Out),
	}
}
