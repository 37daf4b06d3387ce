package op

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
)

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
	refused := &Error{Code: r.Code, Text: c.Name() + ": " + c.explain(r.Cond)}
	if broadcasts(r.Cond) {
		refused.ID = "EZ1007"
	}
	return refused
}

// broadcasts reports whether a condition is about shapes that have a common one.
func broadcasts(n *acceptance.Node) bool {
	return n.Op == acceptance.Broadcasts || slices.ContainsFunc(n.Args, broadcasts)
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

// withoutBFloat16 refuses bfloat16 on the chips whose cores have none, unless the operator's source lists it there, or
// has no list at all.
func (c *Call) withoutBFloat16() error {
	if !c.multipliesHalf() {
		return nil
	}
	source, public := acceptance.SourceOf(c.Op.Name)
	var types map[string][]dtype.Type
	for i, p := range c.Op.Params {
		for _, t := range tensorsOf(c.args[i]) {
			if t == nil || t.DType != dtype.BFloat16 {
				continue
			}
			if types == nil {
				var err error
				if types, _, err = acceptance.Types(c.Op.Name, c.chip); err != nil {
					return err
				}
			}
			if list, limited := types[p.Name]; limited && slices.Contains(list, dtype.BFloat16) || !limited && public && source.Lost == 0 {
				continue
			}
			return &Error{Code: InvalidParam, Text: fmt.Sprintf("%s: %v: the %v has no bfloat16; cast it to float16 or float32", c.Name(), t, c.chip)}
		}
	}
	return nil
}

// tensorsOf returns the tensors of an argument.
func tensorsOf(arg any) []*Tensor {
	switch a := arg.(type) {
	case *Tensor:
		return []*Tensor{a}
	case []*Tensor:
		return a
	}
	return nil
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
				Text: fmt.Sprintf("%v: CANN's check calculates %s, which is undefined in C: %v", c, (&wording{condition{call: c, loop: x.loop}}).quantity(x.at), x.undefined)}
		}
	}
	return nil, nil
}
