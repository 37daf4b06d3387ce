package nn

import (
	"fmt"
	"strings"
	"sync"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// aicore returns the kernels that leave the AI Core for some dtypes. It panics if the embedded
// list is invalid, which a test of package abi rules out.
var aicore = sync.OnceValue(func() *abi.AICore {
	a, err := abi.LoadAICore()
	if err != nil {
		panic(err)
	}
	return a
})

// notes returns what the trace shows about a call: "types" has the dtype of each tensor, of the first in
// a list; "aicpu" names the kernel that a 910B would run on the AI CPU; "expanded" has the tensors with
// stride 0 that CANN copies to a dense tensor before every call.
func notes(c *op.Call) map[string]any {
	n := map[string]any{}
	if types := tensorTypes(c); types != "" {
		n["types"] = types
	}
	if why := leavesAICore(c); why != "" {
		n["aicpu"] = why
	}
	var expanded []string
	for _, t := range c.AllTensors() {
		if bytes, repeats := expandedSize(t); repeats && !broadcasts(c) {
			expanded = append(expanded, fmt.Sprintf("%v: %d bytes", t, bytes))
		}
	}
	if expanded != nil {
		n["expanded"] = expanded
	}
	if len(n) == 0 {
		return nil
	}
	return n
}

// tensorTypes returns the tensors that a call reads as name:dtype, separated by spaces.
func tensorTypes(c *op.Call) string {
	var all []string
	for _, t := range c.AllTensors() {
		name, member, list := strings.Cut(t.Name, "[")
		if c.Op.Use(name) != op.Written && (!list || member == "0]") {
			all = append(all, name+":"+t.DType.String())
		}
	}
	return strings.Join(all, " ")
}

// expandedSize returns the size of a tensor that repeats elements by stride 0.
func expandedSize(t *op.Tensor) (bytes int64, repeats bool) {
	for i, d := range t.Shape {
		repeats = repeats || t.Strides[i] == 0 && d > 1
	}
	return t.Len() * int64(t.DType.Bits()) / 8, repeats
}

// broadcasts reports whether the operator writes the elements of an expanded tensor itself, as copies
// do.
func broadcasts(c *op.Call) bool { return c.Has("src") }

// leavesAICore returns the kernel of a call that runs on the AI CPU with its dtype, or "".
func leavesAICore(c *op.Call) string {
	t, d := deciding(c)
	if t == nil {
		return ""
	}
	from, to := castTypes(c)
	at := abi.Computation{DType: d.String(), From: from.String(), To: to.String(), Elements: t.Len(), Row: -1}
	if t.Rank() > 0 {
		at.Row = t.Dim(-1)
	}
	return aicore().Leaves(c.Op.Name, at)
}

// deciding returns the first tensor of a call, and the dtype in which it computes.
func deciding(c *op.Call) (*op.Tensor, dtype.Type) {
	all := c.AllTensors()
	if len(all) == 0 {
		return nil, dtype.Undefined
	}
	t, d := all[0], all[0].DType
	switch {
	case c.Op.Name == "Cumsum": // which casts self to dtype first
		d = c.Tensor("out").DType
	case c.Has("other") && c.Class("other") == op.TensorClass:
		d = op.Promote(d, c.Tensor("other").DType)
	}
	return t, d
}

// castTypes returns the dtypes from which and to which a call converts.
func castTypes(c *op.Call) (from, to dtype.Type) {
	all := c.AllTensors()
	from, to = all[0].DType, all[len(all)-1].DType
	if c.Op.Name == "InplaceCopy" { // it names its target first
		from, to = to, from
	}
	return from, to
}
