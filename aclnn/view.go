package aclnn

import (
	"slices"

	"github.com/goascend/cann/acl"
)

// view copies the descriptor without ownership.
func (t *Tensor) view() Tensor {
	if t == nil {
		return Tensor{err: refuse(acl.ErrInvalidArgument, "a view of a nil tensor")}
	}
	v := *t
	v.owned = false
	return v
}

// fail keeps the first reason why a view is impossible.
func (t *Tensor) fail(format string, args ...any) {
	if t.err == nil {
		t.err = refuse(acl.ErrInvalidArgument, format, args...)
	}
}

// axis resolves a negative axis and refuses one out of range.
func (t *Tensor) axis(i int) int {
	n := t.Rank()
	if i < -n || i >= n {
		t.fail("axis %d is out of range for %v", i, t)
		return 0
	}
	if i < 0 {
		i += n
	}
	return i
}

// Reshape views the elements in row-major order under another shape; one dimension may be
// -1 and is inferred. It does not copy: the tensor must be contiguous.
func (t *Tensor) Reshape(shape ...int64) *Tensor {
	v := t.view()
	v.reshape(shape)
	return &v
}

func (t *Tensor) reshape(shape []int64) {
	if t.err != nil {
		return
	}
	if !t.Contiguous() || t.Format() == FractalNZ {
		t.fail("%v cannot be reshaped without a copy", t)
		return
	}
	infer := slices.Index(shape, -1)
	known, ok := elements(shape)
	if infer >= 0 {
		known, ok = elements(slices.Delete(slices.Clone(shape), infer, infer+1))
	}
	n := t.Len()
	if !ok || len(shape) > MaxRank || infer < 0 && known != n || infer >= 0 && (known == 0 || n%known != 0) {
		t.fail("%v cannot be reshaped to %s", t, dims(shape))
		return
	}
	t.unnamed()
	t.desc.Rank = uint8(len(shape))
	stride := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		d := shape[i]
		if i == infer {
			d = n / known
		}
		t.desc.Dims[i], t.desc.Strides[i] = d, stride
		stride *= d
	}
}

// Transpose views the tensor with two axes exchanged.
func (t *Tensor) Transpose(i, j int) *Tensor {
	v := t.view()
	i, j = v.axis(i), v.axis(j)
	v.keepTiles(i != j && min(i, j) < v.Rank()-2, "exchange axes before the last two")
	if v.err == nil {
		if i != j {
			v.unnamed()
		}
		d, s := &v.desc.Dims, &v.desc.Strides
		d[i], d[j] = d[j], d[i]
		s[i], s[j] = s[j], s[i]
	}
	return &v
}

// Permute views the tensor with its axes in the given order.
func (t *Tensor) Permute(axes ...int) *Tensor {
	v := t.view()
	v.keepTiles(true, "permute axes")
	v.permute(t, axes)
	v.unnamed()
	return &v
}

func (t *Tensor) permute(from *Tensor, axes []int) {
	var seen [MaxRank]bool
	if t.err != nil {
		return
	}
	if len(axes) != t.Rank() {
		t.fail("%d axes for %v", len(axes), t)
		return
	}
	for k, a := range axes {
		a = t.axis(a)
		if t.err != nil {
			return
		}
		if seen[a] {
			t.fail("axis %d twice in a permutation of %v", a, from)
			return
		}
		seen[a] = true
		t.desc.Dims[k], t.desc.Strides[k] = from.desc.Dims[a], from.desc.Strides[a]
	}
}

// Slice views the elements from start to end (exclusive) of an axis, every step-th one.
// Negative start and end count from the end of the axis; step must be positive.
func (t *Tensor) Slice(axis int, start, end, step int64) *Tensor {
	v := t.view()
	v.slice(axis, start, end, step)
	return &v
}

func (t *Tensor) slice(axis int, start, end, step int64) {
	i := t.axis(axis)
	if t.err != nil {
		return
	}
	n := t.desc.Dims[i]
	if start < 0 {
		start += n
	}
	if end < 0 {
		end += n
	}
	if start < 0 || end > n || start > end || step < 1 {
		t.fail("slice %d:%d:%d is out of range for axis %d of %v", start, end, step, i, t)
		return
	}
	length := int64(0)
	if end > start {
		length = (end-start-1)/step + 1 // end-start+step may overflow
	}
	if t.Format() == FractalNZ {
		t.sliceNZ(i, start, length, step)
		return
	}
	t.desc.Offset += start * t.desc.Strides[i]
	t.desc.Dims[i] = length
	if length > 1 { // otherwise the stride means nothing, and may overflow
		t.desc.Strides[i] *= step
	}
}

// Unflatten views an axis as several whose sizes multiply to its own. It does not copy: the
// tensor may have gaps.
func (t *Tensor) Unflatten(axis int, sizes ...int64) *Tensor {
	v := t.view()
	v.unflatten(axis, sizes)
	return &v
}

func (t *Tensor) unflatten(axis int, sizes []int64) {
	i := t.axis(axis)
	n, ok := elements(sizes)
	r := int(t.desc.Rank)
	switch {
	case t.err != nil:
		return
	case !ok || n != t.desc.Dims[i] || len(sizes) == 0:
		t.fail("cannot view axis %d of %v as %v", axis, t, dims(sizes))
		return
	case r+len(sizes)-1 > MaxRank:
		t.fail("%v with axis %d as %v has more than %d dimensions", t, axis, dims(sizes), MaxRank)
		return
	}
	stride := t.desc.Strides[i]
	copy(t.desc.Dims[i+len(sizes):], t.desc.Dims[i+1:r])
	copy(t.desc.Strides[i+len(sizes):], t.desc.Strides[i+1:r])
	for k := len(sizes) - 1; k >= 0; k-- {
		t.desc.Dims[i+k], t.desc.Strides[i+k] = sizes[k], stride
		stride *= sizes[k]
	}
	t.desc.Rank += uint8(len(sizes) - 1)
	t.unnamed()
}

// Narrow views length elements of an axis from start on.
func (t *Tensor) Narrow(axis int, start, length int64) *Tensor {
	v := t.view()
	if length < 0 || start < 0 {
		v.fail("narrow to %d elements from %d on axis %d of %v", length, start, axis, t)
	} else {
		v.slice(axis, start, start+length, 1)
	}
	return &v
}

// Select views one index of an axis and drops the axis.
func (t *Tensor) Select(axis int, index int64) *Tensor {
	v := t.view()
	i := v.axis(axis)
	if v.slice(i, index, index+1, 1); v.err == nil {
		v.drop(i)
	}
	return &v
}

func (t *Tensor) drop(i int) {
	if t.keepTiles(i >= t.Rank()-2, "drop one of the last two axes"); t.err != nil {
		return
	}
	if t.Format() == FractalNZ {
		copy(t.desc.Storage[i:], t.desc.Storage[i+1:])
		t.desc.StorageRank--
	}
	copy(t.desc.Dims[i:], t.desc.Dims[i+1:])
	copy(t.desc.Strides[i:], t.desc.Strides[i+1:])
	t.desc.Rank--
	t.unnamed()
}

// Unsqueeze views the tensor with a dimension of size one before axis; axis may equal the
// rank.
func (t *Tensor) Unsqueeze(axis int) *Tensor {
	v := t.view()
	n := v.Rank()
	if axis < 0 {
		axis += n + 1
	}
	if axis < 0 || axis > n || n == MaxRank {
		v.fail("axis %d cannot be added to %v", axis, t)
		return &v
	}
	if v.keepTiles(axis > n-2 || n+3 > MaxRank, "add this axis"); v.err != nil {
		return &v
	}
	if v.Format() == FractalNZ {
		copy(v.desc.Storage[axis+1:], t.desc.Storage[axis:n+2])
		v.desc.Storage[axis] = 1
		v.desc.StorageRank++
	}
	copy(v.desc.Dims[axis+1:], t.desc.Dims[axis:n])
	copy(v.desc.Strides[axis+1:], t.desc.Strides[axis:n])
	v.desc.Dims[axis] = 1
	v.desc.Strides[axis] = 1
	if axis < n {
		v.desc.Strides[axis] = t.desc.Dims[axis] * t.desc.Strides[axis]
	}
	v.desc.Rank++
	v.unnamed()
	return &v
}

// Squeeze views the tensor without a dimension of size one.
func (t *Tensor) Squeeze(axis int) *Tensor {
	v := t.view()
	if i := v.axis(axis); v.err == nil {
		if v.desc.Dims[i] != 1 {
			v.fail("axis %d of %v is not of size one", axis, t)
		} else {
			v.drop(i)
		}
	}
	return &v
}

// Expand views the tensor broadcast to a shape: new leading dimensions and dimensions of
// size one repeat without memory (stride 0). Such a view must not be written.
func (t *Tensor) Expand(shape ...int64) *Tensor {
	v := t.view()
	v.keepTiles(true, "be expanded")
	v.expand(t, shape)
	return &v
}

func (t *Tensor) expand(from *Tensor, shape []int64) {
	if t.err != nil {
		return
	}
	lead := len(shape) - from.Rank()
	if _, ok := elements(shape); !ok || lead < 0 || len(shape) > MaxRank {
		t.fail("%v cannot be expanded to %s", from, dims(shape))
		return
	}
	for i, d := range shape {
		stride := int64(0)
		if i >= lead && from.desc.Dims[i-lead] == d {
			stride = from.desc.Strides[i-lead]
		} else if i >= lead && from.desc.Dims[i-lead] != 1 {
			t.fail("%v cannot be expanded to %s", from, dims(shape))
			return
		}
		t.desc.Dims[i], t.desc.Strides[i] = d, stride
	}
	if int(t.desc.Rank) != len(shape) {
		t.unnamed()
	}
	t.desc.Rank = uint8(len(shape))
}
