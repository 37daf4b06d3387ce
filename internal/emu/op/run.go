package op

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Nothing is a Run that does nothing.
func Nothing(*Exec) error { return nil }

// Sequence runs computations one after the other.
func Sequence(runs []Run) Run {
	return func(x *Exec) error {
		for _, run := range runs {
			if err := run(x); err != nil {
				return err
			}
		}
		return nil
	}
}

// Zero sets an output to zero. The output may be empty.
func Zero(t *Tensor) error {
	if t.Len() == 0 {
		return nil
	}
	return elementwise.Zero(t.View())
}

// ZeroAll sets outputs to zero and skips nil ones.
func ZeroAll(tensors ...*Tensor) error {
	for _, t := range tensors {
		if t != nil {
			if err := Zero(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// CopyRun returns the Run that copies src to dst.
func (c *Call) CopyRun(dst, src func() kernel.View) (Run, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	c.HandlesOverlap()
	return func(*Exec) error { return elementwise.Copy(dst(), src()) }, nil
}
