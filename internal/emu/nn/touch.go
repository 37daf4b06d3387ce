package nn

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

// accesses is the device memory that a call touches: what it reads before what it writes.
// The table of operators says which is which, the lists below which operators leave parts of
// a tensor alone.
func (c *Call) accesses(workspace uint64) []rt.Access {
	var reads, writes []rt.Access
	for _, t := range c.tensors {
		for _, touch := range c.touches(t) {
			if touch == rt.Writes || touch == rt.WritesSome {
				writes = append(writes, t.access(touch))
			} else {
				reads = append(reads, t.access(touch))
			}
		}
	}
	if c.workspace > 0 {
		writes = append(writes, rt.Bytes("workspace", rt.Writes, workspace, uint64(c.workspace)))
	}
	return append(reads, writes...)
}

// selective are words in the names of operators that read or write a part of a tensor, which
// other arguments choose.
var selective = []string{
	"AdvanceStep", "Attention", "Cache", "CausalConv", "Combine", "Conv1d", "Ctc", "DeltaRule", "Embedding", "FlatQuantV3", "Gather", "Gmm", "Grouped", "GroupQuant",
	"Index", "Kda", "Kvcache", "Lstm", "Gru", "Masked", "Mla", "Moe", "NLLLoss", "Nll", "Prolog", "Put", "RRelu", "Recurrent", "Rope", "Scatter", "SilentCheck",
	"Sampl", "Search", "Segment", "Slice", "Sparse", "Strided", "Swiglu", "Take", "TopKTopP", "Unpool", "Upsample", "Where",
}

// sparing are words in the names of operators that leave an output alone when other arguments
// do not ask for it, beside those with a mask of outputs.
var sparing = []string{"AdvanceStep", "BatchNorm", "DynamicQuant", "LinalgQr", "LogSigmoidForward", "Nonzero", "RRelu", "RmsNormQuant", "SituQuant", "Svd", "SwiGluQuant", "Unique"}

// overwriting are words in the names of operators that overwrite what is in place without
// reading it.
var overwriting = []string{"Bernoulli", "Copy", "Fill", "Normal", "One", "Random", "Uniform", "Zero", "TransMatmulWeight"}

func (op *operator) named(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(op.name, w) })
}

// use is what the operator does with the tensor, or the tensor of a list, that is called name.
func (op *operator) use(name string) use {
	name, _, _ = strings.Cut(name, "[")
	return op.params[slices.IndexFunc(op.params, func(p param) bool { return p.name == name })].use
}

// touches says what the call's operator does with one of its tensors.
func (c *Call) touches(t *Tensor) []rt.Touch {
	op := c.op
	reads, writes := rt.Reads, rt.Writes
	switch {
	case op.named(selective):
		reads, writes = rt.ReadsSome, rt.WritesSome
	case op.named(sparing) || c.Has("outputMask"):
		writes = rt.WritesSome
	}
	switch use := op.use(t.name); {
	case use == written:
		return []rt.Touch{writes}
	case use == read || strings.HasPrefix(t.name, "running") && c.Has("training") && !c.Bool("training"):
		return []rt.Touch{reads}
	case reads == rt.ReadsSome || op.named(overwriting) || strings.Contains(t.name, "Optional"):
		return []rt.Touch{rt.Keeps, writes}
	}
	return []rt.Touch{reads, writes}
}

// access is the tensor's memory; storage whose elements are packed or permuted counts as a
// whole.
func (t *Tensor) access(touch rt.Touch) rt.Access {
	bits := int64(t.DType.Bits())
	if bits%8 == 0 && !(t.Format != dtype.ND && len(t.Storage) > 0 && isPrivate(t.Format)) {
		return rt.Access{
			Name: t.String(), Touch: touch, Addr: t.Addr + uint64(t.Offset*bits/8), Item: uint64(bits / 8), Shape: t.Shape, Strides: t.Strides,
		}
	}
	lo, hi, ok := t.span()
	if !ok {
		return rt.Bytes(t.String(), touch, t.Addr, 0)
	}
	first := lo * bits / 8
	return rt.Bytes(t.String(), touch, t.Addr+uint64(first), uint64((hi*bits+7)/8-first))
}
