package op

import (
	"math"
	"sync"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
)

// condition evaluates the conditions of rules for a call, without allocating memory. A condition
// that reads what the call does not have, such as a member beyond the end of a list, has no value.
type condition struct {
	call   *Call
	loop   [acceptance.MaxLoops]float64
	shapes [8][maxShape]int64 // of which used are in use
	used   int
}

// conditions are evaluators that no call uses at the moment.
var conditions = sync.Pool{New: func() any { return new(condition) }}

// buffer returns room for a shape. It is free again when the caller sets used back. nil means that
// the condition nests too deeply.
func (x *condition) buffer() *[maxShape]int64 {
	if x.used == len(x.shapes) {
		return nil
	}
	x.used++
	return &x.shapes[x.used-1]
}

// maxShape is the number of dimensions that shapes in conditions may have.
const maxShape = 32

func truth(b bool) (float64, bool) {
	if b {
		return 1, true
	}
	return 0, true
}

// value returns the value of a number or condition.
func (x *condition) value(n *acceptance.Node) (float64, bool) {
	switch n.Op {
	case acceptance.Constant:
		return n.Value, true
	case acceptance.Variable:
		return x.loop[n.Index], true
	case acceptance.And, acceptance.Or:
		stop := n.Op == acceptance.Or
		for _, a := range n.Args {
			v, ok := x.value(a)
			if !ok {
				return 0, false
			}
			if (v != 0) == stop {
				return truth(stop)
			}
		}
		return truth(!stop)
	case acceptance.Not:
		v, ok := x.value(n.Args[0])
		if !ok {
			return 0, false
		}
		return truth(v == 0)
	case acceptance.If:
		return x.choice(n)
	case acceptance.Null:
		return x.null(n.Args[0])
	case acceptance.Any:
		return x.any(n)
	case acceptance.In:
		return x.in(n)
	case acceptance.Same, acceptance.Broadcasts:
		return x.compare(n)
	case acceptance.Rank, acceptance.Dim, acceptance.Len:
		return x.measure(n)
	case acceptance.Product:
		return x.product(n)
	case acceptance.Promoted:
		return x.promoted(n)
	case acceptance.Private:
		v, ok := x.value(n.Args[0])
		if !ok {
			return 0, false
		}
		return truth(IsPrivate(dtype.Format(v)))
	case acceptance.Bytes:
		v, ok := x.value(n.Args[0])
		return float64((dtype.Type(v).Bits() + 7) / 8), ok
	case acceptance.SameText:
		s, ok := x.call.args[n.Args[0].Index].(string)
		if !ok {
			return 0, false
		}
		return truth(s == n.Args[1].Name)
	case acceptance.Argument, acceptance.At, acceptance.Type, acceptance.Format, acceptance.Empty, acceptance.Count, acceptance.Number, acceptance.Offset:
		return x.property(n)
	}
	if len(n.Args) != 2 {
		return 0, false
	}
	a, ok := x.value(n.Args[0])
	b, ok2 := x.value(n.Args[1])
	if !ok || !ok2 {
		return 0, false
	}
	return calculate(n.Op, a, b)
}

func calculate(op acceptance.Op, a, b float64) (float64, bool) {
	switch op {
	case acceptance.Equal:
		return truth(a == b)
	case acceptance.Unequal:
		return truth(a != b)
	case acceptance.Less:
		return truth(a < b)
	case acceptance.AtMost:
		return truth(a <= b)
	case acceptance.Greater:
		return truth(a > b)
	case acceptance.AtLeast:
		return truth(a >= b)
	case acceptance.Add:
		return a + b, true
	case acceptance.Subtract:
		return a - b, true
	case acceptance.Multiply:
		return a * b, true
	case acceptance.Divide:
		return math.Trunc(a / b), b != 0
	case acceptance.Quotient:
		return a / b, true
	case acceptance.Remainder:
		return math.Mod(a, b), b != 0
	case acceptance.Promote:
		return float64(common(dtype.Type(a), dtype.Type(b))), true
	case acceptance.Castable:
		return truth(storable(dtype.Type(a), dtype.Type(b)))
	}
	return 0, false
}

// common is CANN's promotion. The wider unsigned integers promote with nothing but themselves and
// complex types.
func common(a, b dtype.Type) dtype.Type {
	if a == b {
		return a
	}
	wide := func(d dtype.Type) bool { return d == dtype.Uint16 || d == dtype.Uint32 || d == dtype.Uint64 }
	for _, d := range [2]dtype.Type{a, b} {
		if !(d.IsFloat() || d.IsInteger() || d.IsComplex() || d == dtype.Bool) || d.Bits() < 8 || d > dtype.Complex32 {
			return dtype.Undefined
		}
	}
	if wide(a) && !b.IsComplex() || wide(b) && !a.IsComplex() || wide(a) && b == dtype.Complex32 || wide(b) && a == dtype.Complex32 {
		return dtype.Undefined
	}
	return Promote(a, b)
}

// storable is CANN's rule for storing a result of type from as type to.
func storable(from, to dtype.Type) bool {
	return !(from.IsComplex() && !to.IsComplex() || from.IsFloat() && to.IsInteger() || from != dtype.Bool && to == dtype.Bool)
}

func (x *condition) choice(n *acceptance.Node) (float64, bool) {
	c, ok := x.value(n.Args[0])
	if !ok {
		return 0, false
	}
	if c != 0 {
		return x.value(n.Args[1])
	}
	return x.value(n.Args[2])
}

func (x *condition) null(n *acceptance.Node) (float64, bool) {
	if n.Op == acceptance.At {
		list, ok := x.call.args[n.Args[0].Index].([]*Tensor)
		i, ok2 := x.value(n.Args[1])
		if !ok || !ok2 || i < 0 || int(i) >= len(list) {
			return 0, false
		}
		return truth(list[int(i)] == nil)
	}
	switch a := x.call.args[n.Index].(type) {
	case nil:
		return truth(true)
	case *Tensor:
		return truth(a == nil)
	case *Scalar:
		return truth(a == nil)
	case []*Tensor:
		return truth(a == nil)
	case []*Scalar:
		return truth(a == nil)
	case []int64:
		return truth(a == nil)
	case []float32:
		return truth(a == nil)
	case []bool:
		return truth(a == nil)
	}
	return truth(false)
}

func (x *condition) any(n *acceptance.Node) (float64, bool) {
	lo, ok := x.value(n.Args[1])
	hi, ok2 := x.value(n.Args[2])
	if !ok || !ok2 || hi-lo > 1<<12 {
		return 0, false
	}
	for i := lo; i < hi; i++ {
		x.loop[n.Args[0].Index] = i
		v, ok := x.value(n.Args[3])
		if !ok {
			return 0, false
		}
		if v != 0 {
			return truth(true)
		}
	}
	return truth(false)
}

func (x *condition) in(n *acceptance.Node) (float64, bool) {
	v, ok := x.value(n.Args[0])
	if !ok {
		return 0, false
	}
	if n.Set != 0 {
		return truth(v >= 0 && v < 64 && n.Set>>uint(v)&1 != 0)
	}
	for _, a := range n.Args[1:] {
		w, ok := x.value(a)
		if !ok {
			return 0, false
		}
		if v == w {
			return truth(true)
		}
	}
	return truth(false)
}

// tensor returns a tensor argument or a member of a list, or nil.
func (x *condition) tensor(n *acceptance.Node) *Tensor {
	switch n.Op {
	case acceptance.Argument:
		t, _ := x.call.args[n.Index].(*Tensor)
		return t
	case acceptance.At:
		if n.Args[0].Op != acceptance.Argument {
			return nil
		}
		list, _ := x.call.args[n.Args[0].Index].([]*Tensor)
		if i, ok := x.value(n.Args[1]); ok && i >= 0 && int(i) < len(list) {
			return list[int(i)]
		}
	}
	return nil
}

// property returns the value of an argument, or a property of it.
func (x *condition) property(n *acceptance.Node) (float64, bool) {
	switch n.Op {
	case acceptance.Argument:
		switch a := x.call.args[n.Index].(type) {
		case int64:
			return float64(a), true
		case float64:
			return a, true
		case bool:
			return truth(a)
		}
		v, ok := x.null(n)
		return 1 - v, ok // a pointer as a condition
	case acceptance.At:
		return x.member(n)
	case acceptance.Count:
		return x.count(n.Args[0])
	case acceptance.Number:
		s, _ := x.call.args[n.Args[0].Index].(*Scalar)
		if s == nil || n.Args[0].Op != acceptance.Argument {
			return 0, false
		}
		return s.Float64(), true
	case acceptance.Type:
		if n.Args[0].Op == acceptance.Argument {
			if s, _ := x.call.args[n.Args[0].Index].(*Scalar); s != nil {
				return float64(s.DType), true
			}
		}
	}
	t := x.tensor(n.Args[0])
	if t == nil {
		return 0, false
	}
	switch n.Op {
	case acceptance.Type:
		return float64(t.DType), true
	case acceptance.Format:
		return float64(t.Format), true
	case acceptance.Empty:
		return truth(t.Len() == 0)
	}
	return float64(t.Offset), true
}

func (x *condition) member(n *acceptance.Node) (float64, bool) {
	i, ok := x.value(n.Args[1])
	if !ok || n.Args[0].Op != acceptance.Argument || i < 0 {
		return 0, false
	}
	k := int(i)
	switch a := x.call.args[n.Args[0].Index].(type) {
	case []int64:
		if k < len(a) {
			return float64(a[k]), true
		}
	case []float32:
		if k < len(a) {
			return float64(a[k]), true
		}
	case []bool:
		if k < len(a) {
			return truth(a[k])
		}
	case []*Tensor:
		if k < len(a) {
			return truth(a[k] != nil)
		}
	}
	return 0, false
}

func (x *condition) count(n *acceptance.Node) (float64, bool) {
	if t := x.tensor(n); t != nil {
		return float64(t.Len()), true
	}
	if n.Op != acceptance.Argument {
		return 0, false
	}
	if v, ok := x.null(n); ok && v != 0 {
		return 0, false
	}
	switch a := x.call.args[n.Index].(type) {
	case []*Tensor:
		return float64(len(a)), true
	case []*Scalar:
		return float64(len(a)), true
	case []int64:
		return float64(len(a)), true
	case []float32:
		return float64(len(a)), true
	case []bool:
		return float64(len(a)), true
	}
	return 0, false
}
