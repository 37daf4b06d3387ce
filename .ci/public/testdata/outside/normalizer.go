// Package service shows a module of a user of cann.
package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// Normalizer keeps the weights of a norm on a device.
type Normalizer struct {
	st     *acl.Stream
	reg    *ops.Registry
	weight *aclnn.Tensor
}

// Load reads the weights from a safetensors file.
func Load(ctx context.Context, dev *acl.Device, path string) (n *Normalizer, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	tensor, err := f.Tensor("norm.weight")
	if err != nil {
		return nil, err
	}
	n = new(Normalizer)
	if n.st, err = dev.NewStream(acl.StreamFast()); err != nil {
		return nil, err
	}
	if n.reg, err = ops.NewRegistry(ops.EnvOf(dev)); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	if n.weight, err = aclnn.Load(ctx, n.st, aclnn.BFloat16, tensor); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Close frees what Load made.
func (n *Normalizer) Close() error {
	var errs []error
	if n.weight != nil {
		errs = append(errs, n.weight.Close())
	}
	if n.reg != nil {
		errs = append(errs, n.reg.Close())
	}
	return errors.Join(append(errs, n.st.Close())...)
}

// Normalize divides rows by their root mean square.
func (n *Normalizer) Normalize(ctx context.Context, rows []half.BFloat16) ([]half.BFloat16, error) {
	width := n.weight.Len()
	if int64(len(rows))%width != 0 {
		return nil, fmt.Errorf("%d values are no rows of %d: %w", len(rows), width, acl.ErrInvalidArgument)
	}
	out := make([]half.BFloat16, len(rows))
	err := aclnn.Compose(n.st, func(s *aclnn.Scope) {
		x := s.Tensor(aclnn.BFloat16, int64(len(rows))/width, width)
		y := s.Like(x)
		s.Do(func() error { return aclnn.CopyToDevice(ctx, n.st, x, rows) })
		s.Do(func() error {
			return n.reg.RMSNorm().Run(ctx, n.st, &ops.RMSNormArgs{X: x, Weight: n.weight, Epsilon: 1e-6, Out: y})
		})
		s.Do(func() error { return aclnn.CopyFromDevice(ctx, n.st, out, y) })
	})
	return out, err
}

// MaskOf says what becomes of the mask of a batch with padding.
func MaskOf(lengths []int64, longest int64) (mask.Decision, error) {
	return mask.Decide(mask.Padding{Lengths: lengths, Causal: true}, mask.Shape{
		Layout: mask.BSND, Batch: int64(len(lengths)), Heads: 2, Queries: longest, Keys: longest,
	})
}
