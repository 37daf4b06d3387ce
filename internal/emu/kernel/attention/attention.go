package attention

/*
#cgo noescape attention_forward_run
#cgo nocallback attention_forward_run
#cgo noescape attention_backward_run
#cgo nocallback attention_backward_run
#include <stdlib.h>
#include "table.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// BiasKind determines how a position bias enters the scores.
type BiasKind int32

// Kinds of bias. The last two subtract slope·|distance| or slope·√|distance|, where the
// bias is one fp32 slope per head and the distance is column - row + Distance.
const (
	BiasNone         BiasKind = C.BIAS_NONE
	BiasAfterScale   BiasKind = C.BIAS_AFTER_SCALE  // scale·QKᵀ + bias
	BiasBeforeScale  BiasKind = C.BIAS_BEFORE_SCALE // scale·(QKᵀ + bias)
	BiasDistance     BiasKind = C.BIAS_DISTANCE
	BiasRootDistance BiasKind = C.BIAS_ROOT_DISTANCE
)

// Unlimited is the value of Last that hides nothing; -Unlimited is that of First.
const Unlimited = int64(1) << 60

// AttentionStatCopies is the last dimension of Max and Sum: equal copies of each value.
const AttentionStatCopies = C.ATTENTION_STAT_COPIES

// AttentionFold is the number of rows of a folded bias.
const AttentionFold = C.ATTENTION_FOLD

// Attention is one batch item, or one packed sequence, of flash attention. Query, Key,
// Value and Out are [heads, tokens, dim] views of one dtype (float32, float16, bfloat16);
// key heads divide query heads, and query head n reads key head n / (heads / key heads).
// Max and Sum are float32 [heads, tokens, AttentionStatCopies].
//
// Row i sees the columns i+First to i+Last and those below Prefix, unless their byte in Mask is
// not 0. The output of a row that sees nothing is the mean of all values, with Max the lowest
// float32 and Sum the number of columns; with ZeroMaskedRows the output is 0 and Sum is the
// highest float32.
//
// With Sink, each softmax row of a head has one more score, whose value is zero, in Max and Sum too; a row that sees
// nothing else gives 0.
//
// A bias that depends only on row - column may be folded. Bias then has AttentionFold rows, the
// first of which is row BiasFold, and at least as many columns as the scores; Last is at most 0.
type Attention struct {
	Query, Key, Value, Out kernel.View
	QueryRope, KeyRope     kernel.View // extra columns of Query and Key; unused if Shape is nil
	Max, Sum               kernel.View
	Sink                   kernel.View // float32 [heads, 1, 1]; none if Shape is nil. The gradient needs Max and Sum only
	Scale                  float32
	Bias                   kernel.View // matrix [heads, rows, columns] of the query's dtype, or slopes [heads, 1, 1]
	BiasFold               int64
	BiasKind               BiasKind
	Distance               int64
	First, Last, Prefix    int64
	Mask                   kernel.View    // [heads, rows, columns] bytes; no mask when Data is nil
	Keep                   unsafe.Pointer // dropout bits, 1 keeps, [heads, rows, columns]; nil is no dropout
	KeepBit                int64          // index of the first bit
	KeepProb               float32
	ZeroMaskedRows         bool
	cache                  *pagedCache // has Key, Value and KeyRope, if not nil
}

// AttentionGrad is the backward pass of an Attention, whose Out, Max and Sum are then inputs.
type AttentionGrad struct {
	OutGrad                       kernel.View
	QueryGrad, KeyGrad, ValueGrad kernel.View
	QueryRopeGrad, KeyRopeGrad    kernel.View
}

// FlashAttention computes Out, Max and Sum of every item. It never holds the score matrix.
func FlashAttention(items []Attention) error {
	b, err := newAttentionBatch(items)
	if err != nil {
		return err
	}
	defer b.free()
	if len(items) == 0 {
		return nil
	}
	var blocks []C.struct_attention_block
	rows := blockRows(b.items)
	for i := range b.items {
		blocks = appendBlocks(blocks, &b.items[i], rows)
	}
	run := func(tasks []C.struct_attention_forward_task, grain int64) {
		thread.Parallel(int64(len(tasks)), grain, func(lo, hi int64) {
			thread.WithScratch(func(s unsafe.Pointer) { C.attention_forward_run(&tasks[lo], C.int64_t(hi-lo), (*C.float)(s)) })
		})
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(unsafe.SliceData(blocks))
	ends := make([]C.struct_attention_forward_task, len(blocks))
	for i := range blocks {
		ends[i] = C.struct_attention_forward_task{&blocks[i], C.ATTENTION_FINISH}
	}
	if parts, sums := shared(blocks); parts != nil {
		defer C.free(unsafe.Pointer(sums))
		run(parts, b.grain(2, len(parts)))
		run(ends, 8)
	} else {
		run(ends, b.grain(2, len(ends)))
	}
	return nil
}

// shared lists the parts of the keys of all blocks, if the threads have to share the keys of a block because
// there are few blocks, and gives the blocks memory for their sums.
func shared(blocks []C.struct_attention_block) (parts []C.struct_attention_forward_task, sums *C.float) {
	used := C.int64_t(0)
	for i := range blocks {
		b := &blocks[i]
		n := C.attention_parts(b.a)
		for part := range n {
			parts = append(parts, C.struct_attention_forward_task{b, part})
		}
		used += n * C.attention_part_floats(b.a.value_dim, b.heads*b.rows)
	}
	if len(blocks) >= 2*thread.Threads() || len(parts) == len(blocks) {
		return nil, nil
	}
	sums = newScratch(used)
	next := sums
	for i := range blocks {
		b := &blocks[i]
		b.parts = next
		next = (*C.float)(unsafe.Add(unsafe.Pointer(next), 4*C.attention_parts(b.a)*C.attention_part_floats(b.a.value_dim, b.heads*b.rows)))
	}
	return parts, sums
}

// blockRows returns the number of query rows of a block: many, so that keys and values are seldom copied, but
// so few that the threads share the work evenly.
func blockRows(items []C.struct_attention) C.int64_t {
	const least = 64
	rows := C.int64_t(C.ATTENTION_ROWS)
	for ; rows > least; rows /= 2 {
		blocks := C.int64_t(0)
		for i := range items {
			blocks += items[i].heads * ((items[i].q_len + rows - 1) / rows)
		}
		if blocks >= 4*C.int64_t(thread.Threads()) {
			break
		}
	}
	return rows
}

// appendBlocks appends the blocks of so many rows of an item. The heads that share a key head share a block if they have
// few rows, as in decoding, so that a thread reads the keys once for all of them.
func appendBlocks(blocks []C.struct_attention_block, a *C.struct_attention, rows C.int64_t) []C.struct_attention_block {
	together := max(1, min(a.group, C.ATTENTION_TOGETHER/max(a.q_len, 1)))
	for head := C.int64_t(0); head < a.heads; {
		heads := min(together, a.group-head%a.group)
		for row := C.int64_t(0); row < a.q_len; row += rows {
			blocks = append(blocks, C.struct_attention_block{a: a, head: head, heads: heads, row: row, rows: min(rows, a.q_len-row)})
		}
		head += heads
	}
	return blocks
}

// chunks returns the number of parts of the key axis that have their own sum of the query
// gradient. It depends only on the shapes, so that the order of additions never changes.
func chunks(a *C.struct_attention, keyHeads C.int64_t) C.int64_t {
	const spread = 8
	tiles := (a.kv_len + C.ATTENTION_KEYS - 1) / C.ATTENTION_KEYS
	return max(1, min(tiles, (spread+keyHeads-1)/max(keyHeads, 1)))
}

// FlashAttentionGradWorkspace returns the size in bytes of the workspace that FlashAttentionGrad
// needs. It depends only on the shapes of the items.
func FlashAttentionGradWorkspace(items []Attention) (int64, error) {
	b, err := newAttentionBatch(items)
	if err != nil {
		return 0, err
	}
	defer b.free()
	n := C.int64_t(0)
	for i := range b.items {
		a := &b.items[i]
		n += chunks(a, b.keyHeads) * C.attention_query_floats(a)
	}
	return int64(4 * n), nil
}

// FlashAttentionGrad computes the gradients of query, key and value of every item. The sums
// are added in an order that does not depend on the number of threads.
func FlashAttentionGrad(items []Attention, grads []AttentionGrad, workspace unsafe.Pointer) error {
	b, err := newAttentionBatch(items)
	if err != nil {
		return err
	}
	defer b.free()
	if len(grads) != len(items) {
		return fmt.Errorf("attention: %d items have %d gradients", len(items), len(grads))
	}
	if len(items) == 0 {
		return nil
	}
	g := unsafe.Slice((*C.struct_attention_grad)(C.calloc(C.size_t(len(items)), C.sizeof_struct_attention_grad)), len(items))
	defer C.free(unsafe.Pointer(&g[0]))

	type store struct {
		a         *C.struct_attention
		grad      *C.struct_attention_grad
		head, row C.int64_t
	}
	var parts []C.struct_attention_backward_task
	var stores []store
	var used C.int64_t
	for i := range b.items {
		a := &b.items[i]
		if err := grads[i].check(&items[i]); err != nil {
			return fmt.Errorf("attention: item %d: %w", i, err)
		}
		g[i] = C.struct_attention_grad{
			out: planeOf(grads[i].OutGrad), query: planeOf(grads[i].QueryGrad), key: planeOf(grads[i].KeyGrad),
			query_rope: planeOf(grads[i].QueryRopeGrad), key_rope: planeOf(grads[i].KeyRopeGrad),
			value: planeOf(grads[i].ValueGrad), chunks: chunks(a, b.keyHeads),
			query_sum: (*C.float)(unsafe.Add(workspace, 4*used)),
		}
		used += g[i].chunks * C.attention_query_floats(a)
		for head := range a.heads / a.group {
			for chunk := range g[i].chunks {
				parts = append(parts, C.struct_attention_backward_task{a, &g[i], head, chunk})
			}
		}
		for head := range a.heads {
			for row := C.int64_t(0); row < a.q_len; row += C.ATTENTION_ROWS {
				stores = append(stores, store{a, &g[i], head, row})
			}
		}
	}
	thread.Parallel(int64(len(parts)), b.grain(5, len(parts)), func(lo, hi int64) {
		thread.WithScratch(func(s unsafe.Pointer) { C.attention_backward_run(&parts[lo], C.int64_t(hi-lo), (*C.float)(s)) })
	})
	thread.Parallel(int64(len(stores)), 8, func(lo, hi int64) {
		for _, s := range stores[lo:hi] {
			C.attention_query_run(s.a, s.grad, s.head, s.row, min(C.ATTENTION_ROWS, s.a.q_len-s.row))
		}
	})
	return nil
}

// newScratch returns n floats that start on a cache line; the caller frees them.
func newScratch(n C.int64_t) *C.float {
	const line = 64
	return (*C.float)(C.aligned_alloc(line, C.size_t((4*n+line-1)/line*line)))
}

// attentionBatch holds the C form of the items, in C memory: cgo would check Go memory for
// pointers at every call.
type attentionBatch struct {
	items    []C.struct_attention
	pages    [][]C.int64_t
	keyHeads C.int64_t // of all items
	cells    int64     // number of scores times head dim, a measure of the work
}

func newAttentionBatch(items []Attention) (*attentionBatch, error) {
	b := &attentionBatch{}
	for i := range items {
		if err := items[i].check(); err != nil {
			return nil, fmt.Errorf("attention: item %d: %w", i, err)
		}
	}
	if len(items) == 0 {
		return b, nil
	}
	b.items = unsafe.Slice((*C.struct_attention)(C.calloc(C.size_t(len(items)), C.sizeof_struct_attention)), len(items))
	for i := range items {
		a := &items[i]
		b.items[i] = a.c()
		if d, v := b.items[i].head_dim, b.items[i].value_dim; int64(4*max(C.attention_forward_floats(d, v), C.attention_backward_floats(d, v))) > thread.ScratchSize {
			b.free()
			return nil, fmt.Errorf("attention: item %d: head dimensions %d and %d are too large", i, d, v)
		}
		if c := a.cache; c != nil && len(c.pages) > 0 {
			pages := unsafe.Slice((*C.int64_t)(C.malloc(C.size_t(8*len(c.pages)))), len(c.pages))
			for k, p := range c.pages {
				pages[k] = C.int64_t(p)
			}
			b.items[i].pages, b.items[i].page_rows = &pages[0], C.int64_t(c.rows)
			b.pages = append(b.pages, pages)
		}
		b.keyHeads += C.int64_t(a.Key.Shape[0])
		b.cells += a.Query.Len() * a.Key.Shape[1]
	}
	return b, nil
}

func (b *attentionBatch) free() {
	if len(b.items) > 0 {
		C.free(unsafe.Pointer(&b.items[0]))
	}
	for _, p := range b.pages {
		C.free(unsafe.Pointer(&p[0]))
	}
}

// grain returns the number of tasks for which a thread pays off, if all tasks together compute
// `products` products of the size of the score matrix with a matrix.
func (b *attentionBatch) grain(products int64, tasks int) int64 {
	const worthAThread = 1 << 20
	return max(1, worthAThread*int64(tasks)/max(b.cells*products, 1))
}

func (a *Attention) check() error {
	q, k := a.Query.Shape, a.Key.Shape
	for _, v := range []kernel.View{a.Query, a.Key, a.Value, a.Out, a.Max, a.Sum} {
		if len(v.Shape) != 3 {
			return fmt.Errorf("a view has %d dimensions, not 3", len(v.Shape))
		}
	}
	switch {
	case a.Query.DType != dtype.Float32 && a.Query.DType != dtype.Float16 && a.Query.DType != dtype.BFloat16:
		return fmt.Errorf("dtype %v is not float32, float16 or bfloat16", a.Query.DType)
	case a.Key.DType != a.Query.DType || a.Value.DType != a.Query.DType || a.Out.DType != a.Query.DType:
		return fmt.Errorf("dtypes %v, %v, %v, %v differ", a.Query.DType, a.Key.DType, a.Value.DType, a.Out.DType)
	case k[0] == 0 || q[0]%k[0] != 0:
		return fmt.Errorf("%d query heads are no multiple of %d key heads", q[0], k[0])
	case q[2] != k[2]:
		return fmt.Errorf("query %v and key %v differ in the head dimension", q, k)
	case (a.QueryRope.Shape == nil) != (a.KeyRope.Shape == nil):
		return fmt.Errorf("only one of query and key has rope columns")
	case a.QueryRope.Shape != nil && (a.QueryRope.DType != a.Query.DType || a.KeyRope.DType != a.Query.DType ||
		!slices.Equal(a.QueryRope.Shape[:2], q[:2]) || !slices.Equal(a.KeyRope.Shape[:2], k[:2]) || a.QueryRope.Shape[2] != a.KeyRope.Shape[2]):
		return fmt.Errorf("rope columns %v, %v do not fit query %v and key %v", a.QueryRope.Shape, a.KeyRope.Shape, q, k)
	case !slices.Equal(k[:2], a.Value.Shape[:2]):
		return fmt.Errorf("key %v and value %v differ in heads or tokens", k, a.Value.Shape)
	case !slices.Equal(a.Out.Shape, []int64{q[0], q[1], a.Value.Shape[2]}):
		return fmt.Errorf("out %v does not fit query %v and value %v", a.Out.Shape, q, a.Value.Shape)
	}
	stats := []int64{q[0], q[1], AttentionStatCopies}
	for _, v := range []kernel.View{a.Max, a.Sum} {
		if v.DType != dtype.Float32 || !slices.Equal(v.Shape, stats) {
			return fmt.Errorf("softmax statistics %v%v are not float32%v", v.DType, v.Shape, stats)
		}
	}
	if a.Sink.Shape != nil && (a.Sink.DType != dtype.Float32 || !slices.Equal(a.Sink.Shape, []int64{q[0], 1, 1})) {
		return fmt.Errorf("sinks %v%v are not float32[%d,1,1]", a.Sink.DType, a.Sink.Shape, q[0])
	}
	scores := []int64{q[0], q[1], k[1]}
	if a.Mask.Data != nil && !slices.Equal(a.Mask.Shape, scores) {
		return fmt.Errorf("mask %v does not fit scores %v", a.Mask.Shape, scores)
	}
	switch a.BiasKind {
	case BiasNone:
	case BiasAfterScale, BiasBeforeScale:
		want := scores
		if a.BiasFold != 0 {
			want = []int64{q[0], AttentionFold, max(a.Bias.Shape[2], k[1])}
			if a.BiasFold < 0 || a.BiasFold+AttentionFold < q[1] || a.BiasFold+AttentionFold > a.Bias.Shape[2] || a.Last > 0 {
				return fmt.Errorf("bias %v folded at row %d does not fit %d causal rows", a.Bias.Shape, a.BiasFold, q[1])
			}
		}
		if a.Bias.DType != a.Query.DType || !slices.Equal(a.Bias.Shape, want) {
			return fmt.Errorf("bias %v%v does not fit scores %v%v", a.Bias.DType, a.Bias.Shape, a.Query.DType, scores)
		}
	case BiasDistance, BiasRootDistance:
		if a.Bias.DType != dtype.Float32 || !slices.Equal(a.Bias.Shape, []int64{q[0], 1, 1}) {
			return fmt.Errorf("slopes %v%v are not float32[%d,1,1]", a.Bias.DType, a.Bias.Shape, q[0])
		}
	default:
		return fmt.Errorf("bias kind %d is unknown", a.BiasKind)
	}
	if a.Keep != nil && !(a.KeepProb > 0 && a.KeepProb <= 1) {
		return fmt.Errorf("keep probability %v is not in (0, 1]", a.KeepProb)
	}
	return nil
}

func (g *AttentionGrad) check(a *Attention) error {
	for _, pair := range [][2]kernel.View{{g.OutGrad, a.Out}, {g.QueryGrad, a.Query}, {g.KeyGrad, a.Key}, {g.ValueGrad, a.Value}, {g.QueryRopeGrad, a.QueryRope}, {g.KeyRopeGrad, a.KeyRope}} {
		if pair[0].DType != pair[1].DType || !slices.Equal(pair[0].Shape, pair[1].Shape) {
			return fmt.Errorf("gradient %v%v does not fit %v%v", pair[0].DType, pair[0].Shape, pair[1].DType, pair[1].Shape)
		}
	}
	return nil
}

func (a *Attention) c() C.struct_attention {
	out := C.struct_attention{
		q_len: C.int64_t(a.Query.Shape[1]), kv_len: C.int64_t(a.Key.Shape[1]),
		heads: C.int64_t(a.Query.Shape[0]), group: C.int64_t(a.Query.Shape[0] / a.Key.Shape[0]),
		head_dim: C.int64_t(a.Query.Shape[2]), value_dim: C.int64_t(a.Value.Shape[2]),
		query_rope: planeOf(a.QueryRope), key_rope: planeOf(a.KeyRope),
		dtype: C.int32_t(a.Query.DType), bias_kind: C.int32_t(a.BiasKind), scale: C.float(a.Scale),
		query: planeOf(a.Query), key: planeOf(a.Key), value: planeOf(a.Value), out: planeOf(a.Out),
		max: planeOf(a.Max), sum: planeOf(a.Sum), sink: planeOf(a.Sink), distance: C.int64_t(a.Distance),
		first: C.int64_t(max(a.First, -Unlimited)), last: C.int64_t(min(a.Last, Unlimited)), prefix: C.int64_t(a.Prefix),
		keep: (*C.uint8_t)(a.Keep), keep_bit: C.int64_t(a.KeepBit),
	}
	if a.cache != nil {
		out.key.page, out.value.page, out.key_rope.page = C.int64_t(a.cache.key), C.int64_t(a.cache.value), C.int64_t(a.cache.rope)
	}
	if a.Mask.Data != nil {
		out.mask = planeOf(a.Mask)
	}
	if a.QueryRope.Shape != nil {
		out.rope_dim = C.int64_t(a.QueryRope.Shape[2])
		out.head_dim += out.rope_dim
	}
	if a.BiasKind != BiasNone {
		out.bias, out.bias_cols, out.bias_fold = planeOf(a.Bias), C.int64_t(a.Bias.Shape[2]), C.int64_t(a.BiasFold)
	}
	if a.Keep != nil {
		out.keep_scale = C.float(1 / a.KeepProb)
	}
	if a.ZeroMaskedRows {
		out.zero_masked_rows = 1
	}
	return out
}

// plane returns the C form of a [head, row, column] view, empty for a view without shape.
func planeOf(v kernel.View) C.struct_plane {
	if v.Shape == nil {
		return C.struct_plane{}
	}
	return C.struct_plane{
		data: (*C.char)(v.Data), head: C.int64_t(v.Strides[0]), row: C.int64_t(v.Strides[1]), col: C.int64_t(v.Strides[2]),
	}
}
