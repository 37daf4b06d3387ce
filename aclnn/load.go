package aclnn

import (
	"context"
	"errors"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/internal/element"
)

// Load makes a tensor of one in a safetensors file, or of a part of one, converted to dt as
// safetensors' Tensor.As does. The host holds a few MiB of it at a time. The caller closes it.
//
//	t, err := file.Tensor("model.embed_tokens.weight")
//	part, err := t.Narrow(0, rank*rows, rows)
//	w, err := aclnn.Load(ctx, st, aclnn.BFloat16, part)
//
// The errors are safetensors' of reading, and this package's.
func Load(ctx context.Context, st *acl.Stream, dt DType, src safetensors.Tensor) (*Tensor, error) {
	if err := waits(ctx, st); err != nil {
		return nil, err
	}
	src, err := src.As(dt)
	if err != nil {
		return nil, err
	}
	t, err := New(st, dt, fileShape(src)...)
	if err != nil {
		return nil, err
	}
	if err := t.load(ctx, st, src); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// LoadInto reads a tensor of a safetensors file, or a part of one, into a tensor of the same
// shape and any layout: its dtype is converted to that of dst. What is not contiguous in ND is
// read into a tensor that is, and copied.
func LoadInto(ctx context.Context, st *acl.Stream, dst *Tensor, src safetensors.Tensor) error {
	if err := waits(ctx, st, dst); err != nil {
		return err
	}
	if !slices.Equal(dst.Shape(), fileShape(src)) {
		return refuse(acl.ErrInvalidArgument, "%s is %v in the file; it does not fit %v", src.Name, src.Info, dst)
	}
	if dst.Contiguous() && dst.Format() != FractalNZ {
		src, err := src.As(dst.DType())
		if err != nil {
			return err
		}
		return dst.load(ctx, st, src)
	}
	t, err := Load(ctx, st, dst.DType(), src)
	if err != nil {
		return err
	}
	if t.Len() > 0 {
		err = Copy(st, dst, t)
	}
	return errors.Join(err, t.Close())
}

// load reads a tensor of the same dtype into one that is contiguous.
func (t *Tensor) load(ctx context.Context, st *acl.Stream, src safetensors.Tensor) error {
	size := int64(t.DType().Size())
	return t.pour(ctx, st, src.Len(), func(dst []byte, first int) error {
		n, err := src.ReadAt(dst, int64(first)*size)
		if n == len(dst) {
			return nil
		}
		return err
	})
}

func fileShape(t safetensors.Tensor) []int64 {
	shape := make([]int64, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = int64(d)
	}
	return shape
}

// Info declares a tensor for a safetensors file, with its shape and dtype; DType may be set to
// another one that Save can convert to.
func (t *Tensor) Info(name string) safetensors.Info {
	shape := make([]int, t.Rank())
	for i := range shape {
		shape[i] = int(t.Dim(i))
	}
	return safetensors.Info{Name: name, DType: t.DType(), Shape: shape}
}

// Save writes a tensor of any layout to a safetensors file in which it was declared with the
// same shape, converted to the dtype declared as ToSlice converts. It waits for the work queued
// on the stream. The host holds a few MiB of it at a time, or all of it if it is FRACTAL_NZ.
//
//	w, err := safetensors.Create(path, []safetensors.Info{weight.Info("weight")}, nil)
//	defer w.Close()
//	err = aclnn.Save(ctx, st, w, "weight", weight)
//	err = w.Commit()
func Save(ctx context.Context, st *acl.Stream, w *safetensors.Writer, name string, t *Tensor) error {
	if err := waits(ctx, st, t); err != nil {
		return err
	}
	if w == nil {
		return refuse(acl.ErrInvalidArgument, "the writer is nil")
	}
	declared, err := w.Info(name)
	if err != nil {
		return err
	}
	switch {
	case !slices.Equal(declared.Shape, t.Info(name).Shape):
		return refuse(acl.ErrInvalidArgument, "%s was declared as %v; it does not fit %v", name, declared, t)
	case !element.Convertible(declared.DType, t.DType()):
		return refuse(acl.ErrInvalidArgument, "%v cannot be saved as %v", t, declared)
	case t.Len() == 0:
		return nil
	}
	var out []byte
	done := 0
	return t.drain(ctx, st, func(src []byte) error {
		n := len(src) / t.DType().Size()
		out = slices.Grow(out[:0], n*declared.DType.Size())[:n*declared.DType.Size()]
		if err := element.Convert(out, declared.DType, src, t.DType()); err != nil {
			return t.misfit(err, done)
		}
		done += n
		return w.Append(name, out)
	})
}
