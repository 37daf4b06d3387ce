package matmul

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// groupedMatmulAdd accumulates gradients of grouped weights: yRef[g] += x[g]ᵀ·weight[g], for
// groups of rows of x, [tokens, M], and weight, [tokens, N]. A group without rows leaves its
// part of yRef unchanged.
func groupedMatmulAdd(c *op.Call) (op.Run, error) {
	x, weight, list, y := c.Tensor("x"), c.Tensor("weight"), c.Tensor("groupList"), c.Tensor("yRef")
	if c.Err() != nil {
		return nil, c.Err()
	}
	if !c.Bool("transposeX") || c.Bool("transposeWeight") || c.Int("groupType") != groupSum {
		c.Invalid("transposeX %t, transposeWeight %t, groupType %d are not supported; only true, false and 2 are",
			c.Bool("transposeX"), c.Bool("transposeWeight"), c.Int("groupType"))
	}
	c.Rank(x, 2, 2)
	c.Rank(weight, 2, 2)
	c.Rank(y, 2, 3)
	c.DType(x, dtype.Float16, dtype.BFloat16)
	c.SameDType(x, weight)
	c.DType(y, dtype.Float32)
	if c.Err() != nil {
		return nil, c.Err()
	}
	// This is the product grouped along the sum (K), applied to a transposed view of x.
	view := *x
	view.Shape, view.Strides = []int64{x.Dim(1), x.Dim(0)}, []int64{x.Strides[1], x.Strides[0]}
	slabs := *y
	slabs.Shape = []int64{list.Len(), x.Dim(1), weight.Dim(1)}
	slabs.Strides = op.ContiguousStrides(slabs.Shape)
	g := &grouped{
		Call: c, x: []*op.Tensor{&view}, weight: []*op.Tensor{weight}, y: []*op.Tensor{&slabs},
		groupType: groupSum, splitItem: 2, groups: groupList{device: list},
	}
	g.listType = g.attribute("groupListType")
	if g.listType != 0 && g.listType != 1 {
		c.Invalid("groupListType must be 0 (running sums) or 1 (sizes), not %d", g.listType)
	}
	for _, t := range []*op.Tensor{x, weight, y} {
		if !t.Contiguous() || op.IsPrivate(t.Format) {
			c.Invalid("%v must be contiguous and in ND format", t)
		}
	}
	if x.Dim(0) != weight.Dim(0) {
		c.Invalid("%v and %v must have the same number of rows", x, weight)
	}
	for _, t := range []*op.Tensor{x, weight} {
		if t.Dim(1) > maxInnerAxis {
			c.Invalid("%v has %d columns; at most %d are supported", t, t.Dim(1), maxInnerAxis)
		}
	}
	g.groups.check(g)
	if c.Err() != nil {
		return nil, c.Err()
	}
	e, m, n := list.Dim(0), x.Dim(1), weight.Dim(1)
	if y.Len() != e*m*n {
		c.Invalid("%v must have shape [%d,%d,%d], or [%d,%d], for %d groups of %v and %v", y, e, m, n, e*m, n, e, x, weight)
	}
	if e > maxGroups {
		c.Invalid("%v has %d groups; at most %d are supported", list, e, maxGroups)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if x.Len() == 0 || weight.Len() == 0 {
		return func(*op.Exec) error { return nil }, nil
	}
	return func(*op.Exec) error {
		return addProducts(g, y.As(slabs.Shape, slabs.Strides), x.View(), weight.View())
	}, nil
}

// addProducts adds to each matrix of out the product x[g]ᵀ·weight[g] over the rows of its group.
func addProducts(g *grouped, out, x, weight kernel.View) error {
	spans, err := g.spans()
	if err != nil {
		return err
	}
	for _, s := range spans {
		if s.size == 0 {
			continue
		}
		slab := out.Select(0, s.group)
		columns := op.Permuted(x.Narrow(0, s.first, s.size), []int64{1, 0})
		if err := gemmkernel.Gemm(gemmkernel.Product{Out: slab, A: columns, B: weight.Narrow(0, s.first, s.size), Add: &slab, Alpha: 1, Beta: 1}); err != nil {
			return err
		}
	}
	return nil
}
