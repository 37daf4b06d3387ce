package ops

import (
	"fmt"
	"strings"
)

// Candidate is one kernel in an Explanation.
type Candidate struct {
	Kernel string
	Reason string // why it was not chosen; "" for the chosen kernel and those after it
}

// Explanation says how the kernel for some arguments is chosen.
type Explanation struct {
	Operator   string
	Kernel     string // the chosen kernel, "" if there is none
	Pinned     bool
	Candidates []Candidate
	// AICPU has the calls of the kernel that an Atlas A2 or A3 runs on its slow AI CPU, such as
	// "aclnnSort: Sort of int64". They are known once the kernel has run with such arguments.
	AICPU []string
	// Invalid is the error of arguments that are refused before any kernel is asked, or nil.
	Invalid error
}

// String describes the choice in one line: the kernel, and the others with their reasons.
func (e Explanation) String() string {
	if e.Invalid != nil {
		return e.Invalid.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", e.Operator)
	switch {
	case e.Kernel == "":
		b.WriteString("no kernel")
	case e.Pinned:
		b.WriteString(e.Kernel + " (pinned)")
	default:
		b.WriteString(e.Kernel)
	}
	for _, c := range e.Candidates {
		switch {
		case c.Kernel == e.Kernel:
		case c.Reason == "":
			fmt.Fprintf(&b, "; %s comes after it", c.Kernel)
		default:
			fmt.Fprintf(&b, "; not %s: %s", c.Kernel, c.Reason)
		}
	}
	for _, call := range e.AICPU {
		b.WriteString("; on the AI CPU " + call)
	}
	return b.String()
}

// explanation is Op.Explain for arguments with a key.
func (o *dispatch) explanation(key any) Explanation {
	env := o.reg.Env()
	o.mu.Lock()
	defer o.mu.Unlock()
	e, _, _ := o.explain(&env, key)
	if c := o.current(); c != nil {
		if made := o.find(c.byKey, key); made != nil {
			e.AICPU = made.left.Load().list()
		}
	}
	return e
}

// explain asks the kernels in order.
func (o *dispatch) explain(env *Env, key any) (e Explanation, taken *kernel, reasons []error) {
	e = Explanation{Operator: o.name, Pinned: o.pinned != ""}
	for i := range o.kernels {
		k := &o.kernels[i]
		c := Candidate{Kernel: k.name}
		if o.pinned != "" && k.name != o.pinned {
			c.Reason = "another kernel is pinned"
		} else if taken == nil {
			var err error
			if k.supports != nil {
				err = k.supports(env, key)
			}
			if err != nil {
				c.Reason = err.Error()
				reasons = append(reasons, err)
			} else {
				taken, e.Kernel = k, k.name
			}
		}
		e.Candidates = append(e.Candidates, c)
	}
	return e, taken, reasons
}

// noKernel is ErrNoKernel with the reasons of the kernels.
type noKernel struct {
	explanation Explanation
	reasons     []error
}

func (e *noKernel) Error() string { return fmt.Sprintf("%v: %v", ErrNoKernel, e.explanation) }

func (e *noKernel) Unwrap() []error { return append([]error{ErrNoKernel}, e.reasons...) }
