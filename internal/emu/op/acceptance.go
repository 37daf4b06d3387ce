package op

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/goascend/cann/internal/abi"
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

// refusal applies CANN's rules to the call. It returns nil if they accept it. A condition that C leaves
// undefined is a refusal, too: CANN's process would end there, or go on with any value.
func (c *Call) refusal() *Error {
	r, err := c.first(checklistOf(c.Op, c.chip).rules)
	switch {
	case err != nil:
		return err
	case r == nil || r.Code == 0 || r.Code == acceptance.Idle || r.Code == acceptance.Vacuous:
		return nil
	}
	return &Error{Code: r.Code, Text: c.Name() + ": " + c.explain(r.Cond)}
}

// idle reports whether CANN accepts the call and starts no kernel for it, although the operator refuses
// it with err. After refusals that the rules lost, only refusals of empty tensors are overruled.
func (c *Call) idle(err error) bool {
	r, _ := c.first(checklistOf(c.Op, c.chip).rules)
	if r == nil || r.Code != acceptance.Vacuous {
		return r != nil && r.Code == acceptance.Idle
	}
	var own *Error
	return errors.As(err, &own) && own.vacuous
}

// absence returns the refusal of a call that the checks accept and for which the chip has no kernel, and
// nil if it has one. own is the operator's own error: null arguments are refused before.
func (c *Call) absence(own error) error {
	if !checklistOf(c.Op, c.chip).lacking {
		return nil
	}
	var e *Error
	if errors.As(own, &e) && e.Code == NullPointer {
		return own
	}
	return &Error{Code: NoKernel, Text: fmt.Sprintf("%s: the %v does not have the operator", c.Name(), c.chip)}
}

// first returns the first rule whose condition holds for the call, or nil. The error names an operation
// before it that C leaves undefined.
func (c *Call) first(rules []acceptance.Rule) (*acceptance.Rule, *Error) {
	x := conditions.Get().(*condition)
	x.call, x.used = c, 0
	defer func() {
		x.call, x.undefined, x.at = nil, nil, nil
		conditions.Put(x)
	}()
	for i := range rules {
		v, ok := x.value(rules[i].Cond)
		switch {
		case ok && v.True():
			return &rules[i], nil
		case x.undefined != nil:
			return nil, &Error{Code: int32(abi.ACLNN_ERR_INNER), undefined: true,
				Text: fmt.Sprintf("%v: CANN's check calculates %v, which is undefined in C: %v", c, x.at, x.undefined)}
		}
	}
	return nil, nil
}

// explain returns in words which rule a call breaks.
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
	case n.Op == acceptance.Constant: // for every call
		return fmt.Sprintf("the %v does not have the operator", c.chip)
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
