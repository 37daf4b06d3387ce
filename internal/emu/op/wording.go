package op

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
)

// wording puts a condition of CANN's rules into words: what the arguments have, and what they must have.
// It evaluates the condition to name the clause that decides, and manages without values where there are none.
type wording struct{ x condition }

// refusal returns the sentence for a condition that holds and refuses the call.
func (w *wording) refusal(n *acceptance.Node) string {
	var facts []string
	for _, f := range w.facts(n, true) {
		if f != "" && !slices.Contains(facts, f) {
			facts = append(facts, f)
		}
	}
	demand := w.demand(n, false)
	switch len(facts) {
	case 0:
		return demand
	case 1:
		subject, _, _ := strings.Cut(facts[0], " is ")
		if rest, ok := strings.CutPrefix(demand, subject+" must"); ok {
			demand = "it must" + rest
		}
	}
	return strings.Join(facts, " and ") + "; " + demand
}

// clause returns the part of a condition that makes it true or false.
func (w *wording) clause(n *acceptance.Node, is bool) []*acceptance.Node {
	decides := is == (n.Op == acceptance.Or) // one clause is enough
	if !decides {
		return n.Args
	}
	for _, a := range n.Args {
		if v, ok := w.x.value(a); ok && v.True() == is {
			return []*acceptance.Node{a}
		}
	}
	return n.Args
}

// each joins the phrases of some conditions.
func each(all []*acceptance.Node, by string, phrase func(*acceptance.Node) string) string {
	var parts []string
	for _, a := range all {
		if p := phrase(a); p != "" && !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, by)
}

// facts returns what the arguments have, given that a condition is true or false.
func (w *wording) facts(n *acceptance.Node, is bool) (all []string) {
	of := func(nodes []*acceptance.Node, say func(*acceptance.Node) string) []string {
		for _, a := range nodes {
			all = append(all, say(a))
		}
		return all
	}
	switch n.Op {
	case acceptance.Not:
		return w.facts(n.Args[0], !is)
	case acceptance.And, acceptance.Or:
		for _, a := range w.clause(n, is) {
			all = append(all, w.facts(a, is)...)
		}
		return all
	case acceptance.Any:
		w.find(n, is)
		return w.facts(n.Args[3], is)
	case acceptance.If:
		return w.facts(w.branch(n), is)
	case acceptance.Equal, acceptance.Unequal, acceptance.Less, acceptance.AtMost, acceptance.Greater, acceptance.AtLeast, acceptance.Castable:
		return of(n.Args, w.has)
	case acceptance.In, acceptance.Private:
		return of(n.Args[:1], w.has)
	case acceptance.Same, acceptance.Broadcasts:
		return of(n.Args, w.shaped)
	case acceptance.SameText:
		if s, ok := w.argument(n.Args[0]).(string); ok {
			return []string{fmt.Sprintf("%s is %q", w.quantity(n.Args[0]), s)}
		}
		return []string{w.quantity(n.Args[0]) + " is null"}
	}
	return []string{w.state(n, is)}
}

// state returns that a simple condition is true or false.
func (w *wording) state(n *acceptance.Node, is bool) string {
	choose := func(yes, no string) string {
		if is {
			return yes
		}
		return no
	}
	switch n.Op {
	case acceptance.Constant:
		return choose("this holds for every call", "this holds for no call")
	case acceptance.Null:
		return w.quantity(n.Args[0]) + choose(" is null", " is given")
	case acceptance.Empty:
		return w.quantity(n.Args[0]) + choose(" has no elements", " has elements")
	case acceptance.Argument:
		switch w.argument(n).(type) {
		case bool:
			return n.Name + choose(" is true", " is false")
		case int64, float64:
			return w.has(n)
		}
		return n.Name + choose(" is given", " is null")
	case acceptance.At:
		return w.quantity(n) + choose(" is given, or not 0", " is null or 0")
	}
	return w.quantity(n) + choose(" is not 0", " is 0")
}

// mirrored maps comparisons to those with exchanged sides.
var mirrored = map[acceptance.Op]acceptance.Op{
	acceptance.Equal: acceptance.Equal, acceptance.Unequal: acceptance.Unequal, acceptance.Less: acceptance.Greater, acceptance.Greater: acceptance.Less,
	acceptance.AtMost: acceptance.AtLeast, acceptance.AtLeast: acceptance.AtMost,
}

// demand returns what must be so that a condition becomes true or false.
func (w *wording) demand(n *acceptance.Node, want bool) string {
	choose := func(yes, no string) string {
		if want {
			return yes
		}
		return no
	}
	if op, ok := mirrored[n.Op]; ok && n.Args[0].Op == acceptance.Constant {
		n = &acceptance.Node{Op: op, Args: []*acceptance.Node{n.Args[1], n.Args[0]}}
	}
	pair := func(yes, no string) string {
		return w.quantity(n.Args[0]) + choose(yes, no) + w.valued(n.Args[1])
	}
	switch n.Op {
	case acceptance.Not:
		return w.demand(n.Args[0], !want)
	case acceptance.And, acceptance.Or:
		if want == (n.Op == acceptance.Or) { // one clause is enough: of a conjunction that must not hold the last, which the others lead to
			if n.Op == acceptance.And {
				return w.demand(n.Args[len(n.Args)-1], want)
			}
			return each(n.Args, ", or ", func(a *acceptance.Node) string { return w.demand(a, want) })
		}
		return each(w.clause(n, !want), ", and ", func(a *acceptance.Node) string { return w.demand(a, want) })
	case acceptance.Any:
		w.find(n, !want)
		return w.demand(n.Args[3], want)
	case acceptance.If:
		return w.demand(w.branch(n), want)
	case acceptance.Equal:
		return pair(" must be ", " must not be ")
	case acceptance.Unequal:
		return pair(" must not be ", " must be ")
	case acceptance.Less:
		return pair(" must be less than ", " must be at least ")
	case acceptance.AtMost:
		return pair(" must be at most ", " must be more than ")
	case acceptance.Greater:
		return pair(" must be more than ", " must be at most ")
	case acceptance.AtLeast:
		return pair(" must be at least ", " must be less than ")
	case acceptance.In:
		return w.quantity(n.Args[0]) + choose(" must be one of ", " must be none of ") + "[" + each(n.Args[1:], " ", w.quantity) + "]"
	case acceptance.Same:
		return w.quantity(n.Args[0]) + choose(" must be ", " must differ from ") + w.quantity(n.Args[1])
	case acceptance.Broadcasts:
		return each(n.Args, " and ", w.quantity) + choose(" must broadcast: sizes are equal, or one of them is 1", " must not broadcast")
	case acceptance.Castable:
		return w.quantity(n.Args[0]) + choose(" must be storable as ", " must not be storable as ") + w.quantity(n.Args[1])
	case acceptance.SameText:
		return w.quantity(n.Args[0]) + choose(" must be ", " must not be ") + strconv.Quote(n.Args[1].Name)
	case acceptance.Private:
		return w.quantity(n.Args[0]) + choose(" must be a private one, such as FRACTAL_NZ; cast with aclnnNpuFormatCast", " must not be a private one; cast to ND with aclnnNpuFormatCast")
	case acceptance.Constant:
		return "no call is taken; use another operator"
	case acceptance.Null:
		return w.quantity(n.Args[0]) + choose(" must be null", " must be given")
	case acceptance.Empty:
		return w.quantity(n.Args[0]) + choose(" must have no elements", " must have elements")
	case acceptance.Argument:
		switch w.argument(n).(type) {
		case bool:
			return n.Name + choose(" must be true", " must be false")
		case int64, float64:
			return n.Name + choose(" must not be 0", " must be 0")
		}
		return n.Name + choose(" must be given", " must be null")
	}
	return w.quantity(n) + choose(" must not be 0", " must be 0")
}

// find sets the loop variable of a condition about all members to one for which its body is true or false as stated.
func (w *wording) find(n *acceptance.Node, is bool) {
	lo, ok := w.x.whole(n.Args[1])
	hi, ok2 := w.x.whole(n.Args[2])
	for i := lo; ok && ok2 && i < min(hi, lo+1<<12); i++ {
		w.x.loop[n.Args[0].Index] = i
		if v, ok := w.x.value(n.Args[3]); ok && v.True() == is {
			return
		}
	}
}

// branch returns the branch of a choice that applies. If that is unknown, it prefers the branch that says more.
func (w *wording) branch(n *acceptance.Node) *acceptance.Node {
	c, ok := w.x.value(n.Args[0])
	if ok && !c.True() || !ok && n.Args[1].Op == acceptance.Constant {
		return n.Args[2]
	}
	return n.Args[1]
}

func (w *wording) argument(n *acceptance.Node) any {
	if n.Op != acceptance.Argument {
		return nil
	}
	return w.x.call.args[n.Index]
}

// has returns a quantity with its value, or "" for one that has none or that is a constant.
func (w *wording) has(n *acceptance.Node) string {
	q := w.quantity(n)
	if v := w.value(n); v != "" && v != q {
		return q + " is " + v
	}
	return ""
}

// valued returns a quantity, with its value in parentheses.
func (w *wording) valued(n *acceptance.Node) string {
	q := w.quantity(n)
	if v := w.value(n); v != "" && v != q {
		return q + " (" + v + ")"
	}
	return q
}

// shaped returns a shape with its sizes, or "" for one that stands in the rule.
func (w *wording) shaped(n *acceptance.Node) string {
	used := w.x.used
	defer func() { w.x.used = used }()
	q := w.quantity(n)
	if s, ok := w.x.shape(n, w.x.buffer()); ok && !strings.HasPrefix(q, Dims(s)) {
		return q + " is " + Dims(s)
	}
	return ""
}

// value returns the value of a quantity, or "" if it has none.
func (w *wording) value(n *acceptance.Node) string {
	v, ok := w.x.value(n)
	switch {
	case !ok:
		return ""
	case n.Op == acceptance.Constant:
		return w.constant(n)
	case v.IsReal:
		return strconv.FormatFloat(v.Real, 'g', -1, 64)
	}
	switch n.Op {
	case acceptance.Type, acceptance.Promote, acceptance.Promoted:
		return dtype.Type(v.Int).String()
	case acceptance.Format:
		return dtype.Format(v.Int).String()
	}
	return strconv.FormatInt(v.Int, 10)
}

// quantity names a number, a shape or an argument.
func (w *wording) quantity(n *acceptance.Node) string {
	of := func(i int) string { return w.quantity(n.Args[i]) }
	infix := func(by string) string { return of(0) + " " + by + " " + of(1) }
	switch n.Op {
	case acceptance.Constant:
		return w.constant(n)
	case acceptance.Argument, acceptance.Text:
		return n.Name
	case acceptance.Variable:
		return strconv.FormatInt(w.x.loop[n.Index], 10)
	case acceptance.If:
		b := w.branch(n)
		if b.Op == acceptance.Constant {
			return w.constant(b) + from(n)
		}
		return w.quantity(b)
	case acceptance.Add:
		return infix("plus")
	case acceptance.Subtract:
		return infix("minus")
	case acceptance.Multiply:
		return infix("times")
	case acceptance.Divide, acceptance.Quotient:
		return infix("divided by")
	case acceptance.Remainder:
		return "the remainder of " + infix("by")
	case acceptance.Truncate:
		return "the integer part of " + of(0)
	case acceptance.Type:
		return "the element type of " + of(0)
	case acceptance.Format:
		return "the format of " + of(0)
	case acceptance.Count, acceptance.Len:
		return "the number of elements of " + of(0)
	case acceptance.At:
		return of(0) + "[" + of(1) + "]"
	case acceptance.Number:
		return "the value of " + of(0)
	case acceptance.Offset:
		return "the offset of " + of(0)
	case acceptance.View:
		return "the shape of " + of(0)
	case acceptance.Storage:
		return "the storage shape of " + of(0)
	case acceptance.Rank:
		return "the number of dimensions of " + w.owner(n.Args[0])
	case acceptance.Dim:
		if of(1) == "-1" {
			return "the last dimension of " + w.owner(n.Args[0])
		}
		return "dimension " + of(1) + " of " + w.owner(n.Args[0])
	case acceptance.Product:
		return "the product of " + w.owner(n.Args[0]) + " from dimension " + of(1) + " to before " + of(2)
	case acceptance.Broadcast:
		return "the common shape of " + w.owner(n.Args[0]) + " and " + w.owner(n.Args[1])
	case acceptance.Shape, acceptance.Append, acceptance.Set:
		return w.made(n)
	case acceptance.Promote:
		return "the common element type of " + w.typed(n.Args[0]) + " and " + w.typed(n.Args[1])
	case acceptance.Promoted:
		return "the common element type of the first " + of(1) + " members of " + of(0)
	case acceptance.Bytes:
		return "the number of bytes of " + of(0)
	}
	// a condition as a number
	switch n.Op {
	case acceptance.Null, acceptance.Empty:
		return "whether " + w.state(n, true)
	}
	return "whether " + strings.Replace(w.demand(n, true), " must be ", " is ", 1)
}

// owner names the tensor that a shape belongs to.
func (w *wording) owner(n *acceptance.Node) string {
	switch n.Op {
	case acceptance.View:
		return w.quantity(n.Args[0])
	case acceptance.Storage:
		return "the storage of " + w.quantity(n.Args[0])
	case acceptance.If:
		return w.owner(w.branch(n))
	}
	return w.quantity(n)
}

// typed names the owner of an element type.
func (w *wording) typed(n *acceptance.Node) string {
	if n.Op == acceptance.Type {
		return w.quantity(n.Args[0])
	}
	return w.quantity(n)
}

// made names a shape that the rule composes.
func (w *wording) made(n *acceptance.Node) string {
	used := w.x.used
	defer func() { w.x.used = used }()
	if s, ok := w.x.shape(n, w.x.buffer()); ok {
		return Dims(s) + from(n)
	}
	switch n.Op {
	case acceptance.Append:
		return w.quantity(n.Args[0]) + " with " + w.quantity(n.Args[1]) + " behind it"
	case acceptance.Set:
		return w.quantity(n.Args[0]) + " with " + w.quantity(n.Args[2]) + " in dimension " + w.quantity(n.Args[1])
	}
	var sizes []string
	for _, a := range n.Args {
		sizes = append(sizes, w.quantity(a))
	}
	return "[" + strings.Join(sizes, ",") + "]"
}

// from names the arguments that a value is made from, in parentheses.
func from(n *acceptance.Node) string {
	var names []string
	var collect func(n *acceptance.Node)
	collect = func(n *acceptance.Node) {
		if n.Op == acceptance.Argument && !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
		for _, a := range n.Args {
			collect(a)
		}
	}
	if collect(n); len(names) == 0 {
		return ""
	}
	return " (from " + strings.Join(names, ", ") + ")"
}

// constant returns the name of an element type, or the number or format as it stands in the rule.
func (w *wording) constant(n *acceptance.Node) string {
	if strings.ContainsAny(n.Name[:1], "-.0123456789") {
		return n.Name
	}
	if n.Name == strings.ToUpper(n.Name) {
		return n.Name // a format
	}
	return dtype.Type(n.Value.Int).String()
}
