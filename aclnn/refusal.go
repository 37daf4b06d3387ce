package aclnn

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
)

// refusal is a call that this package did not pass on to CANN. It matches one of package acl's
// errors, acl.ErrInvalidArgument most often.
type refusal struct {
	text  string
	group error
}

func (r *refusal) Error() string { return "aclnn: " + r.text }

// Unwrap gives the group to errors.Is.
func (r *refusal) Unwrap() error { return r.group }

func refuse(group error, format string, args ...any) error {
	return &refusal{fmt.Sprintf(format, args...), group}
}

// usable refuses what a call cannot begin with: a nil stream, a nil tensor, an impossible view,
// a tensor without memory.
func usable(st *acl.Stream, tensors ...*Tensor) error {
	if st == nil {
		return refuse(acl.ErrInvalidArgument, "the stream is nil")
	}
	for _, t := range tensors {
		switch {
		case t == nil:
			return refuse(acl.ErrInvalidArgument, "a tensor is nil")
		case t.err != nil:
			return t.err
		case t.mem.buf == nil:
			return refuse(acl.ErrInvalidArgument, "%v has no memory", t)
		}
	}
	return nil
}

// waits is usable for a call that waits.
func waits(ctx context.Context, st *acl.Stream, tensors ...*Tensor) error {
	if ctx == nil {
		return refuse(acl.ErrInvalidArgument, "the context is nil")
	}
	return usable(st, tensors...)
}
