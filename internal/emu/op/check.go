package op

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// Unfit refuses shapes or attributes with 561002, the code of operators whose tiling checks them.
func (c *Call) Unfit(format string, args ...any) { c.Fail(TilingRefused, format, args...) }

// Fits is like Shape but refuses with 561002.
func (c *Call) Fits(t *Tensor, want []int64, what string) {
	if !slices.Equal(t.Shape, want) {
		c.Unfit("%v must have shape %s (%s)", t, Dims(want), what)
	}
}

// Dense refuses tensors with gaps between their elements, or with elements in another order.
func (c *Call) Dense(tensors ...*Tensor) {
	for _, t := range tensors {
		if !t.Contiguous() {
			c.Invalid("%v must be contiguous", t)
		}
	}
}

// Matrix refuses tensors that do not have two dimensions, with 561002.
func (c *Call) Matrix(tensors ...*Tensor) {
	for _, t := range tensors {
		if t.Rank() != 2 {
			c.Unfit("%v must have 2 dimensions", t)
		}
	}
}

// SameShape refuses tensors whose shape differs from that of the first.
func (c *Call) SameShape(first *Tensor, others ...*Tensor) {
	for _, t := range others {
		if !slices.Equal(first.Shape, t.Shape) {
			c.Invalid("shapes differ: %v and %v; they must be equal", first, t)
		}
	}
}

// SameDType refuses tensors whose dtype differs from that of the first.
func (c *Call) SameDType(first *Tensor, others ...*Tensor) {
	for _, t := range others {
		if t.DType != first.DType {
			c.Invalid("dtypes differ: %v and %v; they must be equal", first, t)
		}
	}
}

// Same applies both SameShape and SameDType.
func (c *Call) Same(first *Tensor, others ...*Tensor) {
	c.SameShape(first, others...)
	c.SameDType(first, others...)
}

// DType refuses a tensor whose dtype is not among those allowed.
func (c *Call) DType(t *Tensor, allowed ...dtype.Type) {
	if !slices.Contains(allowed, t.DType) {
		c.Invalid("%v has a dtype that is not supported; use one of %v", t, allowed)
	}
}

// Shape refuses a tensor whose shape is not want. The text explains to the caller where want comes
// from.
func (c *Call) Shape(t *Tensor, want []int64, what string) {
	if !slices.Equal(t.Shape, want) {
		c.Invalid("%v must have shape %s (%s)", t, Dims(want), what)
	}
}

// Rank refuses a tensor with fewer than lo or more than hi dimensions.
func (c *Call) Rank(t *Tensor, lo, hi int) {
	if t.Rank() < lo || t.Rank() > hi {
		c.Invalid("%v has %d dimensions; %d to %d are supported", t, t.Rank(), lo, hi)
	}
}

// NoCommonShape is like Invalid, for shapes that do not broadcast.
func (c *Call) NoCommonShape(format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Code: InvalidParam, ID: "EZ1007", Text: c.Name() + ": " + fmt.Sprintf(format, args...)}
	}
}

// Depth refuses a tensor of more than kernel.MaxRank dimensions, unless CANN's rules limit how many
// the operator takes.
func (c *Call) Depth(t *Tensor) {
	if t.Rank() > kernel.MaxRank && (t.Rank() > maxShape || !c.ruled()) {
		c.Rank(t, 0, kernel.MaxRank)
	}
}

// Axis converts a dimension index, which may be negative, to an index from 0 on. It refuses an
// index out of range and returns 0 for it.
func (c *Call) Axis(t *Tensor, axis int64) int {
	n := int64(max(t.Rank(), 1))
	if axis < -n || axis >= n {
		c.Invalid("dimension %d is out of range for %v; use %d to %d", axis, t, -n, n-1)
		return 0
	}
	if axis < 0 {
		axis += n
	}
	return int(axis)
}

// Plain refuses tensors whose strides do not address elements, and tensors of more than
// kernel.MaxRank dimensions.
func (c *Call) Plain(tensors ...*Tensor) {
	c.Linear(tensors...)
	for _, t := range tensors {
		c.Rank(t, 0, kernel.MaxRank)
	}
}

// Linear refuses tensors whose strides do not address elements.
func (c *Call) Linear(tensors ...*Tensor) {
	for _, t := range tensors {
		if c.Permutes(t) {
			c.Invalid("%v has a private format; cast it to ND with aclnnNpuFormatCast", t)
		}
	}
}

// Permutes reports whether a tensor has a private format whose storage holds the elements in another
// order. Unless CANN's rules name the formats that the operator takes, all private formats count.
func (c *Call) Permutes(t *Tensor) bool { return t.Permuted() || IsPrivate(t.Format) && !c.ruled() }

// ruled reports whether CANN's rules of the operator are known.
func (c *Call) ruled() bool { return len(checklistOf(c.Op, c.chip).rules) > 0 }

// SameStorage refuses two tensors of which one has a private format, unless their formats and
// storage shapes are equal.
func (c *Call) SameStorage(dst, src *Tensor) {
	if (c.Permutes(dst) || c.Permutes(src)) && (dst.Format != src.Format || !slices.Equal(dst.Storage, src.Storage)) {
		c.Invalid("formats differ: %v and %v; cast one with aclnnNpuFormatCast", src, dst)
	}
}

// Copies refuses pairs of element types between which no copy or cast is possible.
func (c *Call) Copies(dst, src *Tensor) {
	if dst.DType == src.DType {
		if dst.DType.Size() == 0 {
			c.Invalid("%v has a dtype that shares bytes, which cannot be copied", src)
		}
		return
	}
	for _, t := range []*Tensor{dst, src} {
		if !kernel.Computes(t.DType) {
			c.Invalid("%v cannot be cast to %v: %v is not supported", src, dst.DType, t.DType)
		}
	}
}

// Movable refuses tensors whose elements cannot be copied individually: private formats, and dtypes
// that pack several elements into a byte.
func (c *Call) Movable(tensors ...*Tensor) {
	c.Plain(tensors...)
	for _, t := range tensors {
		if t.DType.Size() == 0 {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
}

// Countable refuses private formats and element types that cannot be compared.
func (c *Call) Countable(tensors ...*Tensor) {
	c.Plain(tensors...)
	for _, t := range tensors {
		if !kernel.Computes(t.DType) {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
}

// Single refuses a tensor that does not have exactly one element.
func (c *Call) Single(t *Tensor) {
	if t.Len() != 1 {
		c.Invalid("%v must have one element", t)
	}
}

// NoneOf refuses the call if one of the named tensors is given and not empty. Such arguments are
// reserved or not supported.
func (c *Call) NoneOf(names ...string) {
	for _, name := range names {
		if !c.Has(name) {
			continue
		}
		if t := c.Optional(name); t != nil && t.Len() > 0 {
			c.Invalid("%v is given; it is not supported", t)
		}
	}
}

// CubeMathType refuses values of cubeMathType that do not exist. 1, 2 and 3 round float32 factors, see Rounding; 4 asks for
// more accurate accumulation than the device has otherwise, and which the emulator has always. The cube of the Ascend910 and
// 310P takes float32 factors only if the mode lets it round them to float16.
func (c *Call) CubeMathType(factors ...*Tensor) {
	v := c.Int("cubeMathType")
	for _, t := range factors {
		if t != nil && t.DType == dtype.Float32 && (v == 0 || v == 3) && c.multipliesHalf() {
			c.Invalid("%v and cubeMathType %d: this chip multiplies float16; use 1 (ALLOW_FP32_DOWN_PRECISION)", t, v)
		}
	}
	if v < 0 || v > 4 {
		c.Invalid("cubeMathType %d does not exist; use 0 (KEEP_DTYPE), 1 (ALLOW_FP32_DOWN_PRECISION), 2 (USE_FP16), 3 (USE_HF32) or 4 (USE_FP32_ADD)", v)
	}
}
