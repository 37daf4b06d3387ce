package op

import (
	"fmt"
	"strings"
	"sync"

	"github.com/goascend/cann/internal/abi/acceptance"
)

// accepted holds the rules of the operators that were called, by chip and *Operator.
var accepted [256]sync.Map

// rulesFor returns the rules of an operator with its arguments numbered.
func rulesFor(o *Operator, chip acceptance.Chip) []acceptance.Rule {
	if v, ok := accepted[chip].Load(o); ok {
		return v.([]acceptance.Rule)
	}
	rules, err := acceptance.Rules(o.Name, chip)
	if err == nil {
		for _, r := range rules {
			err = number(o, r.Cond)
		}
	}
	if err != nil {
		panic(err) // the tables are tested
	}
	accepted[chip].Store(o, rules)
	return rules
}

// number sets the index of every argument in a condition.
func number(o *Operator, n *acceptance.Node) error {
	if n.Op == acceptance.Argument {
		for i, p := range o.Params {
			if p.Name == n.Name {
				n.Index = i
				return nil
			}
		}
		return fmt.Errorf("rules of %s: no parameter %q", o.Name, n.Name)
	}
	for _, a := range n.Args {
		if err := number(o, a); err != nil {
			return err
		}
	}
	return nil
}

// refusal applies CANN's rules to the call. It returns nil if they accept it.
func (c *Call) refusal() *Error {
	x := conditions.Get().(*condition)
	x.call, x.used = c, 0
	defer func() {
		x.call = nil
		conditions.Put(x)
	}()
	for _, r := range rulesFor(c.Op, c.chip) {
		if v, ok := x.value(r.Cond); ok && v != 0 {
			if r.Code == 0 {
				return nil
			}
			return &Error{Code: r.Code, Text: c.Name() + ": " + c.explain(r.Cond)}
		}
	}
	return nil
}

// explain says in words which rule a call breaks.
func (c *Call) explain(n *acceptance.Node) string {
	x := condition{call: c}
	inner := n
	if n.Op == acceptance.Not {
		inner = n.Args[0]
	}
	var subject []string
	for _, a := range inner.Args {
		for a.Op != acceptance.Argument && len(a.Args) > 0 {
			a = a.Args[0]
		}
		if t := x.tensor(a); t != nil {
			subject = append(subject, t.String())
		} else if a.Op == acceptance.Argument {
			subject = append(subject, a.Name)
		}
	}
	of := func(op acceptance.Op) bool { return len(inner.Args) > 0 && inner.Args[0].Op == op }
	switch {
	case n.Op == acceptance.Null && len(subject) == 1:
		return subject[0] + " is null"
	case n.Op == acceptance.Not && inner.Op == acceptance.In && of(acceptance.Type) && len(subject) == 1:
		var names []string
		for _, a := range inner.Args[1:] {
			names = append(names, a.String())
		}
		return fmt.Sprintf("%s has a dtype that is not supported; use one of [%s]", subject[0], strings.Join(names, " "))
	case n.Op == acceptance.Unequal && of(acceptance.Type) && len(subject) == 2:
		return fmt.Sprintf("dtypes differ: %s and %s; they must be equal", subject[0], subject[1])
	case n.Op == acceptance.Unequal && of(acceptance.Format) && len(subject) == 2:
		return fmt.Sprintf("formats differ: %s and %s; they must be equal", subject[0], subject[1])
	case n.Op == acceptance.Not && inner.Op == acceptance.Same && len(subject) == 2:
		return fmt.Sprintf("shapes differ: %s and %s; they must be equal", subject[0], subject[1])
	case n.Op == acceptance.Private && len(subject) == 1:
		return subject[0] + " has a private format; cast it to ND with aclnnNpuFormatCast"
	case n.Op == acceptance.Greater && of(acceptance.Rank) && len(subject) > 0:
		return fmt.Sprintf("%s has too many dimensions; at most %s are supported", subject[0], n.Args[1])
	}
	return fmt.Sprintf("%v: CANN refuses arguments for which %v", c, n)
}
