package op

import (
	"fmt"
	"sync"

	"github.com/goascend/cann/internal/abi/acceptance"
)

// checklist holds CANN's rules of an operator on a chip.
type checklist struct {
	rules   []acceptance.Rule
	lacking bool // the chip has no kernel of the operator
}

// checklists holds the checklists of the operators that were called, by chip and *Operator.
var checklists [256]sync.Map

// checklistOf returns the rules of an operator with its arguments numbered.
func checklistOf(o *Operator, chip acceptance.Chip) *checklist {
	if v, ok := checklists[chip].Load(o); ok {
		return v.(*checklist)
	}
	rules, err := acceptance.Rules(o.Name, chip)
	for _, r := range rules {
		if err == nil {
			err = number(o, r.Cond)
		}
	}
	if err != nil {
		panic(err) // the tables are tested
	}
	v, _ := checklists[chip].LoadOrStore(o, &checklist{rules: rules, lacking: acceptance.Lacks(o.Name, chip)})
	return v.(*checklist)
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

// explain returns in words which rule a call breaks.
func (c *Call) explain(n *acceptance.Node) string {
	w := wording{condition{call: c}}
	inner := n
	if n.Op == acceptance.Not {
		inner = n.Args[0]
	}
	var subject []string
	for _, a := range inner.Args {
		for a.Op != acceptance.Argument && len(a.Args) > 0 {
			a = a.Args[0]
		}
		if t := w.x.tensor(a); t != nil {
			subject = append(subject, t.String())
		} else if a.Op == acceptance.Argument {
			subject = append(subject, a.Name)
		}
	}
	of := func(op acceptance.Op) bool { return len(inner.Args) > 0 && inner.Args[0].Op == op }
	switch {
	case n.Op == acceptance.Constant: // for every call
		return fmt.Sprintf("the %v does not have the operator", c.chip)
	case n.Op == acceptance.Null && len(subject) == 1:
		return subject[0] + " is null"
	case n.Op == acceptance.Not && inner.Op == acceptance.In && of(acceptance.Type) && len(subject) == 1:
		return fmt.Sprintf("%s has a dtype that is not supported; use one of [%s]", subject[0], each(inner.Args[1:], " ", w.quantity))
	case n.Op == acceptance.Unequal && of(acceptance.Type) && len(subject) == 2:
		return fmt.Sprintf("dtypes differ: %s and %s; they must be equal", subject[0], subject[1])
	case n.Op == acceptance.Unequal && of(acceptance.Format) && len(subject) == 2:
		return fmt.Sprintf("formats differ: %s and %s; they must be equal", subject[0], subject[1])
	case n.Op == acceptance.Not && inner.Op == acceptance.Same && len(subject) == 2:
		return fmt.Sprintf("shapes differ: %s and %s; they must be equal", subject[0], subject[1])
	case n.Op == acceptance.Private && len(subject) == 1:
		return subject[0] + " has a private format; cast it to ND with aclnnNpuFormatCast"
	case n.Op == acceptance.Greater && of(acceptance.Rank) && len(subject) > 0:
		return fmt.Sprintf("%s has too many dimensions; at most %s are supported", subject[0], w.quantity(n.Args[1]))
	}
	return w.refusal(n)
}
