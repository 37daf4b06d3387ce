package indexing

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Lookup copies the slices of in along axis that index selects. The shape of out is that of in
// with axis replaced by the shape of index; with axis 0 it is an embedding lookup. Types and
// index values follow the rules of Gather.
func Lookup(out, in kernel.View, axis int, index kernel.View) error {
	before, after := in.Shape[:axis], in.Shape[axis+1:]
	rank := axis + max(len(index.Shape), 1) + len(after)
	memory := make([]int64, 0, 7*rank) // of all shapes and strides
	joined := func(a, b, c []int64) []int64 {
		from := len(memory)
		memory = append(append(append(memory, a...), b...), c...)
		return memory[from:len(memory):len(memory)]
	}
	if want := joined(before, index.Shape, after); !slices.Equal(out.Shape, want) {
		return fmt.Errorf("kernel: selecting along dimension %d of %v by %v gives %v, not %v", axis, in.Shape, index.Shape, want, out.Shape)
	}
	zeros, ones := [kernel.MaxRank]int64{}, [kernel.MaxRank]int64{1, 1, 1, 1, 1, 1, 1, 1}
	if rank > kernel.MaxRank {
		return fmt.Errorf("kernel: the result %v has more than %d dimensions", out.Shape, kernel.MaxRank)
	}
	if len(index.Shape) == 0 {
		index.Shape, index.Strides = joined(ones[:1], nil, nil), joined(ones[:1], nil, nil)
		out.Shape = joined(before, index.Shape, after)
		out.Strides = joined(out.Strides[:axis], index.Strides, out.Strides[axis:])
	}
	// Gather along the first dimension of index; in is broadcast along the others.
	extra := index.Shape[1:]
	in.Shape = joined(in.Shape[:axis+1], extra, after)
	in.Strides = joined(in.Strides[:axis+1], zeros[:len(extra)], in.Strides[axis+1:])
	index.Strides = joined(index.Strides, zeros[:len(after)], nil)
	index.Shape = joined(index.Shape, ones[:len(after)], nil)
	return Gather(out, in, axis, index)
}

// EmbeddingGrad sets row k of out to the sum of the rows of grad whose index is k, added in row
// order in fp32. grad has the shape of index followed by the row size. Row padding of out stays
// 0 (-1 means no such row); with byFrequency each sum is divided by its number of rows.
func EmbeddingGrad(out, grad, index kernel.View, padding int64, byFrequency bool) error {
	if err := elementwise.Zero(out); err != nil || grad.Len() == 0 {
		return err
	}
	width := grad.Shape[len(grad.Shape)-1]
	rows := kernel.View{Data: grad.Data, DType: grad.DType, Shape: []int64{grad.Len() / width, width}}
	step, ok := grad.RowStep()
	if rows.Strides = []int64{step, 1}; !ok {
		whole, release := kernel.TemporaryOf(grad.DType, grad.Shape...)
		defer release()
		if err := elementwise.Copy(whole, grad); err != nil {
			return err
		}
		rows.Data, rows.Strides = whole.Data, kernel.ContiguousStrides(rows.Shape)
	}
	at, release, err := places(index, out.Shape[0])
	if err != nil {
		return err
	}
	defer release()
	sums := out
	if byFrequency && out.DType != dtype.Float32 {
		var releaseSums func()
		sums, releaseSums = kernel.TemporaryOf(dtype.Float32, out.Shape...)
		defer releaseSums()
		if err := elementwise.Zero(sums); err != nil {
			return err
		}
	}
	at.Shape, at.Strides = rows.Shape, []int64{1, 0}
	if err := scatter(ScatterAdd, sums, rows, 0, at); err != nil {
		return err
	}
	if byFrequency {
		counts, release := kernel.TemporaryOf(dtype.Float32, out.Shape[0], 1)
		defer release()
		if err := elementwise.Fill(counts, elementwise.Real(0)); err != nil {
			return err
		}
		at.Shape, at.Strides = []int64{rows.Shape[0]}, []int64{1}
		for _, k := range at.Ints() {
			counts.Floats()[k]++
		}
		for i, n := range counts.Floats() {
			counts.Floats()[i] = max(n, 1)
		}
		if err := elementwise.Map(elementwise.Div, dtype.Float32, out, []elementwise.Input{elementwise.Of(sums), elementwise.Of(counts)}); err != nil {
			return err
		}
	}
	if padding >= 0 && padding < out.Shape[0] {
		return elementwise.Zero(out.Narrow(0, padding, 1))
	}
	return nil
}
