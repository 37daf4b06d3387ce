package layout

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// viewCopies lists the operators that copy between views described by tensors.
var viewCopies = op.Table{"ViewCopy": viewCopy}.Selects()

// describedView is a view over the memory of a tensor. Its sizes, strides and offset, in
// elements, are tensors as well.
type describedView struct{ over, sizes, strides, offset *op.Tensor }

// viewCopy sets dst_out to dst, with the elements of a view of dst replaced by those of a view
// of src. The device reads the descriptions in phase one, but the emulator reads them when the
// operator runs, so it does not detect a description that a stream is still writing.
func viewCopy(c *op.Call) (op.Run, error) {
	dst, out := c.Tensor("dst"), c.Tensor("dst_out")
	to := describedView{out, c.Tensor("dst_size"), c.Tensor("dst_stride"), c.Tensor("dst_storage_offset")}
	from := describedView{c.Tensor("src"), c.Tensor("src_size"), c.Tensor("src_stride"), c.Tensor("src_storage_offset")}
	c.Plain(dst, out, from.over)
	c.DType(dst, dtype.Float16, dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Uint8, dtype.Int16, dtype.Uint16, dtype.Int32, dtype.Uint32, dtype.Bool, dtype.Int64)
	c.SameDType(dst, from.over, out)
	c.DType(to.sizes, op.IndexTypes...)
	c.SameDType(to.sizes, to.strides, to.offset, from.sizes, from.strides, from.offset)
	c.SameShape(dst, out)
	rank := to.sizes.Len()
	if rank < 1 || rank > kernel.MaxRank {
		c.Invalid("%v describes %d dimensions; use 1 to %d", to.sizes, rank, kernel.MaxRank)
	}
	for _, t := range []*op.Tensor{to.strides, from.sizes, from.strides} {
		if t.Len() != rank {
			c.Invalid("%v must have %d elements, one for each of %v", t, rank, to.sizes)
		}
	}
	c.Single(to.offset)
	c.Single(from.offset)
	for _, t := range []*op.Tensor{dst, out, from.over} {
		if !t.Contiguous() {
			c.Invalid("%v must be contiguous; the view is described by other tensors", t)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if dst.Len() == 0 || from.over.Len() == 0 {
			return nil
		}
		if out.Data != dst.Data {
			if err := elementwise.Copy(out.View(), dst.View()); err != nil {
				return err
			}
		}
		into, err := to.view()
		if err != nil {
			return err
		}
		source, err := from.view()
		if err != nil {
			return err
		}
		if !slices.Equal(into.Shape, source.Shape) {
			return fmt.Errorf("dst_size is %s and src_size %s; they must be equal", op.Dims(into.Shape), op.Dims(source.Shape))
		}
		return elementwise.Copy(into, source)
	}, nil
}

// view reads the description. A view that exceeds the memory is an error.
func (d describedView) view() (v kernel.View, err error) {
	var numbers [3][]int64
	for i, t := range []*op.Tensor{d.sizes, d.strides, d.offset} {
		if numbers[i], err = elementwise.Indices(t.View()); err != nil {
			return v, err
		}
	}
	sizes, strides, first := numbers[0], numbers[1], numbers[2][0]
	last := first
	for i, n := range sizes {
		if n < 1 || strides[i] < 1 {
			return v, fmt.Errorf("%v and %v hold %s and %s; they must be positive", d.sizes, d.strides, op.Dims(sizes), op.Dims(strides))
		}
		if n > 1 && strides[i] > d.over.Len() {
			last = d.over.Len()
			break
		}
		last += (n - 1) * strides[i]
	}
	if first < 0 || last >= d.over.Len() {
		return v, fmt.Errorf("sizes %s, strides %s and offset %d leave %v", op.Dims(sizes), op.Dims(strides), first, d.over)
	}
	flat := d.over.As([]int64{d.over.Len()}, []int64{1}).Narrow(0, first, 1)
	flat.Shape, flat.Strides = sizes, strides
	return flat, nil
}
