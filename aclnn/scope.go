package aclnn

import (
	"errors"
	"io"

	"github.com/goascend/cann/acl"
)

// Scope is a computation of several launches on one stream. It keeps the first error, after
// which nothing more is launched, and owns the scratch tensors that were made in it. So a
// computation reads like its formula, and its error is checked once:
//
//	err := aclnn.Compose(st, func(s *aclnn.Scope) {
//		square := s.Like(x)
//		aclnn.Launch(s, aclnn.Mul, aclnn.MulParams{Self: x, Other: x, Out: square})
//		aclnn.Launch(s, aclnn.Add, aclnn.AddParams{Self: square, Other: y, Alpha: aclnn.Float(1), Out: out})
//	})
//
// A scope that outlives a function, such as the forward pass of a layer whose tensors the
// backward pass reads, is made as Scope{Stream: st}; then Err and Close are the caller's.
//
// A scope queues work and does not wait for it: an error of a kernel on the device comes from
// the stream's next Synchronize, not from the scope. A Scope serves one goroutine at a time,
// and launches nothing after Close.
type Scope struct {
	// Stream is where everything is queued and where scratch tensors come from.
	Stream *acl.Stream

	owned  []io.Closer
	err    error
	closed bool
}

// Compose runs body in a new scope on the stream and closes it. The error is the scope's.
func Compose(st *acl.Stream, body func(s *Scope)) error {
	if body == nil {
		return refuse(acl.ErrInvalidArgument, "the computation is nil")
	}
	s := Scope{Stream: st}
	body(&s)
	return errors.Join(s.err, s.Close())
}

// Launch queues an operator, one of this package's functions or of a binding of the same
// form, unless the scope has failed.
func Launch[P any](s *Scope, operator func(*acl.Stream, P) error, p P) {
	if operator == nil {
		s.Fail(refuse(acl.ErrInvalidArgument, "the operator is nil"))
	}
	if s.ready() {
		s.err = operator(s.Stream, p)
	}
}

// Do calls f unless the scope has failed, and keeps its error: for steps that are no operators
// of this package, such as copies between host and device, collectives, and package ops.
func (s *Scope) Do(f func() error) {
	if f == nil {
		s.Fail(refuse(acl.ErrInvalidArgument, "the step is nil"))
	}
	if s.ready() {
		s.Fail(f())
	}
}

// Err is the first error so far.
func (s *Scope) Err() error { return s.err }

// Fail makes err the scope's error if there is none yet. Nil changes nothing.
func (s *Scope) Fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// ready reports whether the scope still launches.
func (s *Scope) ready() bool {
	switch {
	case s.err != nil:
	case s.closed:
		s.err = refuse(acl.ErrClosed, "the scope is closed")
	case s.Stream == nil:
		s.err = refuse(acl.ErrInvalidArgument, "the scope has no Stream")
	}
	return s.err == nil
}

// Tensor makes a contiguous scratch tensor in ND, as New does, which Close frees. Its contents
// are undefined. In a scope that has failed, the tensor has the shape but no memory, and its
// Err is the scope's.
func (s *Scope) Tensor(dt DType, shape ...int64) *Tensor {
	if s.ready() {
		t, err := New(s.Stream, dt, shape...)
		if err == nil {
			s.owned = append(s.owned, t)
			return t
		}
		s.err = err
	}
	d, _, _ := describe(dt, shape)
	return &Tensor{desc: d, err: s.err}
}

// Like makes a contiguous scratch tensor with the dtype and shape of t.
func (s *Scope) Like(t *Tensor) *Tensor { return s.Tensor(t.DType(), t.Shape()...) }

// Own gives the scope something that it closes with its tensors, last first, also when it has
// failed.
func (s *Scope) Own(c io.Closer) {
	if c != nil {
		s.owned = append(s.owned, c)
	}
}

// Free returns scratch tensors before Close, so that the steps to come can use their memory.
// Launches that are queued still see them; views of them must not be used any more.
func (s *Scope) Free(tensors ...*Tensor) {
	for _, t := range tensors {
		s.Fail(t.Close())
	}
}

// Close frees everything that the scope owns, tensors in stream order; it does not wait for the
// stream. Its error is that of freeing, and not Err. Closing again does nothing.
func (s *Scope) Close() error {
	s.closed = true
	var err error
	for i := len(s.owned) - 1; i >= 0; i-- {
		err = errors.Join(err, s.owned[i].Close())
	}
	s.owned = nil
	return err
}

// Cast is t in another dtype: t itself when it has it, or else a scratch tensor.
func (s *Scope) Cast(t *Tensor, dt DType) *Tensor {
	if t.DType() == dt {
		return t
	}
	out := s.Tensor(dt, t.Shape()...)
	Launch(s, Cast, CastParams{Self: t, Dtype: dt, Out: out})
	return out
}

// Contiguous is t without gaps, so that it can be reshaped: t itself when it is contiguous, or
// else a copy in a scratch tensor.
func (s *Scope) Contiguous(t *Tensor) *Tensor {
	if t.Contiguous() {
		return t
	}
	out := s.Like(t)
	s.Copy(out, t)
	return out
}

// Target is a contiguous tensor to compute t in: t itself when it is contiguous, or else a
// scratch tensor, which Finish copies to t.
func (s *Scope) Target(t *Tensor) *Tensor {
	if t.Contiguous() {
		return t
	}
	return s.Like(t)
}

// Finish copies what was computed in a Target of t to t.
func (s *Scope) Finish(t, target *Tensor) {
	if t != target {
		s.Copy(t, target)
	}
}

// Copy copies src to dst, as the function Copy does.
func (s *Scope) Copy(dst, src *Tensor) {
	s.Do(func() error { return Copy(s.Stream, dst, src) })
}

// Zero sets all elements of t to zero (aclnnInplaceZero).
func (s *Scope) Zero(t *Tensor) { Launch(s, InplaceZero, InplaceZeroParams{Self: t}) }

// Fill sets all elements of t to v, which is converted to its dtype (aclnnInplaceFillScalar).
func (s *Scope) Fill(t *Tensor, v Scalar) {
	Launch(s, InplaceFillScalar, InplaceFillScalarParams{Self: t, Value: v})
}
