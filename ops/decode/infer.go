package decode

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/key"
)

// Limits of CANN's kernels for a cache on a 910B.
const (
	headLimit  = 256   // query heads
	groupLimit = 64    // query heads that share a key head
	dimLimit   = 512   // features of a head
	dimUnit    = 16    // which they are a multiple of
	blockLimit = 512   // tokens of a block
	blockUnit  = 16    // which they are a multiple of, with one new token
	codedUnit  = 32    // and in int8
	promptUnit = 128   // and with several
	rowLimit   = 65535 // features of all key heads in [blocks, tokens, heads·features]
	batchLimit = 65536 // sequences

	latentDims, latentRope = 512, 64 // features of the key head of latent attention, and those besides
	latentHeads            = 128     // query heads that share it
	latentQueries          = 16      // new tokens of a sequence
	latentBlock            = 128     // tokens of a block
)

// Modes of a cache's scales in int8, for each token and head.
const (
	scalesOfSequences = 3 // [sequences, heads, places]
	scalesOfBlocks    = 5 // [blocks, heads, tokens of a block]
)

// seesAll lets a token see all tokens before and after it that the mask does not hide.
const seesAll = math.MaxInt32

// infer is an entry point of CANN's attention over caches.
type infer struct {
	params aclnn.Params // of the C function, for its name
	single bool         // takes one new token of each sequence only
	latent bool         // takes keys with features besides
	int8   bool         // takes a cache of int8 with scales for each token and head
	queue  func(s *aclnn.Scope, p *call)
}

// call holds the arguments of an entry point.
type call struct {
	query, out, hidden, blocks *aclnn.Tensor
	queryRope, keyRope         *aclnn.Tensor
	keyScales, valueScales     *aclnn.Tensor
	scaleMode                  int64
	keys, values               []*aclnn.Tensor
	layout                     aclnn.Layout
	mode                       aclnn.SparseMode
	lengths                    []int64
	heads, keyHeads, block     int64
	scale                      float64
	before, after              int64 // tokens that a token sees besides itself
}

// inferKernels lists the entry points, the newest first.
var inferKernels = []infer{
	{params: &aclnn.FusedInferAttentionScoreV4Params{}, latent: true, int8: true, queue: func(s *aclnn.Scope, p *call) {
		aclnn.Launch(s, aclnn.FusedInferAttentionScoreV4, aclnn.FusedInferAttentionScoreV4Params{
			Query: p.query, Key: p.keys, Value: p.values, QueryRope: p.queryRope, KeyRope: p.keyRope, AttenMask: p.hidden, ActualSeqLengthsKv: p.lengths, BlockTable: p.blocks,
			NumHeads: p.heads, ScaleValue: p.scale, PreTokens: p.before, NextTokens: p.after, InputLayout: p.layout, NumKeyValueHeads: p.keyHeads,
			SparseMode: p.mode, BlockSize: p.block, AttentionOut: p.out,
			KeyAntiquantScale: p.keyScales, ValueAntiquantScale: p.valueScales, KeyAntiquantMode: p.scaleMode, ValueAntiquantMode: p.scaleMode,
		})
	}},
	{params: &aclnn.FusedInferAttentionScoreV3Params{}, latent: true, int8: true, queue: func(s *aclnn.Scope, p *call) {
		aclnn.Launch(s, aclnn.FusedInferAttentionScoreV3, aclnn.FusedInferAttentionScoreV3Params{
			Query: p.query, Key: p.keys, Value: p.values, QueryRope: p.queryRope, KeyRope: p.keyRope, AttenMask: p.hidden, ActualSeqLengthsKv: p.lengths, BlockTable: p.blocks,
			NumHeads: p.heads, ScaleValue: p.scale, PreTokens: p.before, NextTokens: p.after, InputLayout: p.layout, NumKeyValueHeads: p.keyHeads,
			SparseMode: p.mode, BlockSize: p.block, AttentionOut: p.out,
			KeyAntiquantScale: p.keyScales, ValueAntiquantScale: p.valueScales, KeyAntiquantMode: p.scaleMode, ValueAntiquantMode: p.scaleMode,
		})
	}},
	{params: &aclnn.FusedInferAttentionScoreV2Params{}, int8: true, queue: func(s *aclnn.Scope, p *call) {
		aclnn.Launch(s, aclnn.FusedInferAttentionScoreV2, aclnn.FusedInferAttentionScoreV2Params{
			Query: p.query, Key: p.keys, Value: p.values, AttenMask: p.hidden, ActualSeqLengthsKv: p.lengths, BlockTable: p.blocks,
			NumHeads: p.heads, ScaleValue: p.scale, PreTokens: p.before, NextTokens: p.after, InputLayout: p.layout, NumKeyValueHeads: p.keyHeads,
			SparseMode: p.mode, BlockSize: p.block, AttentionOut: p.out,
			KeyAntiquantScale: p.keyScales, ValueAntiquantScale: p.valueScales, KeyAntiquantMode: p.scaleMode, ValueAntiquantMode: p.scaleMode,
		})
	}},
	{params: &aclnn.FusedInferAttentionScoreParams{}, queue: func(s *aclnn.Scope, p *call) {
		aclnn.Launch(s, aclnn.FusedInferAttentionScore, aclnn.FusedInferAttentionScoreParams{
			Query: p.query, Key: p.keys, Value: p.values, AttenMask: p.hidden, ActualSeqLengthsKv: p.lengths, BlockTable: p.blocks,
			NumHeads: p.heads, ScaleValue: p.scale, PreTokens: p.before, NextTokens: p.after, InputLayout: p.layout, NumKeyValueHeads: p.keyHeads,
			SparseMode: p.mode, BlockSize: p.block, AttentionOut: p.out,
		})
	}},
	{params: &aclnn.IncreFlashAttentionV4Params{}, single: true, queue: func(s *aclnn.Scope, p *call) {
		aclnn.Launch(s, aclnn.IncreFlashAttentionV4, aclnn.IncreFlashAttentionV4Params{
			Query: p.query, Key: p.keys, Value: p.values, AttenMask: p.hidden, ActualSeqLengths: p.lengths, Blocktable: p.blocks,
			NumHeads: p.heads, ScaleValue: p.scale, InputLayout: p.layout, NumKeyValueHeads: p.keyHeads, BlockSize: p.block, AttentionOut: p.out,
		})
	}},
}

// supports returns why the entry point cannot take the arguments, or nil.
func (f *infer) supports(env *ops.Env, k key.DecodeAttention) error {
	one := k.Queries.Most() <= 1 && k.Queries != 0
	switch {
	case k.DType == aclnn.Float32:
		return errors.New("it computes in 16 bits only")
	case f.single && !one:
		return errors.New("it takes one new token of each sequence")
	case !k.Contiguous:
		return errors.New("it takes contiguous tensors only")
	case k.Int8 && !f.int8:
		return errors.New("it takes no cache of int8 with scales for each token and head")
	case k.Int8 && !one:
		return errors.New("it takes a cache of int8 for one new token of each sequence")
	case k.Sinks:
		return errors.New("it computes no sinks")
	case k.Rope > 0:
		if err := f.latents(k, one); err != nil {
			return err
		}
	case k.Heads > headLimit || k.Heads/k.KeyHeads > groupLimit:
		return fmt.Errorf("%d query heads on %d key heads are more than %d, or more than %d on one", k.Heads, k.KeyHeads, headLimit, groupLimit)
	case k.Dim > dimLimit || k.Dim%dimUnit != 0:
		return fmt.Errorf("head dimension %d is not a multiple of %d up to %d", k.Dim, dimUnit, dimLimit)
	case k.Batch.Most() > batchLimit:
		return fmt.Errorf("it takes %d sequences", batchLimit)
	case k.Block > 0 && k.Rope == 0:
		if err := paged(k, one); err != nil {
			return err
		}
	}
	return env.Has(f.params)
}

func errHeadMajor(l ops.Layout) error {
	return fmt.Errorf("layout %s with blocks [heads, tokens, features] is for one new token", l)
}

// latents returns why the entry point cannot take keys with features besides, or nil.
func (f *infer) latents(k key.DecodeAttention, one bool) error {
	switch {
	case !f.latent:
		return errors.New("it takes no features besides those of the keys")
	case k.Dim != latentDims || k.Rope != latentRope || k.KeyHeads != 1:
		return fmt.Errorf("it takes one key head of %d features with %d besides; there are %d of %d with %d", latentDims, latentRope, k.KeyHeads, k.Dim, k.Rope)
	case k.Heads > latentHeads || k.Heads&(k.Heads-1) != 0:
		return fmt.Errorf("%d query heads are not 1, 2, 4 or more up to %d", k.Heads, latentHeads)
	case k.Queries.Most() > latentQueries:
		return fmt.Errorf("more than %d new tokens of a sequence", latentQueries)
	case k.HeadMajor && !one && k.Layout != ops.BNSD:
		return errHeadMajor(k.Layout)
	case k.Block > latentBlock || k.Block%blockUnit != 0:
		return fmt.Errorf("blocks of %d tokens are not a multiple of %d up to %d", k.Block, blockUnit, latentBlock)
	}
	return nil
}

// paged returns why the kernels cannot take the blocks of a cache, or nil.
func paged(k key.DecodeAttention, one bool) error {
	unit := int64(blockUnit)
	switch {
	case !one:
		unit = promptUnit
	case k.Int8:
		unit = codedUnit
	}
	switch {
	case k.Block%unit != 0 || k.Block > blockLimit:
		return fmt.Errorf("blocks of %d tokens are not a multiple of %d up to %d", k.Block, unit, blockLimit)
	case !k.HeadMajor && k.KeyHeads*k.Dim > rowLimit:
		return fmt.Errorf("a token has %d features, more than %d; use blocks [heads, tokens, features]", k.KeyHeads*k.Dim, rowLimit)
	case k.HeadMajor && !one && k.Layout != ops.BNSD:
		return errHeadMajor(k.Layout)
	}
	return nil
}

// newAttention prefers CANN's kernels for caches.
func newAttention(reg *ops.Registry) (*ops.Op[AttentionArgs, key.DecodeAttention], error) {
	var kernels []ops.Kernel[AttentionArgs, key.DecodeAttention]
	for _, f := range inferKernels {
		kernels = append(kernels, ops.Kernel[AttentionArgs, key.DecodeAttention]{
			Name: f.params.Operator().Name(), Supports: f.supports,
			Run: func(ctx context.Context, st *acl.Stream, a *AttentionArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return aclnn.Compose(st, func(s *aclnn.Scope) {
					if p := a.call(ctx, reg, s); s.Err() == nil && p != nil {
						f.queue(s, p)
					}
				})
			},
		})
	}
	kernels = append(kernels, ops.Kernel[AttentionArgs, key.DecodeAttention]{
		Name: "gathered",
		Run: func(ctx context.Context, st *acl.Stream, a *AttentionArgs) error {
			if a.Out.Len() == 0 {
				return nil
			}
			return aclnn.Compose(st, func(s *aclnn.Scope) { a.gathered(ctx, reg, s) })
		},
	})
	return ops.NewOp(reg, "decode_attention", (*AttentionArgs).validate, (*AttentionArgs).key, kernels...)
}

// call arranges the arguments for CANN. It returns nil if there are no keys, after it has set Out to
// zero.
func (a *AttentionArgs) call(ctx context.Context, reg *ops.Registry, s *aclnn.Scope) *call {
	var c args
	z := a.sizes(&c)
	most, _ := a.longest(z)
	if most == 0 {
		s.Zero(a.Out)
		return nil
	}
	p := &call{
		query: a.Query, queryRope: a.QueryRope, keyRope: a.KeyRope, out: a.Out, hidden: a.Hidden, blocks: a.Blocks, keys: []*aclnn.Tensor{a.Keys}, values: []*aclnn.Tensor{a.Values},
		layout: aclnn.Layout(a.Layout), lengths: a.Lengths, heads: z.heads, keyHeads: z.keyHeads, block: z.block, scale: a.Scale,
		before: seesAll, after: seesAll, keyScales: a.KeyScales, valueScales: a.ValueScales,
	}
	switch {
	case a.coded() && a.Blocks != nil:
		p.scaleMode = scalesOfBlocks
	case a.coded():
		p.scaleMode = scalesOfSequences
	}
	switch {
	case z.queries > 1 && a.Hidden != nil:
		p.mode = aclnn.SparseAll
	case z.queries > 1:
		var err error
		p.mode = aclnn.SparseCausalEnd
		if a.Window > 0 {
			p.mode, p.before, p.after = aclnn.SparseBand, a.Window-1, 0
		}
		p.hidden, err = reg.CausalMask(s.Stream)
		s.Fail(err)
	case a.Window > 0 && a.Window < most: // the windows of these kernels are for several new tokens
		p.hidden = a.unseen(ctx, s, z, z.places, nil)
	}
	if z.queries == 1 && z.headMajor && a.Layout != ops.BNSD {
		// One token lies in memory in the same way in every layout, and CANN reads these blocks in
		// one layout only.
		p.layout = aclnn.LayoutBNSD
		p.query, p.out = a.Query.Reshape(z.batch, z.heads, 1, z.dim), a.Out.Reshape(z.batch, z.heads, 1, z.dim)
		if p.queryRope != nil {
			p.queryRope = a.QueryRope.Reshape(z.batch, z.heads, 1, -1)
		}
	}
	return p
}
