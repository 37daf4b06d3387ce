package main

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// example is one mask.
type example struct {
	title   string
	mask    mask.Mask
	layout  ops.Layout
	tokens  int64 // number of tokens in TND
	refused bool
}

// masks lists the kinds of masks, each with its use case.
func (d *demo) masks() []example {
	lengths, valid := d.padding()
	ends := mask.CuSeqLens(lengths)
	tokens := ends[len(ends)-1]
	triangle := d.cells(func(i, j int64) bool { return j > i })
	blocks := d.cells(func(i, j int64) bool { return i/4 != j/4 })
	prefix := make([]int64, d.batch)
	for i := range prefix {
		prefix[i] = d.seq / 4
	}
	return []example{
		{title: "None: every query sees every key", layout: ops.BNSD},
		{title: "Causal: a decoder in training", mask: mask.Causal{}, layout: ops.BNSD},
		{title: "Causal, bottom right: queries behind a cache", mask: mask.Causal{Anchor: mask.BottomRight}, layout: ops.BNSD},
		{title: "Band: a causal window", mask: mask.Band{Pre: d.seq/4 - 1}, layout: ops.BNSD},
		{title: "Prefix: a prompt that sees itself", mask: mask.Prefix{Lengths: prefix}, layout: ops.BNSD},
		{title: "Padding on the right, causal: the mask is dropped, its rows of padding are not used", mask: mask.Padding{Lengths: lengths, Causal: true}, layout: ops.BNSD},
		{title: "Padding on the left, causal: what the tokenizer of a generator makes", mask: mask.Padding{Valid: valid, Causal: true}, layout: ops.BNSD},
		{title: "Padding, both directions: an encoder", mask: mask.Padding{Lengths: lengths}, layout: ops.BNSD},
		{title: "Dense: attention in blocks of four", mask: mask.Dense{Tensor: blocks, Meaning: mask.Hidden}, layout: ops.BNSD},
		{title: "Dense, but known to be causal: the device's own triangle replaces it", mask: mask.Dense{Tensor: triangle, Meaning: mask.Hidden, CausalRightPadded: true}, layout: ops.BNSD},
		{title: "Varlen: packed sequences, causal in each", mask: mask.Varlen{CuQueries: ends, Within: mask.Causal{Anchor: mask.BottomRight}}, layout: ops.TND, tokens: tokens},
		{title: "A causal mask in the packed layout, which would run across sequences", mask: mask.Causal{}, layout: ops.TND, tokens: tokens, refused: true},
		{title: "Lengths for another batch", mask: mask.Padding{Lengths: append(lengths, 1)}, layout: ops.BNSD, refused: true},
		{title: "A window that leaves queries without keys", mask: mask.Band{Pre: -d.seq, Next: -d.seq}, layout: ops.BNSD, refused: true},
	}
}

// padding describes a batch of sequences of decreasing length: their lengths, and where the tokens
// are if the padding comes first.
func (d *demo) padding() (lengths []int64, valid []bool) {
	for b := range d.batch {
		n := max(d.seq-b*d.seq/4, 1)
		lengths = append(lengths, n)
		for j := range d.seq {
			valid = append(valid, j >= d.seq-n)
		}
	}
	return lengths, valid
}

// cells makes a dense mask in device memory.
func (d *demo) cells(hidden func(i, j int64) bool) *aclnn.Tensor {
	t := d.Tensor(aclnn.Uint8, d.seq, d.seq)
	bytes := make([]byte, d.seq*d.seq)
	for i := range d.seq {
		for j := range d.seq {
			if hidden(i, j) {
				bytes[i*d.seq+j] = 1
			}
		}
	}
	d.Do(func() error { return aclnn.CopyToDevice(d.ctx, d.Stream, t, bytes) })
	return t
}
