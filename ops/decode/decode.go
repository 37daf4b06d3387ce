package decode

import (
	"errors"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
	"github.com/goascend/cann/ops/key"
)

// Operators are the operators of this package, made for a registry. They are safe for concurrent use.
type Operators struct {
	attention *ops.Op[AttentionArgs, key.DecodeAttention]
	write     *ops.Op[WriteArgs, key.CacheWrite]
}

// Attention is attention of the newest tokens to a cache.
func (o *Operators) Attention() *ops.Op[AttentionArgs, key.DecodeAttention] {
	if o == nil {
		return nil
	}
	return o.attention
}

// Write stores keys and values in a cache.
func (o *Operators) Write() *ops.Op[WriteArgs, key.CacheWrite] {
	if o == nil {
		return nil
	}
	return o.write
}

// New makes the operators. It fails if the environment variable CANN_OPS_DECODE_ATTENTION or
// CANN_OPS_CACHE_WRITE names a kernel that does not exist.
func New(reg *ops.Registry) (*Operators, error) {
	attention, err := newAttention(reg)
	write, err2 := newWrite(reg)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return &Operators{attention, write}, nil
}

// args checks arguments.
type args struct{ check.Args }

// contiguous reports whether all tensors that are not nil are contiguous.
func contiguous(tensors ...*aclnn.Tensor) bool {
	for _, t := range tensors {
		if t != nil && !t.Contiguous() {
			return false
		}
	}
	return true
}
