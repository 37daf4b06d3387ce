package index

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
)

// cacheWrites are the operators that write new tokens into the caches of sequences.
var cacheWrites = op.Table{"InplaceQuantScatter": quantScatter, "InplaceQuantScatterV2": quantScatter, "ScatterList": scatterList}.Selects()

// spans reads the first row of each update in its cache and checks that the update's rows fit into
// room rows.
func spans(index kernel.View, rows []int64, room int64) ([]int64, error) {
	first, err := elementwise.Indices(index)
	if err != nil {
		return nil, err
	}
	for i, k := range first {
		if k < 0 || rows[i] < 0 || k > room-rows[i] {
			return nil, fmt.Errorf("index %d at position %d: %d rows from there are not within %d", k, i, rows[i], room)
		}
	}
	return first, nil
}

// quantScatter quantises updates and writes each into selfRef, starting at the row in indices. The second version
// has floats of eight bits. In mode "hybrid" the device rounds some numbers at random; here all are rounded as in
// mode "round".
func quantScatter(c *op.Call) (op.Run, error) {
	self, indices, updates, scales, zeros := c.Tensor("selfRef"), c.Tensor("indices"), c.Tensor("updates"), c.Tensor("quantScales"), c.Optional("quantZeroPoints")
	c.Plain(self, indices, updates, scales)
	types, mode := []dtype.Type{dtype.Int8}, "rint"
	if c.Has("roundMode") {
		types = append(types, dtype.Float8E4M3, dtype.Float8E5M2, dtype.HiFloat8)
		mode = c.Text("roundMode")
	}
	c.DType(self, types...)
	c.DType(indices, op.IndexTypes...)
	c.DType(updates, dtype.Float16, dtype.BFloat16)
	c.DType(scales, dtype.Float32, dtype.BFloat16)
	c.Rank(indices, 1, 1)
	c.Rank(self, 3, 8)
	c.Rank(updates, self.Rank(), self.Rank())
	if c.Int("reduction") != 1 {
		c.Invalid("reduction is %d; only 1 (update) is supported", c.Int("reduction"))
	}
	if wide := self.DType == dtype.HiFloat8; wide && mode != "round" && mode != "hybrid" || !wide && mode != "rint" {
		c.Invalid("roundMode is %q; use round or hybrid for hifloat8, and rint for other types", mode)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := self.Rank() - 1
	axis := last - 1
	if c.Axis(self, c.Int("axis")) != axis || c.Axis(self, c.Int("quantAxis")) != last {
		c.Invalid("axis is %d and quantAxis %d; only the last dimension but one, and the last, are supported", c.Int("axis"), c.Int("quantAxis"))
	}
	want := append([]int64{}, self.Shape...)
	want[0], want[axis] = indices.Len(), updates.Shape[axis]
	c.Shape(updates, want, "selfRef with an update for each index")
	if want[0] > self.Shape[0] || want[axis] > self.Shape[axis] {
		c.Invalid("%v does not fit into %v", updates, self)
	}
	for _, t := range []*op.Tensor{scales, zeros} {
		if t != nil && (t.Len() != self.Shape[last] || !t.Contiguous()) {
			c.Invalid("%v must be contiguous, with an element for each of the last dimension of %v", t, updates)
		}
	}
	if zeros != nil {
		c.Plain(zeros)
		c.DType(zeros, dtype.Int32, dtype.BFloat16)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		first, err := spans(indices.View(), slices.Repeat([]int64{updates.Shape[axis]}, int(indices.Len())), self.Shape[axis])
		if err != nil || updates.Len() == 0 {
			return err
		}
		row := []int64{self.Shape[last]}
		q := gemm.Quantizer{Factor: scales.As(row, []int64{1}), Divide: true, Round: elementwise.Round}
		if zeros != nil {
			q.Offset = zeros.As(row, []int64{1})
		}
		for i, k := range first {
			into, from := self.View().Select(0, int64(i)).Narrow(axis-1, k, updates.Shape[axis]), updates.View().Select(0, int64(i))
			if self.DType == dtype.Int8 {
				err = q.Quantize(into, from)
			} else {
				err = minifloat.Quantize(q, into, from)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// scatterList writes update b into tensor b of a list, starting at the row in indice. If indice
// holds pairs, the second number is the number of rows. Tensors whose mask is 0 are not changed.
func scatterList(c *op.Call) (op.Run, error) {
	list, index, updates, mask := c.Tensors("varRef"), c.Tensor("indice"), c.Tensor("updates"), c.Optional("maskOptional")
	n := int64(len(list))
	if n == 0 {
		c.Fail(op.NullPointer, "varRef is null or empty")
		return nil, c.Err()
	}
	c.Plain(index)
	c.Movable(updates)
	c.DType(index, op.IndexTypes...)
	if mode := c.Text("reduceOptional"); mode != "" && mode != "update" {
		c.Unfit("reduceOptional is %q; only update is supported", mode)
	}
	axis := c.Axis(updates, c.Int("axis"))
	if axis == 0 {
		c.Unfit("axis %d of %v selects the tensor; use another", c.Int("axis"), updates)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	pairs := index.Rank() == 2
	if pairs {
		c.Fits(index, []int64{n, 2}, "a place and a length for each tensor of varRef")
	} else {
		c.Fits(index, []int64{n}, "a place for each tensor of varRef")
	}
	want := append([]int64{n}, list[0].Shape...)
	if axis < len(want) && updates.Rank() == len(want) {
		want[axis] = min(want[axis], updates.Shape[axis])
	}
	c.Fits(updates, want, "an update for each tensor of varRef")
	for _, t := range list {
		c.Plain(t)
		c.SameDType(updates, t)
		c.Fits(t, list[0].Shape, "as the first of varRef")
	}
	if mask != nil {
		c.Plain(mask)
		c.DType(mask, dtype.Uint8)
		c.Fits(mask, []int64{n}, "one for each tensor of varRef")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		places, lengths := index.View(), slices.Repeat([]int64{updates.Shape[axis]}, int(n))
		var err error
		if pairs {
			if lengths, err = elementwise.Indices(places.Select(1, 1)); err != nil {
				return err
			}
			if longest := slices.Max(lengths); longest > updates.Shape[axis] {
				return fmt.Errorf("%v holds a length of %d; an update has %d rows", index, longest, updates.Shape[axis])
			}
			places = places.Select(1, 0)
		}
		first, err := spans(places, lengths, list[0].Shape[axis-1])
		if err != nil || updates.Len() == 0 {
			return err
		}
		used := make([]int64, n)
		for i := range used {
			used[i] = 1
		}
		if mask != nil {
			if used, err = elementwise.Indices(mask.View()); err != nil {
				return err
			}
		}
		for i, t := range list {
			if used[i] == 0 {
				continue
			}
			if err := elementwise.Copy(t.View().Narrow(axis-1, first[i], lengths[i]), updates.View().Select(0, int64(i)).Narrow(axis-1, 0, lengths[i])); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
