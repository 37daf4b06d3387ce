package layout

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// moving lists the operators that move elements without computing anything except casts.
var moving = op.Table{
	"Cast": cast, "InplaceCopy": inplaceCopy, "Permute": permute, "Cat": cat, "Stack": stack, "Slice": sliceAlong,
	"SliceV2": sliceV2, "Flip": flip, "Roll": roll, "Repeat": repeat, "Expand": expandTo, "Flatten": flatten,
	"SplitTensor": splitTensor, "SplitWithSize": splitWithSize, "ConstantPadNd": constantPad,
	"Tril": triangular, "Triu": triangular, "InplaceTril": triangular, "InplaceTriu": triangular,
}.Selects("Slice", "SliceV2").Overwrites("InplaceCopy")

func cast(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.SameShape(self, out)
	if want := dtype.Type(c.Int("dtype")); out.DType != want {
		c.Invalid("%v must have dtype %v, the argument dtype", out, want)
	}
	switch from, to := self.DType, out.DType; {
	case from == to:
	case castsMinifloat(from, to):
		return castMinifloat(c, out, self)
	case to == dtype.Int4:
		return castInt4(c, out, self)
	case from.IsComplex() || to.IsComplex():
		return castComplex(c, out, self)
	case !kernel.Computes(from) || !kernel.Computes(to):
		c.Fail(op.NoStep, "%v cannot be cast to %v: CANN has no kernel for that pair", self, to)
	}
	c.Copies(out, self)
	c.SameStorage(out, self)
	return c.CopyRun(out.Stored, self.Stored)
}

// castComplex casts from or to a complex type and broadcasts self to the shape of out. A real type gets
// the real parts, and a bool whether the number is not 0. The kernels of complex32, which the 950 has, are for complex64 and float16.
func castComplex(c *op.Call, out, self *op.Tensor) (op.Run, error) {
	c.Plain(out, self)
	for _, d := range [][2]dtype.Type{{self.DType, out.DType}, {out.DType, self.DType}} {
		one, other := d[0], d[1]
		if one == dtype.Complex32 && other != dtype.Complex64 && other != dtype.Float16 || !one.IsComplex() && !kernel.Computes(one) {
			c.Fail(op.NoStep, "%v cannot be cast to %v: CANN has no kernel for that pair", self, out.DType)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		values, err := self.Numbers(out.Shape)
		if err != nil {
			return err
		}
		return out.SetNumbers(values)
	}, nil
}

// castInt4 keeps the low four bits of each int32, as the 950 does: 8 becomes -8.
func castInt4(c *op.Call, out, self *op.Tensor) (op.Run, error) {
	c.Plain(out, self)
	if self.DType != dtype.Int32 {
		c.Fail(op.NoStep, "%v cannot be cast to int4: CANN casts int32 alone to it", self)
	}
	if !self.Contiguous() || !out.Contiguous() {
		c.Invalid("%v and %v must be contiguous: int4 elements share bytes", self, out)
	}
	if c.Err() == nil && (self.Rank() == 0 || self.Dim(-1)%2 != 0) {
		c.Fail(op.TilingRefused, "%v: the last dimension must be even, as two int4 elements share a byte", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		n := self.Len()
		from, to := unsafe.Slice((*int32)(self.View().Data), n), unsafe.Slice((*byte)(out.View().Data), n/2)
		for i := range to {
			to[i] = byte(from[2*i])&15 | byte(from[2*i+1])<<4
		}
		return nil
	}, nil
}

// inplaceCopy copies src, broadcast and cast, into selfRef.
func inplaceCopy(c *op.Call) (op.Run, error) {
	self, src := c.Tensor("selfRef"), c.Tensor("src")
	if joined, ok := op.BroadcastShape(self.Shape, src.Shape); !ok || !slices.Equal(joined, self.Shape) {
		c.Invalid("%v cannot be broadcast to %v", src, self)
	}
	if self.DType != src.DType && (self.DType.IsComplex() || src.DType.IsComplex()) {
		return castComplex(c, self, src)
	}
	c.Copies(self, src)
	c.SameStorage(self, src)
	return c.CopyRun(self.Stored, src.Stored)
}

func permute(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	order := c.Ints("dims")
	if len(order) != self.Rank() {
		c.Invalid("dims %v has %d entries for %v", order, len(order), self)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	shape, strides := make([]int64, len(order)), make([]int64, len(order))
	seen := make([]bool, len(order))
	for i, d := range order {
		axis := c.Axis(self, d)
		if seen[axis] {
			c.Invalid("dims %v names dimension %d twice", order, axis)
		}
		seen[axis] = true
		shape[i], strides[i] = self.Shape[axis], self.Strides[axis]
	}
	return moveTo(c, out, self, shape, strides, "the permuted shape of self")
}

// moveTo copies a view of src with the given shape and strides to out.
func moveTo(c *op.Call, out, src *op.Tensor, shape, strides []int64, what string) (op.Run, error) {
	c.Plain(out, src)
	c.Shape(out, shape, what)
	c.Copies(out, src)
	return c.CopyRun(out.View, func() kernel.View { return src.As(shape, strides) })
}

// cat joins tensors along a dimension. Empty vectors are skipped, whatever the rank of the
// others.
func cat(c *op.Call) (op.Run, error) {
	tensors, out := c.Tensors("tensors"), c.Tensor("out")
	var parts []*op.Tensor
	for _, t := range tensors {
		if !slices.Equal(t.Shape, []int64{0}) {
			parts = append(parts, t)
		}
	}
	if len(tensors) == 0 {
		c.Invalid("tensors is empty; give at least one")
	}
	if len(parts) == 0 || c.Err() != nil {
		c.Shape(out, []int64{0}, "all tensors are empty")
		return func(*op.Exec) error { return nil }, c.Err()
	}
	axis := c.Axis(parts[0], c.Int("dim"))
	want := slices.Clone(parts[0].Shape)
	if len(want) == 0 {
		c.Invalid("%v has no dimensions; tensors without dimensions cannot be joined", parts[0])
		return nil, c.Err()
	}
	want[axis] = 0
	for _, t := range parts {
		c.Plain(t)
		if op.IsPrivate(t.Format) { // not in the rules, as the source asks each member of the list
			c.Invalid("%v has a private format; cast it to ND with aclnnNpuFormatCast", t)
		}
		c.DType(t, joinedTypes(c)...)
		if t.Format != parts[0].Format {
			c.Invalid("formats differ: %v and %v; they must be equal", parts[0], t)
		}
		c.Copies(out, t)
		rest := slices.Clone(t.Shape)
		if len(rest) != len(want) {
			c.Invalid("%v and %v have different ranks", parts[0], t)
			return nil, c.Err()
		}
		size := rest[axis]
		rest[axis] = want[axis]
		if !slices.Equal(rest, want) {
			c.Invalid("%v and %v differ in another dimension than %d", parts[0], t, axis)
		}
		if !op.Castable(t.DType, out.DType) {
			c.Invalid("%v cannot be stored in %v", t, out)
		}
		want[axis] += size
	}
	c.Plain(out)
	c.Shape(out, want, "the joined shape")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		at := int64(0)
		for _, t := range parts {
			if err := elementwise.Copy(out.View().Narrow(axis, at, t.Shape[axis]), t.View()); err != nil {
				return err
			}
			at += t.Shape[axis]
		}
		return nil
	}, nil
}

// joinedTypes are the element types that Cat takes. The source of its checks leaves out empty vectors
// first, which the rules cannot express.
func joinedTypes(c *op.Call) []dtype.Type {
	types := []dtype.Type{
		dtype.Float32, dtype.Int32, dtype.Int64, dtype.Float16, dtype.Int16, dtype.Int8, dtype.Uint8, dtype.Float64, dtype.Complex64, dtype.Bool,
	}
	switch c.Chip() {
	case acceptance.Ascend910, acceptance.Ascend310P:
		return types
	case acceptance.Ascend950:
		types = append(types, dtype.Uint16, dtype.Uint32, dtype.Uint64, dtype.Float8E4M3, dtype.Float8E5M2, dtype.HiFloat8, dtype.Float8E8M0)
	}
	return append(types, dtype.BFloat16)
}

// stack joins tensors of one shape along a new dimension.
func stack(c *op.Call) (op.Run, error) {
	tensors, out := c.Tensors("tensors"), c.Tensor("out")
	if len(tensors) == 0 {
		c.Invalid("tensors is empty; give at least one")
		return nil, c.Err()
	}
	c.SameShape(tensors[0], tensors[1:]...)
	axis := c.Axis(&op.Tensor{Shape: append(slices.Clone(tensors[0].Shape), 1)}, c.Int("dim"))
	if err := c.Err(); err != nil {
		return nil, err
	}
	c.Shape(out, slices.Insert(slices.Clone(tensors[0].Shape), axis, int64(len(tensors))), "the stacked shape")
	for _, t := range append([]*op.Tensor{out}, tensors...) {
		c.Plain(t)
		c.Copies(out, t)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		for i, t := range tensors {
			if err := elementwise.Copy(out.View().Select(axis, int64(i)), t.View()); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// flatten reshapes self to a matrix: the dimensions before axis become the rows, and those from
// axis on become the columns.
func flatten(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	axis := c.Int("axis")
	if n := int64(self.Rank()); axis < -n || axis > n {
		c.Invalid("axis %d is out of range for %v; use %d to %d", axis, self, -n, n)
		return nil, c.Err()
	} else if axis < 0 {
		axis += n
	}
	rows, columns := int64(1), int64(1)
	for i, d := range self.Shape {
		if int64(i) < axis {
			rows *= d
		} else {
			columns *= d
		}
	}
	c.Plain(self, out)
	c.Copies(out, self)
	c.Shape(out, []int64{rows, columns}, "self flattened at axis")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return elementwise.CopyInOrder(out.View(), self.View()) }, nil
}
