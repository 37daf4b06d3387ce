package nn

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

// accesses is the device memory that a call touches: what it reads before what it writes.
// The C declaration says which is which; the lists below know where it does not, and which
// operators leave parts of a tensor alone.
func (c *Call) accesses(workspace uint64) []rt.Access {
	var reads, writes []rt.Access
	for _, t := range c.tensors {
		how := c.op.touches(t)
		for _, touch := range how {
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
	"AdvanceStep", "Attention", "Cache", "CausalConv", "Combine", "Conv1d", "Ctc", "DeltaRule", "Embedding", "Gather", "Gmm", "Grouped", "GroupQuant",
	"Index", "Kda", "Kvcache", "Lstm", "Gru", "Masked", "Mla", "Moe", "NLLLoss", "Nll", "Prolog", "Put", "RRelu", "Recurrent", "Rope", "Scatter", "SilentCheck",
	"Sampl", "Search", "Segment", "Slice", "Sparse", "Strided", "Swiglu", "Take", "TopKTopP", "Unpool", "Upsample", "Where",
}

// overwriting are words in the names of operators that overwrite what is in place without
// reading it.
var overwriting = []string{"Bernoulli", "Copy", "Fill", "Normal", "One", "Random", "Uniform", "Zero", "TransMatmulWeight"}

// undeclared are the names of outputs that some operators declare like inputs.
var undeclared = []string{
	"amax", "dst_out", "dx", "gradIn", "gradInput", "grad_input", "grad_scale", "grad_shift", "outScaleOptional", "output", "result", "topKOutput",
	"x_grad", "y", "z",
}

// writes reports whether a parameter is an output.
func (op *operator) writes(p param) bool {
	switch {
	case p.name == "gradOut": // the gradient of the output
		return false
	case p.name == "noise": // rectifiers leave there what they drew
		return true
	case op.name == "AdvanceStep":
		return slices.Contains([]string{"inputTokens", "inputPositions", "seqLens", "slotMapping"}, p.name)
	case op.name == "BatchNormElemt":
		return p.name == "output"
	case p.out || slices.ContainsFunc(op.params, func(p param) bool { return p.out && p.name != "gradOut" }):
		return p.out
	case p.name == "y": // in some it is the second factor
		return !slices.ContainsFunc(op.params, func(p param) bool { return p.name == "z" })
	}
	return slices.Contains(undeclared, p.name)
}

func (op *operator) named(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(op.name, w) })
}

// touches says what the operator does with a tensor of a call.
func (op *operator) touches(t *Tensor) []rt.Touch {
	name, _, _ := strings.Cut(t.name, "[")
	read, write := rt.Reads, rt.Writes
	if op.named(selective) {
		read, write = rt.ReadsSome, rt.WritesSome
	}
	i := slices.IndexFunc(op.params, func(p param) bool { return p.name == name })
	switch {
	case op.writes(op.params[i]):
		return []rt.Touch{write}
	case !strings.HasSuffix(name, "Ref") && (i > 0 || !strings.HasPrefix(op.name, "Inplace") && !strings.HasSuffix(op.name, "Inplace")):
		return []rt.Touch{read}
	case read == rt.ReadsSome || op.named(overwriting) || strings.Contains(name, "Optional"):
		return []rt.Touch{rt.Keeps, write}
	}
	return []rt.Touch{read, write}
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
