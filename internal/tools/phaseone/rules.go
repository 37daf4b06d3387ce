package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/acceptance"
)

// soc is a group of chips that the sources distinguish.
type soc struct {
	letter        byte
	version, arch int64
}

// socs are the groups: 910, 910B, 910_93, 310P and 950.
var socs = []soc{{'a', 0, 1001}, {'b', 1, 2201}, {'c', 2, 2201}, {'p', 6, 2002}, {'n', 3, 3510}}

// Rule is a condition of an operator's arguments and what phase one answers under it. Codes 0,
// acceptance.Idle and acceptance.Vacuous end the checks.
type Rule struct {
	Chips string // the letters of the groups
	Code  int64
	Cond  string
}

// Operator holds the rules of an operator in the order in which CANN applies them.
type Operator struct {
	Name  string
	Lost  int // refusals whose condition is not wholly known
	Rules []Rule
	Gaps  []Gap
}

// Gap is something in the sources of an operator that the extractor does not follow.
type Gap struct {
	Place string // file:line: text, or the file where it concerns the whole operator
	Means string // what the rules lack because of it
}

// held lists operators, by name or by a folder of their sources, whose rules the emulator does not
// follow yet: there it takes what CANN's documents list, as its own tests do.
//
//go:embed held.txt
var held string

// isHeld reports whether the rules of an operator are left out.
func isHeld(name, path string) bool {
	return slices.ContainsFunc(strings.Fields(held), func(h string) bool {
		return h == name || strings.HasSuffix(h, "/") && strings.HasPrefix(path, h)
	})
}

// Extract returns the rules of every operator that the repository defines and that the table has. An operator
// without rules has a gap that says why.
func (r *Repository) Extract(t *abi.Table) []Operator {
	known := map[string]*abi.Operator{}
	for i := range t.Operators {
		known[t.Operators[i].Name] = &t.Operators[i]
	}
	for _, path := range r.Sources() {
		f := r.load(path)
		for name, list := range f.functions {
			r.extern[name] = append(r.extern[name], list...)
		}
	}
	done, without, partly := map[string]bool{}, map[string]Gap{}, map[string][]Gap{}
	var out []Operator
	for _, path := range r.Sources() {
		f := r.load(path)
		var names []string
		for name := range f.functions {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, symbol := range names {
			name, ok := strings.CutSuffix(symbol, "GetWorkspaceSize")
			name = strings.TrimPrefix(name, "aclnn")
			o := known[name]
			if !ok || !strings.HasPrefix(symbol, "aclnn") || done[name] {
				continue
			}
			fn := f.functions[symbol][0]
			switch {
			case o == nil:
				without[name] = Gap{path, "the table of CANN's interface has no such operator; it has no rules"}
			case isHeld(name, path):
				without[name] = Gap{path, "held.txt lists it; it has no rules"}
			case len(fn.params) != len(o.Params)+2:
				without[name] = Gap{path, fmt.Sprintf("its phase one has %d parameters here and %d in the table; it has no rules", len(fn.params), len(o.Params)+2)}
			default:
				operator := r.operator(fn, o)
				if len(operator.Rules) == 0 {
					without[name] = Gap{path, "nothing in its phase one refuses by a condition of the arguments that is followed; it has no rules"}
					if len(operator.Gaps) > 0 {
						partly[name] = operator.Gaps
					}
					continue
				}
				done[name] = true
				out = append(out, operator)
			}
		}
	}
	for name, gap := range without {
		if !done[name] {
			out = append(out, Operator{Name: name, Gaps: append(partly[name], gap)})
		}
	}
	slices.SortFunc(out, func(a, b Operator) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// operator runs phase one for every chip and joins the rules. Lost is the greatest number of
// refusals of a chip that are not wholly known.
func (r *Repository) operator(fn *function, o *abi.Operator) Operator {
	out := Operator{Name: o.Name}
	for _, s := range socs {
		m := &machine{repo: r, soc: s, numbers: map[string]bool{}, reals: map[string]bool{}}
		for _, p := range o.Params {
			m.numbers[p.Name] = slices.Contains(numeric, p.Class)
			m.reals[p.Name] = p.Class == abi.Float || p.Class == abi.Double
		}
		f := &frame{m: m, fn: fn, vars: map[string]*value{}}
		for i, p := range fn.params {
			switch {
			case i >= len(o.Params):
				f.vars[p.name] = nothing
			default:
				f.vars[p.name] = scalar(symbol(o.Params[i].Name))
			}
		}
		f.exec(fn.body(), yes)
		rules, gaps, lost := rulesOf(f.out, s)
		out.Rules = joinRules(out.Rules, rules, s.letter)
		out.Lost = max(out.Lost, lost)
		for _, place := range m.gaps {
			gaps = append(gaps, Gap{place, "what it refuses is left out"})
		}
		for _, g := range gaps {
			if !strings.Contains(g.Place, ": ") { // it arose where conditions are joined
				g.Place = fn.file.path + ": " + g.Place
			}
			if !slices.Contains(out.Gaps, g) {
				out.Gaps = append(out.Gaps, g)
			}
		}
	}
	return out
}

// numeric are the classes of parameters that are no pointers.
var numeric = []abi.Class{abi.Int, abi.Uint, abi.Enum, abi.DType, abi.Float, abi.Double, abi.Bool}

// rulesOf turns the outcomes of phase one into rules. lost is the number of refusals whose condition is
// not wholly known. After one of them a call is idle only if nothing else is wrong with it.
func rulesOf(outcomes []outcome, s soc) (rules []Rule, gaps []Gap, lost int) {
	seen := map[string]bool{} // a condition that is refused already never arises again
	gap := func(means string, unknown ...*expr) {
		var places []string
		for _, e := range unknown {
			places = append(places, e.gaps()...)
		}
		if len(places) == 0 {
			places = []string{"an unknown value"}
		}
		for _, place := range places {
			gaps = append(gaps, Gap{place, means})
		}
	}
	for i, o := range outcomes {
		o.cond = visible(o.cond)
		v := o.v.expr()
		if v.constant() && v.n > 100000 && v.n < statuses["ACLNN_ERR_INNER"] && unsure(o.cond) {
			lost++
			gap(fmt.Sprintf("a refusal with %d is followed in part", v.n), o.cond)
		}
		if v.constant() && v.n > 100000 {
			c := bound(o.cond, true)
			if c.constant() && c.n != 0 && v.n == statuses["ACLNN_ERR_PARAM_NULLPTR"] { // what is null is not known
				gap("which argument must not be null is not known", o.cond)
				continue
			}
			if v.n > statuses["ACLNN_ERR_INNER"] && !nulls(c) { // of what the library computes, not of the arguments
				continue
			}
			if text := c.String(); !(c.constant() && c.n == 0) && !seen[text] && !strings.Contains(text, "?") {
				seen[text] = true
				rules = append(rules, Rule{Code: v.n, Cond: text})
			}
			continue
		}
		c := bound(o.cond, false)
		if c.constant() && c.n != 0 || strings.Contains(c.String(), "?") { // always, or too long to follow
			if i < len(outcomes)-1 || !v.constant() {
				gap("what phase one checks after it is left out", o.cond, v)
			}
			break
		}
		if !(c.constant() && c.n == 0) && !seen[c.String()] {
			seen[c.String()] = true
			r := Rule{Cond: c.String()}
			if o.v.idle && !unsure(o.cond) {
				r.Code = acceptance.Idle
				if lost > 0 {
					r.Code = acceptance.Vacuous
				}
			}
			rules = append(rules, r)
		}
	}
	for len(rules) > 0 && rules[len(rules)-1].Code == 0 {
		rules = rules[:len(rules)-1]
	}
	return rules, gaps, lost
}

// nulls reports whether a condition is that an argument, or one of several, is null.
func nulls(c *expr) bool {
	return c.op == "null" || c.op == "or" && !slices.ContainsFunc(c.args, func(a *expr) bool { return !nulls(a) })
}

// joinRules adds the rules of one more chip to a common list, in which each chip's rules keep their
// order.
func joinRules(merged, rules []Rule, letter byte) []Rule {
	// The longest common subsequence.
	n, k := len(merged), len(rules)
	common := make([][]int, n+1)
	for i := range common {
		common[i] = make([]int, k+1)
	}
	equal := func(a, b Rule) bool { return a.Code == b.Code && a.Cond == b.Cond }
	for i := n - 1; i >= 0; i-- {
		for j := k - 1; j >= 0; j-- {
			if equal(merged[i], rules[j]) {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []Rule
	i, j := 0, 0
	for i < n || j < k {
		switch {
		case i < n && j < k && equal(merged[i], rules[j]):
			out = append(out, Rule{merged[i].Chips + string(letter), merged[i].Code, merged[i].Cond})
			i, j = i+1, j+1
		case j >= k || i < n && common[i+1][j] >= common[i][j+1]:
			out = append(out, merged[i])
			i++
		default:
			out = append(out, Rule{string(letter), rules[j].Code, rules[j].Cond})
			j++
		}
	}
	return out
}

// Text returns the table of a repository's rules.
func Text(r *Repository, operators []Operator) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n# What phase one of the operators of %s refuses, in its order. Made by internal/tools/phaseone; see\n# package acceptance for the grammar.\n", r.Commit, r.Name)
	for _, o := range operators {
		if len(o.Rules) == 0 {
			continue
		}
		b.WriteString(o.Name)
		if o.Lost > 0 {
			fmt.Fprintf(&b, " %d", o.Lost)
		}
		b.WriteByte('\n')
		for i, rule := range o.Rules {
			cond := strings.TrimRight(rule.Cond, ")")
			if i > 0 && rule.Chips == o.Rules[i-1].Chips && rule.Code == o.Rules[i-1].Code {
				fmt.Fprintf(&b, "  %s\n", cond)
			} else {
				fmt.Fprintf(&b, " %s %d %s\n", rule.Chips, rule.Code, cond)
			}
		}
	}
	return b.String()
}
