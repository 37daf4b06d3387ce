package op

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Accesses returns the device memory that a call accesses, reads before writes. The operator table
// says which tensors are read or written; the lists below name the operators that access a tensor
// only in part.
func (c *Call) Accesses(workspace uint64) []sanitize.Access {
	var reads, writes []sanitize.Access
	for _, t := range c.tensors {
		for _, touch := range c.Touches(t) {
			if touch == sanitize.Writes || touch == sanitize.WritesSome {
				writes = append(writes, t.Access(touch))
			} else {
				reads = append(reads, t.Access(touch))
			}
		}
	}
	if c.workspace > 0 {
		writes = append(writes, sanitize.Bytes("workspace", sanitize.Writes, workspace, uint64(c.workspace)))
	}
	return append(reads, writes...)
}

// selective lists words in the names of operators that read or write only a part of a tensor, which
// other arguments select.
var selective = []string{
	"AdvanceStep", "Attention", "Cache", "CausalConv", "Combine", "Conv1d", "Ctc", "DeltaRule", "Embedding", "FlatQuantV3", "Gather", "Gmm", "Grouped", "GroupQuant",
	"Index", "Kda", "Kvcache", "Lstm", "Gru", "Masked", "Mla", "Moe", "NLLLoss", "Nll", "Prolog", "Put", "RRelu", "Recurrent", "Rope", "Scatter", "SilentCheck",
	"Sampl", "Search", "Segment", "Slice", "Sparse", "Strided", "Swiglu", "Take", "TopKTopP", "Unpool", "Upsample", "ViewCopy", "Where",
}

// sparing lists words in the names of operators that do not write an output if other arguments do
// not request it. Operators with an outputMask behave so too.
var sparing = []string{"AdvanceStep", "BatchNorm", "DynamicQuant", "LinalgQr", "LogSigmoidForward", "Nonzero", "RRelu", "RmsNormQuant", "SituQuant", "Svd", "SwiGluQuant", "Unique"}

// overwriting lists words in the names of operators that overwrite an in-place tensor without
// reading it.
var overwriting = []string{"Bernoulli", "Copy", "Fill", "Normal", "One", "Random", "Uniform", "Zero", "TransMatmulWeight"}

// Named reports whether the operator's name contains one of the words.
func (op *Operator) Named(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(op.Name, w) })
}

// Use returns the use of the named tensor. The name of a list member, such as x[2], stands for its
// list.
func (op *Operator) Use(name string) Use {
	name, _, _ = strings.Cut(name, "[")
	return op.Params[slices.IndexFunc(op.Params, func(p Param) bool { return p.Name == name })].Use
}

// Touches returns the ways in which the call's operator accesses one of its tensors.
func (c *Call) Touches(t *Tensor) []sanitize.Touch {
	op := c.Op
	reads, writes := sanitize.Reads, sanitize.Writes
	switch {
	case op.Named(selective):
		reads, writes = sanitize.ReadsSome, sanitize.WritesSome
	case op.Named(sparing) || c.Has("outputMask"):
		writes = sanitize.WritesSome
	}
	switch use := op.Use(t.Name); {
	case use == Written:
		return []sanitize.Touch{writes}
	case use == Read || strings.HasPrefix(t.Name, "running") && c.Has("training") && !c.Bool("training"):
		return []sanitize.Touch{reads}
	case reads == sanitize.ReadsSome || op.Named(overwriting) || strings.Contains(t.Name, "Optional"):
		return []sanitize.Touch{sanitize.Keeps, writes}
	}
	return []sanitize.Touch{reads, writes}
}

// Access returns the memory of the tensor. If its elements are packed or permuted in storage, the
// result covers the whole storage.
func (t *Tensor) Access(touch sanitize.Touch) sanitize.Access {
	bits := int64(t.DType.Bits())
	if bits%8 == 0 && !(t.Format != dtype.ND && len(t.Storage) > 0 && IsPrivate(t.Format)) {
		return sanitize.Access{
			Name: t.String(), Touch: touch, Addr: t.Addr + uint64(t.Offset*bits/8), Item: uint64(bits / 8), Shape: t.Shape, Strides: t.Strides,
		}
	}
	lo, hi, ok := t.span()
	if !ok {
		return sanitize.Bytes(t.String(), touch, t.Addr, 0)
	}
	first := lo * bits / 8
	return sanitize.Bytes(t.String(), touch, t.Addr+uint64(first), uint64((hi*bits+7)/8-first))
}
