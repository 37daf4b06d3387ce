package op

import (
	"maps"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Accesses returns the device memory that a call accesses, reads before writes. The operator table
// has which tensors are read or written; Selects, Omits and Overwrites name which operators access a
// tensor only in part.
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

// accesses is how an operator accesses its tensors where that does not follow from the table of
// CANN's functions.
type accesses uint8

const (
	selects accesses = 1 << iota
	omits
	overwrites
	exchanges
)

// Selects notes that operators of the table, the named ones or all, read or write only the part of
// a tensor that other arguments select, such as indices, lengths or masks.
func (t Table) Selects(names ...string) Table { return t.note(selects, names) }

// Omits notes that operators of the table, the named ones or all, do not write every output: other
// arguments must request it, or the data decides how much of it is written.
func (t Table) Omits(names ...string) Table { return t.note(omits, names) }

// Overwrites notes that operators of the table, the named ones or all, overwrite an in-place tensor
// without reading it.
func (t Table) Overwrites(names ...string) Table { return t.note(overwrites, names) }

// note returns the table with operators whose calls know how they access their tensors.
func (t Table) note(a accesses, names []string) Table {
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(t))
	}
	for _, name := range names {
		prepare, ok := t[name]
		if !ok {
			panic("the table has no operator " + name)
		}
		t[name] = func(c *Call) (Run, error) {
			c.accesses |= a
			return prepare(c)
		}
	}
	return t
}

// Rewrites notes that the call writes into a tensor that the table has as read, because its C function takes it as const.
func (c *Call) Rewrites(param string) { c.rewrites = param }

// Use returns the use of the named tensor. The name of a list member, such as x[2], stands for its
// list.
func (op *Operator) Use(name string) Use {
	name, _, _ = strings.Cut(name, "[")
	return op.Params[slices.IndexFunc(op.Params, func(p Param) bool { return p.Name == name })].Use
}

// Touches returns the ways in which the call's operator accesses one of its tensors.
func (c *Call) Touches(t *Tensor) []sanitize.Touch {
	reads, writes := sanitize.Reads, sanitize.Writes
	switch {
	case c.accesses&selects != 0:
		reads, writes = sanitize.ReadsSome, sanitize.WritesSome
	case c.accesses&omits != 0 || c.Has("outputMask"):
		writes = sanitize.WritesSome
	}
	switch use := c.Op.Use(t.Name); {
	case use == Read && c.follow != nil && t.Name == c.rewrites:
		return []sanitize.Touch{sanitize.ReadsSome, sanitize.WritesSome}
	case use == Written:
		return []sanitize.Touch{writes}
	case use == Read || strings.HasPrefix(t.Name, "running") && c.Has("training") && !c.Bool("training"):
		return []sanitize.Touch{reads}
	case reads == sanitize.ReadsSome || c.accesses&overwrites != 0 || strings.Contains(t.Name, "Optional"):
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
