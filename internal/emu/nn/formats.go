package nn

import (
	"slices"
	"sync"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// formats returns the rules on storage formats. It panics if the embedded rules are invalid, which
// a test of package abi rules out.
var formats = sync.OnceValue(func() *abi.Formats {
	f, err := abi.LoadFormats()
	if err != nil {
		panic(err)
	}
	return f
})

// checkFormats refuses tensors whose format CANN refuses for the operator, and formats with the
// channels last, which the emulator does not compute. A missing tensor is left to the operator.
func checkFormats(c *op.Call) {
	rule := formats().Of(c.Op.Name)
	if rule == nil {
		return
	}
	var first *op.Tensor
	for _, name := range rule.Params {
		t := c.Optional(name)
		if t == nil || op.IsPrivate(t.Format) {
			continue
		}
		allowed := rule.Ranks[t.Rank()]
		if allowed == nil {
			allowed = rule.Ranks[abi.AnyRank]
		}
		switch {
		case allowed != nil && !slices.Contains(allowed, t.Format.String()):
			c.Invalid("%v has a format that is not supported; with %d dimensions use one of %v", t, t.Rank(), allowed)
		case rule.Same && first != nil && t.Format != first.Format:
			c.Invalid("formats differ: %v and %v; they must be equal", first, t)
		case rule.Blind:
		case t.Format == dtype.NHWC || t.Format == dtype.NDHWC || t.Format == dtype.HWCN:
			c.Invalid("%v: the emulator does not implement this operator with the channels last", t)
		}
		if first == nil {
			first = t
		}
	}
}
