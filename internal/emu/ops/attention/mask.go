package attention

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/op"
)

// Values of sparseMode, which selects which cells of the score matrix are visible.
const (
	sparseDense   = 0 // the mask, inside a window anchored at the upper left
	sparseAll     = 1 // the mask alone
	sparseLeft    = 2 // causal, anchored at the upper left
	sparseRight   = 3 // causal, anchored at the lower right
	sparseBand    = 4 // a window anchored at the lower right
	sparsePrefix  = 5 // the mask alone, which encodes a prefix
	sparsePrefix2 = 6 // causal at the lower right, or below the prefix
	sparseLast    = 7 // TND: the last sequence a band, the others causal at the lower right
	sparseFirst   = 8 // TND: the first sequence a band, the others causal at the upper left
)

// The compressed masks represent their rule for sequences of any length.
var (
	compressedMask = []int64{2048, 2048}
	prefixMask     = []int64{3072, 2048}
)

// attentionMask is the mask argument with the arguments that belong to it.
type attentionMask struct {
	tensor    *op.Tensor // nil: everything is visible and the rest is ignored
	mode      int64
	pre, next int64
	prefix    []int64
	zero      bool // rows that see no column give 0
}

// window is the visible part of one item: row i sees the columns i+first to i+last, and those below
// prefix.
type window struct{ first, last, prefix int64 }

var everything = window{first: -attentionkernel.Unlimited, last: attentionkernel.Unlimited}

// compressed reports whether the mask only represents a rule. Its elements are not read then.
func (m *attentionMask) compressed() bool {
	return m.tensor != nil && m.mode >= sparseLeft && m.mode <= sparseFirst && m.mode != sparsePrefix
}

// window returns the window of an item. banded is whether the item is the one to which modes 7
// and 8 apply the band.
func (m *attentionMask) window(item attentionItem, banded bool) window {
	w, delta := everything, item.cols-item.rows
	if m.tensor == nil {
		return w
	}
	switch m.mode {
	case sparseDense:
		w.first, w.last = -m.pre, m.next
	case sparseLeft:
		w.last = 0
	case sparseRight:
		w.last = delta
	case sparseBand:
		w.first, w.last = delta-m.pre, delta+m.next
	case sparsePrefix2:
		w.last, w.prefix = delta, m.prefix[item.batch]
	case sparseLast, sparseFirst:
		switch {
		case banded:
			w.first, w.last = delta-m.pre, delta+m.next
		case m.mode == sparseLast:
			w.last = delta
		default:
			w.last = 0
		}
	}
	return w
}

// decide sets the windows of all items. It is the only place that decides what a row sees.
func (m *attentionMask) decide(s *attentionShape) {
	first, last := s.nonEmpty()
	for i := range s.items {
		banded := m.mode == sparseFirst && i == first || m.mode == sparseLast && i == last
		s.items[i].window = m.window(s.items[i], banded)
	}
}

// checkForm checks the shape of a mask in the forward direction. A violation is a tiling error.
func (m *attentionMask) checkForm(s *attentionShape) error {
	t := m.tensor
	if t == nil {
		return nil
	}
	if t.DType != dtype.Bool && t.DType != dtype.Uint8 {
		return tilingErrorf("invalid attenMask dtype[%v], only support bool or uint8 (not 0 hides a cell)", t.DType)
	}
	if t.Rank() != 2 && t.Rank() != 4 {
		return tilingErrorf("atten mask dim should be 2 or 4, but got %d: %v", t.Rank(), t)
	}
	if err := m.checkMode(s); err != nil {
		return err
	}
	if legal := m.denseShapes(s); !slices.ContainsFunc(legal, func(d []int64) bool { return slices.Equal(d, t.Shape) }) && (t.Rank() == 4 || !m.compressed()) {
		return m.shapeError(s, legal)
	}
	switch {
	case m.mode == sparsePrefix2 && !slices.Equal(t.Shape[t.Rank()-2:], prefixMask):
		return tilingErrorf("In the prefix attenmask compression, please set the atten_mask_shape to [3072,2048]; %v is not", t)
	case m.compressed() && m.mode != sparsePrefix2 && !slices.Equal(t.Shape[t.Rank()-2:], compressedMask):
		return tilingErrorf("In the attenmask compression, please set the atten_mask_shape to [2048,2048]; %v is not. sparseMode %d stands for its rule at every length: "+
			"pass the upper triangle of that size, or sparseMode 1 with a dense mask", t, m.mode)
	case m.mode == sparsePrefix && t.Rank() == 2 && s.batch > 1, m.mode == sparsePrefix && t.Rank() == 4 && t.Dim(0) != s.batch:
		return tilingErrorf("Prefix mode get invalid atten_mask shape, should be [BNSS] or [B1SS]: %v", t)
	}
	return nil
}

// checkMode checks sparseMode.
func (m *attentionMask) checkMode(s *attentionShape) error {
	packed := s.layout.packed()
	switch {
	case packed && (m.mode == sparsePrefix || m.mode > sparseFirst):
		return tilingErrorf("Var len not support sparse mode %d; use 0 to 4 or 6 to 8", m.mode)
	case m.mode < 0 || m.mode > sparseFirst || m.mode >= sparseLast && !packed:
		return tilingErrorf("Not support sparse mode of %d with layout %s; use 0 to 6, or 7 and 8 with TND", m.mode, s.layout.name)
	}
	return nil
}

// denseShapes returns the valid shapes of a mask with a byte for every cell.
func (m *attentionMask) denseShapes(s *attentionShape) [][]int64 {
	r, c := s.rows, s.cols
	if s.layout.packed() {
		return [][]int64{{r, c}, {s.rowsPacked, s.colsTotal}, {1, 1, r, c}, {s.batch, 1, r, c}, {1, s.heads, r, c}, {s.batch, s.heads, r, c}}
	}
	return [][]int64{{r, c}, {1, 1, r, c}, {s.batch, 1, r, c}, {s.batch, s.heads, r, c}}
}

func (m *attentionMask) shapeError(s *attentionShape, legal [][]int64) error {
	shapes := make([]string, 0, len(legal))
	for _, d := range legal {
		if text := op.Dims(d); !slices.Contains(shapes, text) {
			shapes = append(shapes, text)
		}
	}
	if s.layout.packed() {
		return tilingErrorf("get unsupported atten_mask shape, the shape is %s. MaxSq=[%d], MaxSkv=[%d]; legal for TND: %v (rows and columns of the longest sequences)",
			op.Dims(m.tensor.Shape), s.rows, s.cols, shapes)
	}
	return tilingErrorf("get unsupported atten_mask shape, the shape is %s. B=[%d], N=[%d], Sq=[%d], Skv=[%d]; legal: %v. A mask is not broadcast: expand [B,1,1,Skv] or [B,Skv] to [B,1,Sq,Skv] first, with 1 for hidden",
		op.Dims(m.tensor.Shape), s.batch, s.heads, s.rows, s.cols, shapes)
}

// view returns the mask of one item. It has no memory if the window alone decides.
func (m *attentionMask) view(s *attentionShape, item attentionItem) kernel.View {
	if m.tensor == nil || m.compressed() {
		return kernel.View{}
	}
	t := m.tensor
	n := t.Rank()
	row, col := t.Strides[n-2], t.Strides[n-1]
	offset, head := int64(0), int64(0)
	switch {
	case n == 4:
		if t.Dim(0) > 1 {
			offset = item.batch * t.Strides[0]
		}
		if t.Dim(1) > 1 {
			head = t.Strides[1]
		}
	case s.layout.packed() && !slices.Equal(t.Shape, []int64{s.rows, s.cols}):
		offset = item.row*row + item.col*col
	}
	return part(t, offset, []int64{s.heads, item.rows, item.cols}, []int64{head, row, col})
}

// checkWindow checks that the windows leave something to compute in the forward direction (a tiling
// error). If they leave rows without visible columns, it sets zero, so that these rows give 0.
func (m *attentionMask) checkWindow(s *attentionShape) error {
	if m.tensor == nil {
		return nil
	}
	if s.layout.packed() {
		return m.checkPacked(s)
	}
	switch m.mode {
	case sparseDense, sparseRight, sparseBand:
		return m.checkBand(s)
	}
	return nil
}

func (m *attentionMask) checkBand(s *attentionShape) error {
	if s.rows == 0 || s.cols == 0 || len(s.items) == 0 || m.mode == sparseRight && s.rows == s.cols {
		return nil
	}
	w := s.items[0].window // that of every item
	pre, next := -w.first, w.last
	if m.mode == sparseRight {
		pre = s.rows
	}
	bad := tilingErrorf("preTokens %d and nextTokens %d: config error, there is no valid data block with sparseMode %d, Sq=%d, Skv=%d; "+
		"counted from the upper left row i sees columns i-(%d) to i+(%d), which must overlap the matrix", m.pre, m.next, m.mode, s.rows, s.cols, pre, next)
	switch {
	case pre < 0 && next < 0:
		return bad
	case pre < 0 && (next < -pre || -pre >= s.cols):
		return bad
	case next < 0 && (-next > pre || -next >= s.rows):
		return bad
	}
	m.zero = m.zero || next < 0 || pre < s.rows-s.cols
	return nil
}

// checkPrefix checks the range of the prefixes.
func (m *attentionMask) checkPrefix(s *attentionShape) error {
	if int64(len(m.prefix)) != s.batch {
		return tilingErrorf("prefix has %d values; sparseMode %d needs one for each of %d batch items", len(m.prefix), m.mode, s.batch)
	}
	for i, item := range s.items {
		n := m.prefix[i]
		if n < max(item.cols-item.rows, 0) || n > item.cols {
			return tilingErrorf("prefix[%d] is %d; it must be between max(Skv-Sq, 0) = %d and Skv = %d", i, n, max(item.cols-item.rows, 0), item.cols)
		}
		m.zero = m.zero || n == 0 && item.rows > item.cols
	}
	return nil
}

// checkPacked checks the rules for TND, which does not allow rows without visible columns.
func (m *attentionMask) checkPacked(s *attentionShape) error {
	first, last := s.nonEmpty()
	for i, it := range s.items {
		var bad bool
		switch m.mode {
		case sparseDense:
			bad = m.next < 0 || it.cols+m.pre < it.rows || m.pre < 0 && m.next < -m.pre
		case sparseRight, sparseLast:
			if it.rows > it.cols {
				return tilingErrorf("Batch[%d] s1[%d] is larger than s2[%d], exist invalid row: sparseMode %d lets row 0 see Skv-Sq+1 columns", i, it.rows, it.cols, m.mode)
			}
			bad = m.mode == sparseLast && i == last && (m.pre < it.cols || m.next > 0 || it.rows-m.next > it.cols)
		case sparseBand:
			bad = m.pre < 0 || m.pre+m.next < 0 || it.rows > 0 && it.cols > 0 && it.rows-m.next > it.cols
		case sparseFirst:
			bad = i == first && (it.rows-m.next > it.cols || m.pre < it.cols)
		}
		if bad {
			return tilingErrorf("preTokens %d and nextTokens %d leave rows of sequence %d (Sq=%d, Skv=%d) that see nothing with sparseMode %d; fail to get sparse info",
				m.pre, m.next, i, it.rows, it.cols, m.mode)
		}
	}
	return nil
}

// nonEmpty returns the indices of the first and the last sequence that have scores, or -1.
func (s *attentionShape) nonEmpty() (first, last int) {
	first, last = -1, -1
	for i, it := range s.items {
		if it.rows > 0 && it.cols > 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	return first, last
}

// checkGrad checks the rules of the backward operators, which differ from the forward ones and are
// fewer.
func (m *attentionMask) checkGrad(s *attentionShape) error {
	packed := s.layout.packed()
	switch {
	case m.mode < 0 || m.mode > sparseFirst:
		return tilingErrorf("FAG sparseMode [%d] is invalid; use 0 to 8", m.mode)
	case m.mode >= sparseLast && !packed:
		return tilingErrorf("layout %s not support sparsemode %d; 7 and 8 need TND", s.layout.name, m.mode)
	case m.tensor == nil:
		m.decide(s)
		return nil
	case m.mode == sparsePrefix && packed:
		return tilingErrorf("layout TND not support sparsemode 5")
	}
	if err := m.checkGradForm(s); err != nil {
		return err
	}
	if m.mode == sparsePrefix2 && int64(len(m.prefix)) != s.batch {
		return tilingErrorf("prefix has %d values; sparseMode %d needs one for each of %d batch items", len(m.prefix), m.mode, s.batch)
	}
	m.decide(s)
	switch {
	case packed && slices.Contains([]int64{sparseDense, sparseBand, sparseLast, sparseFirst}, m.mode) && m.pre+m.next <= 0:
		return tilingErrorf("pre_token and next_token is invalid in the unpad scene: preTokens %d + nextTokens %d must be positive with sparseMode %d", m.pre, m.next, m.mode)
	case !packed && len(s.items) > 0 && (m.mode == sparseDense || m.mode == sparseBand):
		w := s.items[0].window // that of every item
		if w.first > s.cols || -w.last > s.rows || w.last < w.first {
			return tilingErrorf("pre_token and next_token is invalid in the pad scene: row i sees columns i+(%d) to i+(%d) with sparseMode %d, Sq=%d, Skv=%d", w.first, w.last, m.mode, s.rows, s.cols)
		}
	}
	return nil
}

func (m *attentionMask) checkGradForm(s *attentionShape) error {
	t := m.tensor
	n := t.Rank()
	switch {
	case t.DType != dtype.Bool && t.DType != dtype.Uint8:
		return tilingErrorf("invalid attenMask dtype[%v], only support bool or uint8 (not 0 hides a cell)", t.DType)
	case n != 2 && n != 4:
		return tilingErrorf("atten mask dim num error: %v has %d dimensions, not 2 or 4", t, n)
	case n == 4 && (t.Dim(0) != 1 && t.Dim(0) != s.batch || t.Dim(1) != 1 && t.Dim(1) != s.heads):
		return tilingErrorf("atten mask dim value error: %v must start with [1 or %d, 1 or %d]", t, s.batch, s.heads)
	}
	last := t.Shape[n-2:]
	switch {
	case m.mode == sparsePrefix2:
		if !slices.Equal(last, prefixMask) {
			return tilingErrorf("atten mask shape [%d,%d] is invalid, try setting it to [3072, 2048]", last[0], last[1])
		}
	case m.compressed() && last[0] != last[1]:
		return tilingErrorf("atten mask shape is not square: %v; sparseMode %d takes [2048, 2048]", t, m.mode)
	case m.compressed():
		if !slices.Equal(last, compressedMask) {
			return tilingErrorf("atten mask shape [%d,%d] is invalid, try setting it to [2048, 2048]", last[0], last[1])
		}
	case last[0] != s.rows || last[1] != s.cols:
		return tilingErrorf("atten mask shape [%d,%d] is invalid: the last two dimensions must be Sq=%d and Skv=%d", last[0], last[1], s.rows, s.cols)
	}
	return nil
}
