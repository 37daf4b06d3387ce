package op

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
)

// measure returns a property of a shape.
func (x *condition) measure(n *acceptance.Node) (acceptance.Value, bool) {
	if n.Op == acceptance.Len {
		if t := x.tensor(n.Args[0]); t != nil {
			return integer(t.Len())
		}
	}
	used := x.used
	s, ok := x.shape(n.Args[0], x.buffer())
	x.used = used
	if !ok {
		return acceptance.Value{}, false
	}
	switch n.Op {
	case acceptance.Rank:
		return integer(len(s))
	case acceptance.Len:
		return integer(Count(s))
	}
	x.used = used + 1 // s may be in the buffer
	i, ok := x.whole(n.Args[1])
	x.used = used
	if i < 0 {
		i += int64(len(s))
	}
	if !ok || i < 0 || i >= int64(len(s)) {
		return acceptance.Value{}, false
	}
	return integer(s[i])
}

// product multiplies sizes of a shape or members of an array.
func (x *condition) product(n *acceptance.Node) (acceptance.Value, bool) {
	used := x.used
	defer func() { x.used = used }()
	var s []int64
	if a := n.Args[0]; a.Op == acceptance.Argument {
		s, _ = x.call.args[a.Index].([]int64)
	} else {
		var ok bool
		if s, ok = x.shape(a, x.buffer()); !ok {
			return acceptance.Value{}, false
		}
	}
	lo, ok := x.whole(n.Args[1])
	hi, ok2 := x.whole(n.Args[2])
	if !ok || !ok2 || lo < 0 || hi > int64(len(s)) {
		return acceptance.Value{}, false
	}
	p := acceptance.Integer(1)
	for i := lo; i < hi; i++ {
		var err error
		if p, err = acceptance.Calculate(acceptance.Multiply, p, acceptance.Integer(s[i])); err != nil {
			x.undefine(n, err)
			return acceptance.Value{}, false
		}
	}
	return p, true
}

// promoted returns the common element type of the first members of a list.
func (x *condition) promoted(n *acceptance.Node) (acceptance.Value, bool) {
	if n.Args[0].Op != acceptance.Argument {
		return acceptance.Value{}, false
	}
	list, _ := x.call.args[n.Args[0].Index].([]*Tensor)
	k, ok := x.whole(n.Args[1])
	if !ok || k < 1 || k > int64(len(list)) || slices.Contains(list[:k], nil) {
		return acceptance.Value{}, false
	}
	d := list[0].DType
	for _, t := range list[1:k] {
		d = common(t.DType, d)
	}
	return integer(d)
}

// compare compares two shapes.
func (x *condition) compare(n *acceptance.Node) (acceptance.Value, bool) {
	used := x.used
	defer func() { x.used = used }()
	a, ok := x.shape(n.Args[0], x.buffer())
	b, ok2 := x.shape(n.Args[1], x.buffer())
	if !ok || !ok2 {
		return acceptance.Value{}, false
	}
	if n.Op == acceptance.Same {
		return truth(slices.Equal(a, b))
	}
	out := x.buffer()
	if out == nil {
		return acceptance.Value{}, false
	}
	_, ok = broadcastShape(a, b, out)
	return truth(ok)
}

// shape returns a shape, which may be in buf.
func (x *condition) shape(n *acceptance.Node, buf *[maxShape]int64) ([]int64, bool) {
	if buf == nil {
		return nil, false
	}
	used := x.used
	defer func() { x.used = used }()
	switch n.Op {
	case acceptance.View, acceptance.Storage:
		t := x.tensor(n.Args[0])
		if t == nil {
			return nil, false
		}
		if n.Op == acceptance.View {
			return t.Shape, true
		}
		return t.Storage, true
	case acceptance.If:
		c, ok := x.value(n.Args[0])
		if !ok {
			return nil, false
		}
		if c.True() {
			return x.shape(n.Args[1], buf)
		}
		return x.shape(n.Args[2], buf)
	case acceptance.Broadcast:
		a, ok := x.shape(n.Args[0], x.buffer())
		b, ok2 := x.shape(n.Args[1], x.buffer())
		if !ok || !ok2 {
			return nil, false
		}
		return broadcastShape(a, b, buf)
	case acceptance.Shape:
		return x.list(n.Args, buf, 0)
	case acceptance.Append, acceptance.Set:
		s, ok := x.shape(n.Args[0], x.buffer())
		if !ok || len(s) >= maxShape {
			return nil, false
		}
		k := copy(buf[:], s)
		if n.Op == acceptance.Append {
			return x.list(n.Args[1:], buf, k)
		}
		i, ok := x.whole(n.Args[1])
		v, ok2 := x.whole(n.Args[2])
		if !ok || !ok2 || i < 0 || i >= int64(k) {
			return nil, false
		}
		buf[i] = v
		return buf[:k], true
	}
	return nil, false
}

// list appends numbers to the first k dimensions in buf.
func (x *condition) list(args []*acceptance.Node, buf *[maxShape]int64, k int) ([]int64, bool) {
	for _, a := range args {
		v, ok := x.whole(a)
		if !ok || k == maxShape {
			return nil, false
		}
		buf[k] = v
		k++
	}
	return buf[:k], true
}

// broadcastShape returns the common shape of two in buf.
func broadcastShape(a, b []int64, buf *[maxShape]int64) ([]int64, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a) > maxShape {
		return nil, false
	}
	n := copy(buf[:], a)
	for i := range b {
		d, at := b[len(b)-1-i], n-1-i
		switch {
		case buf[at] == d:
		case buf[at] == 1:
			buf[at] = d
		case d != 1:
			return nil, false
		}
	}
	return buf[:n], true
}
