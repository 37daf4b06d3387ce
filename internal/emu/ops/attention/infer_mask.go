package attention

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// checkMask checks the mask. A dense mask may be larger than the scores.
func (a *inference) checkMask(c *op.Call) {
	m := &a.mask
	if m.mode < sparseDense || m.mode > sparseBand {
		c.Unfit("sparseMode %d is not supported; use 0 (dense with a band), 1 (dense), 2 (causal from the upper left), 3 (from the lower right) or 4 (band)", m.mode)
		return
	}
	if m.tensor == nil {
		if m.mode != sparseDense && c.Has("sparseMode") && a.rows > 1 {
			c.Fail(op.NullPointer, "attenMask is null; sparseMode %d needs one", m.mode)
		}
		return
	}
	c.Plain(m.tensor)
	c.DType(m.tensor, dtype.Bool, dtype.Int8, dtype.Uint8)
	if c.Err() != nil {
		return
	}
	if a.incremental() && !m.compressed() {
		a.checkOwnMask(c)
	}
	if m.compressed() {
		if n := m.tensor.Rank(); n < 2 || !slices.Equal(m.tensor.Shape[n-2:], compressedMask) {
			c.Unfit("%v must be the upper triangle of shape [2048,2048]: sparseMode %d stands for its rule at every length", m.tensor, m.mode)
		}
		return
	}
	c.Rank(m.tensor, 2, 4)
	if c.Err() == nil {
		a.spread(c, m.tensor)
	}
}

// spread reshapes a dense mask to [batch, 1, rows, columns], with stride 0 in dimensions that
// repeat. If every item has a single query token, a matrix may have one row for each batch item.
func (a *inference) spread(c *op.Call, t *op.Tensor) {
	shape, strides := slices.Clone(t.Shape), slices.Clone(t.Strides)
	single := a.rows == 1 && !a.layout.packed()
	if len(shape) == 2 && single && shape[0] == a.batch {
		shape, strides = []int64{a.batch, 1, 1, shape[1]}, []int64{strides[0], 0, 0, strides[1]}
	}
	for len(shape) < 4 {
		at := min(len(shape)-2, 1)
		shape, strides = slices.Insert(shape, at, 1), slices.Insert(strides, at, 0)
	}
	rows, cols := int64(0), int64(0)
	for _, it := range a.items {
		rows, cols = max(rows, it.rows), max(cols, it.cols)
	}
	if shape[0] != 1 && shape[0] != a.batch || shape[1] != 1 || shape[2] < rows || shape[3] < cols {
		c.Unfit("%v must be [Sq,Skv], [B,Sq,Skv] or [B,1,Sq,Skv] with B of 1 or %d and at least %d rows and %d columns", t, a.batch, rows, cols)
		return
	}
	t.Shape, t.Strides = shape, strides
}

// checkOwnMask checks a mask for one new token of each sequence, which does not broadcast.
func (a *inference) checkOwnMask(c *op.Call) {
	m := a.mask.tensor
	if m.Rank() == 0 || m.Shape[0] != a.batch {
		c.Unfit("batchSize of atten_mask must be equal to batchSize[%d] of query: it is %v", a.batch, m)
		return
	}
	least := int64(0)
	for _, it := range a.items {
		least = max(least, it.cols)
	}
	if a.blocks != nil {
		least = a.cols
	}
	if m.Dim(-1) < least {
		c.Unfit("s Size[%d] of atten_mask must be greater than or equal to sMax[%d]: it is %v", m.Dim(-1), least, m)
	}
}
