package decode

import (
	"context"
	"errors"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
	"github.com/goascend/cann/ops/key"
)

// WriteArgs describes a write of new tokens into a cache. All tensors except Slots and a cache of int8 with its scales have
// one dtype, float32, float16 or bfloat16.
type WriteArgs struct {
	Keys, Values *aclnn.Tensor // [tokens, Nkv, D]
	// KeyCache and ValueCache are [rows, places, Nkv·D] or [rows, Nkv, places, D], and contiguous. A
	// row is a block, or a sequence of a cache without blocks.
	KeyCache, ValueCache *aclnn.Tensor
	// KeyScales and ValueScales hold the scales of a cache of int8, [rows, Nkv, places], float32 and contiguous: each head of a token gets the scale with
	// which its largest feature becomes 127 (aclnnDynamicQuant). Keys and Values are then in 16 bits. Both are nil for a cache like Keys.
	KeyScales, ValueScales *aclnn.Tensor
	// Slots says where each token goes: row·places + place, [tokens], int32 or int64. The device does
	// not check them; no two may be equal, so tokens of padding need slots of their own.
	Slots *aclnn.Tensor
}

func (a *WriteArgs) validate() error {
	var c args
	floats := check.Floats
	if a.coded() {
		floats = []aclnn.DType{aclnn.Float16, aclnn.BFloat16}
	}
	c.Tensor("Keys", a.Keys, floats...)
	if !c.OK() {
		return c.Err
	}
	dt := a.Keys.DType()
	c.Tensor("Values", a.Values, dt)
	if a.coded() {
		dt = aclnn.Int8
	}
	c.Tensor("KeyCache", a.KeyCache, dt)
	c.Tensor("ValueCache", a.ValueCache, dt)
	c.Tensor("Slots", a.Slots, check.Indices...)
	if !c.OK() {
		return c.Err
	}
	if a.Keys.Rank() != 3 {
		c.Fail("Keys is %v; it must be [tokens, heads, features]", a.Keys)
		return c.Err
	}
	c.Shape("Slots", a.Slots, a.Keys.Dim(0))
	if c.OK() && a.Values.Rank() != 3 {
		c.Fail("Values is %v; it must be [tokens, heads, features]", a.Values)
	}
	c.pair("KeyCache", a.KeyCache, "Keys", a.Keys)
	c.pair("ValueCache", a.ValueCache, "Values", a.Values)
	if c.OK() && (a.Values.Dim(0) != a.Keys.Dim(0) || a.Values.Dim(1) != a.Keys.Dim(1)) {
		c.Fail("Keys is %v and Values %v; they must have as many tokens and heads", a.Keys, a.Values)
	}
	if c.OK() && (a.KeyCache.Rank() != a.ValueCache.Rank() || a.KeyCache.Dim(0) != a.ValueCache.Dim(0) || a.KeyCache.Dim(-2) != a.ValueCache.Dim(-2)) {
		c.Fail("KeyCache is %v and ValueCache %v; they must have the same places", a.KeyCache, a.ValueCache)
	}
	if c.OK() && a.coded() {
		c.scales(a.KeyCache.Dim(0), a.Keys.Dim(1), a.KeyCache.Dim(-2), a.KeyScales, a.ValueScales)
		c.Contiguous("KeyScales", a.KeyScales)
		c.Contiguous("ValueScales", a.ValueScales)
	}
	return c.Err
}

// coded reports whether the cache has codes of int8.
func (a *WriteArgs) coded() bool { return a.KeyScales != nil || a.ValueScales != nil }

// pair checks a cache against new tokens.
func (c *args) pair(name string, cache *aclnn.Tensor, of string, t *aclnn.Tensor) {
	if !c.OK() {
		return
	}
	c.Contiguous(name, cache)
	heads, dim := t.Dim(1), t.Dim(2)
	flat := cache.Rank() == 3 && cache.Dim(2) == heads*dim
	if !flat && !(cache.Rank() == 4 && cache.Dim(1) == heads && cache.Dim(3) == dim) {
		c.Fail("%s is %v; for %s %v it must be [rows, places, %d] or [rows, %d, places, %d]", name, cache, of, t, heads*dim, heads, dim)
	}
	if c.OK() && !flat && cache.Len() > dim*math.MaxInt32 {
		c.Fail("%s is %v; it has more than %d rows of a head", name, cache, math.MaxInt32)
	}
}

func (a *WriteArgs) key() key.CacheWrite {
	return key.CacheWrite{
		DType: a.Keys.DType(), Slots: a.Slots.DType(), Heads: a.Keys.Dim(1), Dim: a.Keys.Dim(2), Places: a.KeyCache.Dim(-2),
		HeadMajor: a.KeyCache.Rank() == 4, Int8: a.coded(), Tokens: key.ExtentOf(a.Keys.Dim(0)),
	}
}

func newWrite(reg *ops.Registry) (*ops.Op[WriteArgs, key.CacheWrite], error) {
	return ops.NewOp(reg, "cache_write", (*WriteArgs).validate, (*WriteArgs).key,
		ops.Kernel[WriteArgs, key.CacheWrite]{
			Name: "ScatterPaKvCache",
			Supports: func(env *ops.Env, k key.CacheWrite) error {
				switch {
				case k.DType == aclnn.Float32:
					return errors.New("it writes 16 bits only")
				case k.HeadMajor:
					return errors.New("it takes the heads of a token beside each other")
				case k.Int8: // the scales have the heads apart
					if err := env.Has(&aclnn.ScatterNdUpdateParams{}); err != nil {
						return err
					}
				}
				return env.Has(&aclnn.ScatterPaKvCacheParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *WriteArgs) error {
				return a.run(st, (*WriteArgs).scatterPages, (*WriteArgs).scatter)
			},
		},
		ops.Kernel[WriteArgs, key.CacheWrite]{
			Name: "ScatterNdUpdate", Supports: func(env *ops.Env, _ key.CacheWrite) error { return env.Has(&aclnn.ScatterNdUpdateParams{}) },
			Run: func(_ context.Context, st *acl.Stream, a *WriteArgs) error {
				return a.run(st, (*WriteArgs).scatter, (*WriteArgs).scatter)
			},
		},
		ops.Kernel[WriteArgs, key.CacheWrite]{
			Name: "InplaceIndexCopy",
			Run: func(_ context.Context, st *acl.Stream, a *WriteArgs) error {
				return a.run(st, (*WriteArgs).replace, (*WriteArgs).replace)
			},
		})
}

// run writes the new tokens, or their codes, and the scales of these, which are a cache of one feature.
func (a *WriteArgs) run(st *acl.Stream, write, writeScales func(*WriteArgs, *aclnn.Scope)) error {
	if a.Keys.Len() == 0 && a.Values.Len() == 0 {
		return nil
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		if !a.coded() {
			write(a, s)
			return
		}
		codes := &WriteArgs{KeyCache: a.KeyCache, ValueCache: a.ValueCache, Slots: a.Slots}
		scales := &WriteArgs{KeyCache: a.KeyScales.Unsqueeze(3), ValueCache: a.ValueScales.Unsqueeze(3), Slots: a.Slots}
		codes.Keys, scales.Keys = quantised(s, a.Keys)
		codes.Values, scales.Values = quantised(s, a.Values)
		if s.Err() == nil {
			write(codes, s)
			writeScales(scales, s)
		}
	})
}

// quantised returns the codes of t [tokens, heads, features], and their scales [tokens, heads, 1].
func quantised(s *aclnn.Scope, t *aclnn.Tensor) (codes, scales *aclnn.Tensor) {
	codes, scales = s.Tensor(aclnn.Int8, t.Shape()...), s.Tensor(aclnn.Float32, t.Dim(0), t.Dim(1), 1)
	if s.Err() == nil {
		aclnn.Launch(s, aclnn.DynamicQuant, aclnn.DynamicQuantParams{X: s.Contiguous(t), YOut: codes, ScaleOut: scales.Squeeze(2)})
	}
	return codes, scales
}

func (a *WriteArgs) scatterPages(s *aclnn.Scope) {
	if a.Keys.Len() == 0 || a.Values.Len() == 0 {
		return
	}
	aclnn.Launch(s, aclnn.ScatterPaKvCache, aclnn.ScatterPaKvCacheParams{
		Key: s.Contiguous(a.Keys), KeyCache: perToken(a.KeyCache, a.Keys), SlotMapping: s.Contiguous(a.Slots),
		Value: s.Contiguous(a.Values), ValueCache: perToken(a.ValueCache, a.Values), CacheMode: "Norm", ScatterMode: "None",
	})
}

func (a *WriteArgs) scatter(s *aclnn.Scope) {
	a.rows(s, func(cache, index, fresh *aclnn.Tensor) {
		aclnn.Launch(s, aclnn.ScatterNdUpdate, aclnn.ScatterNdUpdateParams{Var: cache, Indices: index.Unsqueeze(1), Updates: fresh})
	})
}

func (a *WriteArgs) replace(s *aclnn.Scope) {
	a.rows(s, func(cache, index, fresh *aclnn.Tensor) {
		aclnn.Launch(s, aclnn.InplaceIndexCopy, aclnn.InplaceIndexCopyParams{Self: cache, Dim: 0, Index: index, Source: fresh})
	})
}

// perToken views a cache [rows, places, heads·features] as [rows, places, heads, features].
func perToken(cache, fresh *aclnn.Tensor) *aclnn.Tensor {
	return cache.Reshape(cache.Dim(0), cache.Dim(1), fresh.Dim(1), fresh.Dim(2))
}

// rows calls write for the keys and the values, with the cache as a matrix of rows, the numbers of the
// rows to write, and these.
func (a *WriteArgs) rows(s *aclnn.Scope, write func(cache, index, fresh *aclnn.Tensor)) {
	index := s.Contiguous(a.Slots)
	if a.KeyCache.Rank() == 4 {
		index = a.perHead(s)
	}
	for _, p := range [][2]*aclnn.Tensor{{a.KeyCache, a.Keys}, {a.ValueCache, a.Values}} {
		if p[1].Len() == 0 || s.Err() != nil {
			continue
		}
		width := p[1].Len() / index.Len()
		write(p[0].Reshape(-1, width), index, s.Contiguous(p[1]).Reshape(-1, width))
	}
}

// perHead returns the rows of all heads of each token, in a cache [rows, heads, places, features]
// seen as a matrix: slot + row·(heads−1)·places + head·places.
func (a *WriteArgs) perHead(s *aclnn.Scope) *aclnn.Tensor {
	tokens, heads, places := a.Keys.Dim(0), a.Keys.Dim(1), a.KeyCache.Dim(2)
	slots := s.Cast(s.Contiguous(a.Slots), aclnn.Int32) // CANN divides int64 on the AI CPU
	row := s.Like(slots)
	aclnn.Launch(s, aclnn.FloorDivides, aclnn.FloorDividesParams{Self: slots, Other: aclnn.Int(places), Out: row})
	aclnn.Launch(s, aclnn.InplaceMuls, aclnn.InplaceMulsParams{Self: row, Other: aclnn.Int((heads - 1) * places)})
	aclnn.Launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: row, Other: slots, Alpha: aclnn.Int(1)})
	head, out := s.Tensor(aclnn.Int32, heads), s.Tensor(aclnn.Int32, tokens, heads)
	aclnn.Launch(s, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(heads * places), Step: aclnn.Int(places), Out: head})
	aclnn.Launch(s, aclnn.Add, aclnn.AddParams{Self: row.Unsqueeze(1), Other: head.Unsqueeze(0), Alpha: aclnn.Int(1), Out: out})
	return out.Reshape(-1)
}
