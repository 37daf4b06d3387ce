package op

import (
	"sync"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
)

// condition evaluates the conditions of rules for a call, without allocating memory. A condition
// that reads what the call does not have, such as a member beyond the end of a list, has no value.
type condition struct {
	call   *Call
	loop   [acceptance.MaxLoops]int64
	shapes [8][maxShape]int64 // of which used are in use
	used   int

	undefined error            // why C leaves the condition undefined, if it has no value for that reason
	at        *acceptance.Node // where
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

func truth(b bool) (acceptance.Value, bool) { return acceptance.Truth(b), true }

func integer[T ~int | ~int8 | ~int16 | ~int32 | ~int64](n T) (acceptance.Value, bool) {
	return acceptance.Integer(int64(n)), true
}

// whole returns the value of an integer; ok is false for a number with a fraction.
func (x *condition) whole(n *acceptance.Node) (i int64, ok bool) {
	v, ok := x.value(n)
	return v.Int, ok && !v.IsReal
}

// value returns the value of a number or condition.
func (x *condition) value(n *acceptance.Node) (acceptance.Value, bool) {
	switch n.Op {
	case acceptance.Constant:
		return n.Value, true
	case acceptance.Variable:
		return integer(x.loop[n.Index])
	case acceptance.And, acceptance.Or:
		stop := n.Op == acceptance.Or
		for _, a := range n.Args {
			v, ok := x.value(a)
			if !ok {
				return acceptance.Value{}, false
			}
			if v.True() == stop {
				return truth(stop)
			}
		}
		return truth(!stop)
	case acceptance.Not:
		v, ok := x.value(n.Args[0])
		if !ok {
			return acceptance.Value{}, false
		}
		return truth(!v.True())
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
			return acceptance.Value{}, false
		}
		return truth(IsPrivate(dtype.Format(v.Int)))
	case acceptance.Truncate:
		v, ok := x.value(n.Args[0])
		if !ok {
			return acceptance.Value{}, false
		}
		return v.Truncated()
	case acceptance.Bytes:
		t, ok := x.whole(n.Args[0])
		return acceptance.Integer(int64((dtype.Type(t).Bits() + 7) / 8)), ok
	case acceptance.SameText:
		s, ok := x.call.args[n.Args[0].Index].(string)
		if !ok {
			return acceptance.Value{}, false
		}
		return truth(s == n.Args[1].Name)
	case acceptance.Argument, acceptance.At, acceptance.Type, acceptance.Format, acceptance.Empty, acceptance.Count, acceptance.Number, acceptance.Offset:
		return x.property(n)
	}
	if len(n.Args) != 2 {
		return acceptance.Value{}, false
	}
	a, ok := x.value(n.Args[0])
	b, ok2 := x.value(n.Args[1])
	if !ok || !ok2 {
		return acceptance.Value{}, false
	}
	return x.calculate(n, a, b)
}

func (x *condition) calculate(n *acceptance.Node, a, b acceptance.Value) (acceptance.Value, bool) {
	switch n.Op {
	case acceptance.Promote:
		return integer(common(dtype.Type(a.Int), dtype.Type(b.Int)))
	case acceptance.Castable:
		return truth(storable(dtype.Type(a.Int), dtype.Type(b.Int)))
	}
	v, err := acceptance.Calculate(n.Op, a, b)
	if err != nil {
		x.undefine(n, err)
	}
	return v, err == nil
}

// undefine notes the first operation of a condition that C leaves undefined.
func (x *condition) undefine(n *acceptance.Node, err error) {
	if x.undefined == nil {
		x.undefined, x.at = err, n
	}
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

func (x *condition) choice(n *acceptance.Node) (acceptance.Value, bool) {
	c, ok := x.value(n.Args[0])
	if !ok {
		return acceptance.Value{}, false
	}
	if c.True() {
		return x.value(n.Args[1])
	}
	return x.value(n.Args[2])
}

func (x *condition) null(n *acceptance.Node) (acceptance.Value, bool) {
	if n.Op == acceptance.At {
		list, ok := x.call.args[n.Args[0].Index].([]*Tensor)
		i, ok2 := x.whole(n.Args[1])
		if !ok || !ok2 || i < 0 || i >= int64(len(list)) {
			return acceptance.Value{}, false
		}
		return truth(list[i] == nil)
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

func (x *condition) any(n *acceptance.Node) (acceptance.Value, bool) {
	lo, ok := x.whole(n.Args[1])
	hi, ok2 := x.whole(n.Args[2])
	if !ok || !ok2 || hi > lo && uint64(hi-lo) > 1<<12 {
		return acceptance.Value{}, false
	}
	for i := lo; i < hi; i++ {
		x.loop[n.Args[0].Index] = i
		v, ok := x.value(n.Args[3])
		if !ok {
			return acceptance.Value{}, false
		}
		if v.True() {
			return truth(true)
		}
	}
	return truth(false)
}

func (x *condition) in(n *acceptance.Node) (acceptance.Value, bool) {
	v, ok := x.value(n.Args[0])
	if !ok {
		return acceptance.Value{}, false
	}
	if n.Set != 0 {
		return truth(!v.IsReal && v.Int >= 0 && v.Int < 64 && n.Set>>uint(v.Int)&1 != 0)
	}
	for _, a := range n.Args[1:] {
		w, ok := x.value(a)
		if !ok {
			return acceptance.Value{}, false
		}
		if same, err := acceptance.Calculate(acceptance.Equal, v, w); err == nil && same.True() {
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
		if i, ok := x.whole(n.Args[1]); ok && i >= 0 && i < int64(len(list)) {
			return list[i]
		}
	}
	return nil
}

// property returns the value of an argument, or a property of it.
func (x *condition) property(n *acceptance.Node) (acceptance.Value, bool) {
	switch n.Op {
	case acceptance.Argument:
		switch a := x.call.args[n.Index].(type) {
		case int64:
			return integer(a)
		case float64:
			return acceptance.Real(a), true
		case bool:
			return truth(a)
		}
		v, ok := x.null(n)
		return acceptance.Truth(!v.True()), ok // a pointer as a condition
	case acceptance.At:
		return x.member(n)
	case acceptance.Count:
		return x.count(n.Args[0])
	case acceptance.Number:
		s, _ := x.call.args[n.Args[0].Index].(*Scalar)
		if s == nil || n.Args[0].Op != acceptance.Argument {
			return acceptance.Value{}, false
		}
		if n, whole := s.whole(); whole {
			return integer(n)
		}
		return acceptance.Real(s.Float64()), true
	case acceptance.Type:
		if n.Args[0].Op == acceptance.Argument {
			if s, _ := x.call.args[n.Args[0].Index].(*Scalar); s != nil {
				return integer(s.DType)
			}
		}
	}
	t := x.tensor(n.Args[0])
	if t == nil {
		return acceptance.Value{}, false
	}
	switch n.Op {
	case acceptance.Type:
		return integer(t.DType)
	case acceptance.Format:
		return integer(t.Format)
	case acceptance.Empty:
		return truth(t.Len() == 0)
	}
	return integer(t.Offset)
}

func (x *condition) member(n *acceptance.Node) (acceptance.Value, bool) {
	k, ok := x.whole(n.Args[1])
	if !ok || n.Args[0].Op != acceptance.Argument || k < 0 {
		return acceptance.Value{}, false
	}
	switch a := x.call.args[n.Args[0].Index].(type) {
	case []int64:
		if k < int64(len(a)) {
			return integer(a[k])
		}
	case []float32:
		if k < int64(len(a)) {
			return acceptance.Real(float64(a[k])), true
		}
	case []bool:
		if k < int64(len(a)) {
			return truth(a[k])
		}
	case []*Tensor:
		if k < int64(len(a)) {
			return truth(a[k] != nil)
		}
	}
	return acceptance.Value{}, false
}

func (x *condition) count(n *acceptance.Node) (acceptance.Value, bool) {
	if t := x.tensor(n); t != nil {
		return integer(t.Len())
	}
	if n.Op != acceptance.Argument {
		return acceptance.Value{}, false
	}
	if v, ok := x.null(n); ok && v.True() {
		return acceptance.Value{}, false
	}
	switch a := x.call.args[n.Index].(type) {
	case []*Tensor:
		return integer(len(a))
	case []*Scalar:
		return integer(len(a))
	case []int64:
		return integer(len(a))
	case []float32:
		return integer(len(a))
	case []bool:
		return integer(len(a))
	}
	return acceptance.Value{}, false
}
