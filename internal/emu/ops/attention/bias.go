package attention

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/op"
)

// Values of pseType, which selects how the position bias (realShift, pseShift) is applied to the
// scores.
const (
	pseAfterScale  = 0
	pseBeforeScale = 1 // also when there is no bias, and in functions without pseType
	pseDistance    = 2 // the tensor holds a slope per head
	pseRoot        = 3
)

// attentionBias is the pse argument.
type attentionBias struct {
	tensor *op.Tensor
	kind   int64
	start  int64 // kvStartIdx - qStartIdx
}

func (b *attentionBias) slopes() bool { return b.kind == pseDistance || b.kind == pseRoot }

// checkDType checks the element type as the aclnn level does, with 161002.
func (b *attentionBias) checkDType(c *op.Call, query *op.Tensor) {
	switch {
	case b.slopes() && b.tensor == nil:
		c.Invalid("When pseType is 2 or 3, pseShape cannot be null: pass a float32 slope per head, [N] or [B,N]")
	case b.tensor == nil:
	case b.slopes() && b.tensor.DType != dtype.Float32:
		c.Invalid("The data type %v of pse is not float32; with pseType %d It must be float32 slopes: %v", b.tensor.DType, b.kind, b.tensor)
	case (b.kind == pseAfterScale || b.kind == pseBeforeScale) && b.tensor.DType != query.DType:
		c.Invalid("The data type %v of pse is not that of the query %v: %v, %v", b.tensor.DType, query.DType, b.tensor, query)
	}
}

// checkForm checks shapes and conditions. A violation is a tiling error.
func (b *attentionBias) checkForm(s *attentionShape, m *attentionMask) error {
	switch {
	case b.kind < pseAfterScale || b.kind > pseRoot:
		return tilingErrorf("pseType value is out of range: %d; use 0 to 3", b.kind)
	case b.tensor == nil && b.kind != pseBeforeScale:
		return tilingErrorf("Get PseInput is nullptr, but pseType is not default=1: it is %d", b.kind)
	case b.tensor == nil:
		return nil
	case b.slopes():
		return b.checkSlopes(s, m)
	case s.layout.packed():
		return b.checkPacked(s, m)
	}
	t := b.tensor
	if t.Rank() != 4 {
		return tilingErrorf("pse dim should be 4, but got %d: %v", t.Rank(), t)
	}
	if t.Dim(0) != 1 && t.Dim(0) != s.batch {
		return tilingErrorf("pse batchsize should be 1 or %d, but got %d: %v", s.batch, t.Dim(0), t)
	}
	rows := t.Dim(2)
	if t.Dim(1) != s.heads || t.Dim(3) != s.cols || rows != s.rows && rows != 1 && !b.folded(s) {
		return tilingErrorf("get unsupported pse shape: %v; legal: [%d or 1,%d,%d,%d], with %d or 1 rows, or %d when Sq is larger",
			t, s.batch, s.heads, s.rows, s.cols, s.rows, attentionkernel.AttentionFold)
	}
	if b.folded(s) {
		if s.rows != s.cols {
			return tilingErrorf("pse with %d rows needs same S1 S2 when S1 lager than 1024, but Sq=%d, Skv=%d", rows, s.rows, s.cols)
		}
		if !m.causal(s) {
			return tilingErrorf("Pse alibi only support causal sparse type: sparseMode 2 or 3, or 0 with preTokens >= Sq and nextTokens 0, and a mask")
		}
	}
	return nil
}

// folded reports whether the bias has fewer rows than the scores, which is allowed for an ALiBi
// bias.
func (b *attentionBias) folded(s *attentionShape) bool {
	if s.layout.packed() {
		return b.tensor.Rank() == 4
	}
	return b.tensor.Dim(2) == attentionkernel.AttentionFold && s.rows > attentionkernel.AttentionFold
}

// causal reports whether no row sees a later column, for sequences of equal length.
func (m *attentionMask) causal(s *attentionShape) bool {
	if m.tensor == nil {
		return false
	}
	switch m.mode {
	case sparseLeft, sparseRight, sparseLast, sparseFirst:
		return m.next <= 0 || m.mode == sparseLeft || m.mode == sparseRight
	case sparseDense, sparseBand:
		return m.pre >= s.rows && m.next == 0
	}
	return false
}

func (b *attentionBias) checkSlopes(s *attentionShape, m *attentionMask) error {
	t := b.tensor
	if !slices.Equal(t.Shape, []int64{s.heads}) && !slices.Equal(t.Shape, []int64{s.batch, s.heads}) {
		return tilingErrorf("get unsupported pse shape: %v; with pseType %d it must be [%d] or [%d,%d]", t, b.kind, s.heads, s.batch, s.heads)
	}
	if !s.layout.packed() {
		if s.rows != s.cols {
			return tilingErrorf("INNER Pse alibi is supported only when Sq and Skv are equal, not %d and %d", s.rows, s.cols)
		}
		return nil
	}
	if m.tensor == nil {
		return nil
	}
	switch m.mode {
	case sparseLast:
		return tilingErrorf("INNER Pse does not support sparse mode 7")
	case sparseFirst:
		first, _ := s.nonEmpty()
		for i, it := range s.items {
			if i == first && it.cols-it.rows+b.start != 0 || i != first && it.cols != it.rows {
				return tilingErrorf("INNER Pse with sparse mode 8 needs equal lengths after the first sequence and start indices that make up for its difference; sequence %d has Sq=%d, Skv=%d, kvStartIdx-qStartIdx=%d",
					i, it.rows, it.cols, b.start)
			}
		}
	}
	return nil
}

func (b *attentionBias) checkPacked(s *attentionShape, m *attentionMask) error {
	t := b.tensor
	switch t.Rank() {
	case 1:
		if n := t.Len(); n == s.heads*s.colsTotal || n == s.heads*s.cells(len(s.items)) {
			return nil
		}
	case 4:
		if (t.Dim(0) != 1 && t.Dim(0) != s.batch) || t.Dim(1) != s.heads || t.Dim(2) != attentionkernel.AttentionFold || t.Dim(3) != s.cols {
			break
		}
		for i, it := range s.items {
			if it.rows != it.cols {
				return tilingErrorf("pse with %d rows needs same S1 S2, but sequence %d has Sq=%d, Skv=%d", attentionkernel.AttentionFold, i, it.rows, it.cols)
			}
		}
		if !m.causal(s) {
			return tilingErrorf("Pse alibi only support causal sparse type: sparseMode 2 or 3, or 0 with preTokens >= Sq and nextTokens 0, and a mask")
		}
		return nil
	}
	return tilingErrorf("get unsupported pse shape: %v; legal for TND: [%d] (a row of each head per sequence), [%d] (all cells), [1 or %d,%d,%d,%d]",
		t, s.heads*s.colsTotal, s.heads*s.cells(len(s.items)), s.batch, s.heads, attentionkernel.AttentionFold, s.cols)
}

// cells returns the number of scores of one head in the first n items.
func (s *attentionShape) cells(n int) int64 {
	sum := int64(0)
	for _, it := range s.items[:n] {
		sum += it.rows * it.cols
	}
	return sum
}

// set sets the bias of item i of the kernel.
func (b *attentionBias) set(a *attentionkernel.Attention, s *attentionShape, i int, first bool, mode int64) {
	t := b.tensor
	if t == nil {
		return
	}
	item := s.items[i]
	a.BiasKind = [...]attentionkernel.BiasKind{attentionkernel.BiasAfterScale, attentionkernel.BiasBeforeScale, attentionkernel.BiasDistance, attentionkernel.BiasRootDistance}[b.kind]
	if b.slopes() {
		offset := int64(0)
		if t.Rank() == 2 {
			offset = item.batch * t.Strides[0]
		}
		a.Bias = part(t, offset, []int64{s.heads, 1, 1}, []int64{t.Strides[t.Rank()-1], 0, 0})
		if mode != sparseFirst || first {
			a.Distance = b.start
		}
		return
	}
	shape := []int64{s.heads, item.rows, item.cols}
	if t.Rank() == 1 {
		step := t.Strides[0]
		if t.Len() == s.heads*s.colsTotal {
			a.Bias = part(t, item.col*s.heads*step, shape, []int64{item.cols * step, 0, step})
		} else {
			a.Bias = part(t, s.heads*s.cells(i)*step, shape, []int64{item.rows * item.cols * step, item.cols * step, step})
		}
		return
	}
	offset, row := int64(0), t.Strides[2]
	if t.Dim(0) > 1 {
		offset = item.batch * t.Strides[0]
	}
	if t.Dim(2) == 1 {
		row = 0
	}
	if b.folded(s) {
		// The bias holds the last rows of the longest item.
		longest := s.rows
		if s.layout.packed() {
			longest = s.cols
		}
		if a.BiasFold = max(longest-attentionkernel.AttentionFold, 0); a.BiasFold > 0 {
			shape = []int64{s.heads, attentionkernel.AttentionFold, longest}
		} else {
			offset += (attentionkernel.AttentionFold - longest) * row
		}
	}
	a.Bias = part(t, offset, shape, []int64{t.Strides[1], row, t.Strides[3]})
}
