package acceptance

import (
	"maps"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
)

// Names returns the operators of the tables, sorted.
func Names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(index())), maps.Keys(lacking()))
	slices.Sort(names)
	return slices.Compact(names)
}

// Types returns which element types the rules of an operator leave for each tensor on a chip: those for
// which no rule refuses every call whose tensors have elements. Rules about more than two types are not
// read. A tensor whose types no rule limits is not in the result. The operator is missing on a chip
// that lacks its kernel, or where a rule refuses all calls.
func Types(operator string, chip Chip) (types map[string][]dtype.Type, missing bool, err error) {
	rules, err := Rules(operator, chip)
	if err != nil {
		return nil, false, err
	}
	if Lacks(operator, chip) {
		return nil, true, nil
	}
	types, missing = left(rules)
	return types, missing, nil
}

// Home returns the chip on which programs of an operator run that name none: the 910B, or the first of
// the 910_93, the 950, the 310P and the 910 that has the operator.
func Home(operator string) (Chip, error) {
	for _, chip := range []Chip{Ascend910B, Ascend910_93, Ascend950, Ascend310P, Ascend910} {
		if _, missing, err := Types(operator, chip); err != nil || !missing {
			return chip, err
		}
	}
	return Ascend910B, nil
}

// left applies rules to the types of each tensor alone, and then to pairs, since a type of one goes only
// with types that another takes.
func left(rules []Rule) (types map[string][]dtype.Type, missing bool) {
	if refuses(rules, nil) {
		return nil, true
	}
	types, every := map[string][]dtype.Type{}, 0
	for t := range dtype.Type(64) {
		if t.Valid() {
			every++
		}
	}
	for _, r := range rules {
		for _, name := range typed(r.Cond) {
			types[name] = nil
		}
	}
	for name := range types {
		for t := range dtype.Type(64) {
			if t.Valid() && !refuses(rules, facts{name: t}) {
				types[name] = append(types[name], t)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for i, r := range rules {
			names := typed(r.Cond)
			if len(names) != 2 {
				continue
			}
			for n, name := range names {
				other := names[1-n]
				if !required(rules, other) { // without it any type may do
					continue
				}
				kept := slices.DeleteFunc(slices.Clone(types[name]), func(t dtype.Type) bool {
					return !slices.ContainsFunc(types[other], func(u dtype.Type) bool {
						return !refuses(rules[i:i+1], facts{name: t, other: u})
					})
				})
				changed = changed || len(kept) < len(types[name])
				types[name] = kept
			}
		}
	}
	maps.DeleteFunc(types, func(_ string, list []dtype.Type) bool { return len(list) == every })
	return types, false
}

// required reports whether rules refuse calls without a tensor.
func required(rules []Rule, name string) bool {
	var null func(n *Node) bool
	null = func(n *Node) bool {
		return n.Op == Null && tensorOf(n.Args[0]) == name || n.Op == Or && slices.ContainsFunc(n.Args, null)
	}
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Code > Vacuous && null(r.Cond) })
}

// typed lists the tensors whose element type a condition reads, each once.
func typed(n *Node) (names []string) {
	if n.Op == Type {
		if name := tensorOf(n.Args[0]); name != "" {
			return []string{name}
		}
	}
	for _, a := range n.Args {
		for _, name := range typed(a) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// tensorOf is the name of the argument that a node is, or is a member of.
func tensorOf(n *Node) string {
	for n.Op == At {
		n = n.Args[0]
	}
	if n.Op == Argument {
		return n.Name
	}
	return ""
}

// facts are what is known of a call: the element types of its tensors.
type facts map[string]dtype.Type

// refuses reports whether rules refuse every call of which the facts are known.
func refuses(rules []Rule, f facts) bool {
	for _, r := range rules {
		if v, known := f.value(r.Cond); known && v != 0 {
			return r.Code != 0 && r.Code != Idle && r.Code != Vacuous
		}
	}
	return false
}

// value returns the value that a condition has for every call of which the facts are known, if it is the
// same for all.
func (f facts) value(n *Node) (v int64, known bool) {
	switch n.Op {
	case Constant:
		return n.Value.Int, !n.Value.IsReal
	case Argument:
		_, given := f[n.Name] // a pointer that is not null
		return 1, given
	case Null:
		_, given := f[tensorOf(n.Args[0])]
		return 0, given
	case Type:
		t, given := f[tensorOf(n.Args[0])]
		return int64(t), given
	case And, Or:
		return f.join(n.Args, n.Op == Or)
	case Not:
		v, known = f.value(n.Args[0])
		return number(v == 0), known
	case If:
		if v, known = f.value(n.Args[0]); known {
			return f.value(n.Args[2-int(number(v != 0))])
		}
		a, known := f.value(n.Args[1])
		b, also := f.value(n.Args[2])
		return a, known && also && a == b
	case In:
		return f.in(n)
	case Any:
		return f.value(n.Args[3])
	case Equal, Unequal:
		a, known := f.value(n.Args[0])
		b, also := f.value(n.Args[1])
		return number(a == b == (n.Op == Equal)), known && also
	}
	return 0, false
}

// join evaluates a conjunction, or a disjunction: one member may decide alone.
func (f facts) join(members []*Node, either bool) (int64, bool) {
	all := true
	for _, a := range members {
		v, known := f.value(a)
		if known && (v != 0) == either {
			return number(either), true
		}
		all = all && known
	}
	return number(!either), all
}

func (f facts) in(n *Node) (int64, bool) {
	v, known := f.value(n.Args[0])
	all := known
	for _, a := range n.Args[1:] {
		u, also := f.value(a)
		if known && also && u == v {
			return 1, true
		}
		all = all && also
	}
	return 0, all
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
