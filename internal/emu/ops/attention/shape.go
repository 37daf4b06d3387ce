package attention

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// tilingError is a refusal of the tiling. Texts that programs search for start with CANN's words,
// in capitals, followed by advice.
type tilingError string

func (e tilingError) Error() string { return string(e) }

func tilingErrorf(format string, args ...any) error { return tilingError(fmt.Sprintf(format, args...)) }

// attentionLayout is which dimension of a tensor has which meaning. In BSH and SBH the last
// dimension contains all heads, so head and dim are the same dimension. TND has no batch.
type attentionLayout struct {
	name                   string
	batch, row, head, dim  int
	rank                   int
	heads                  bool // head is a dimension of its own
	queryShape, valueShape string
}

var attentionLayouts = []attentionLayout{
	{"BSH", 0, 1, 2, 2, 3, false, "[B,S,N*D]", "[B,S,N*Dv]"},
	{"SBH", 1, 0, 2, 2, 3, false, "[S,B,N*D]", "[S,B,N*Dv]"},
	{"BSND", 0, 1, 2, 3, 4, true, "[B,S,N,D]", "[B,S,N,Dv]"},
	{"BNSD", 0, 2, 1, 3, 4, true, "[B,N,S,D]", "[B,N,S,Dv]"},
	{"TND", -1, 0, 1, 2, 3, true, "[T,N,D]", "[T,N,Dv]"},
}

// packed reports whether sequences of different lengths follow each other.
func (l attentionLayout) packed() bool { return l.batch < 0 }

// shape returns the shape of a tensor with the given sizes.
func (l attentionLayout) shape(batch, rows, heads, dim int64) []int64 {
	s := make([]int64, l.rank)
	if !l.packed() {
		s[l.batch] = batch
	}
	s[l.row] = rows
	if l.heads {
		s[l.head], s[l.dim] = heads, dim
	} else {
		s[l.dim] = heads * dim
	}
	return s
}

// view returns the [heads, rows, dim] view of one batch item, starting at row.
func (l attentionLayout) view(t *op.Tensor, batch, row, heads, rows, dim int64) kernel.View {
	offset := row * t.Strides[l.row]
	if !l.packed() {
		offset += batch * t.Strides[l.batch]
	}
	head := t.Strides[l.head]
	if !l.heads {
		head *= dim
	}
	return part(t, offset, []int64{heads, rows, dim}, []int64{head, t.Strides[l.row], t.Strides[l.dim]})
}

// attentionShape holds the tensors and sizes that both directions share. As in the kernels, rows
// are query tokens and columns are key tokens.
type attentionShape struct {
	layout                attentionLayout
	query, key, value     *op.Tensor
	queryRope, keyRope    *op.Tensor // nil without split rope
	headNum               int64
	batch                 int64
	heads, keyHeads       int64
	dim, ropeDim, valDim  int64
	dimLimit              int64 // largest dim of the called function
	rows, cols            int64 // longest item
	items                 []attentionItem
	queryEnds, keyEnds    []int64 // TND: ends of the sequences
	rowsPacked, colsTotal int64   // TND: tokens in all sequences
}

// attentionItem is one batch item or one packed sequence.
type attentionItem struct {
	batch      int64 // dense: index in the batch; TND: number of the sequence
	row, col   int64 // TND: first token
	rows, cols int64
	window     window // what the rows see, see attentionMask.decide
}

// readLayout finds the layout of a name. CANN compares the name exactly and checks the rank.
func readLayout(c *op.Call, name string, tensors ...*op.Tensor) attentionLayout {
	i := slices.IndexFunc(attentionLayouts, func(l attentionLayout) bool { return l.name == name })
	if i < 0 {
		c.Invalid("not support input_layout %q with dim_num %d; use BSH, SBH, BSND, BNSD or TND (upper case)", name, tensors[0].Rank())
		return attentionLayouts[0]
	}
	l := attentionLayouts[i]
	for _, t := range tensors {
		if t.Rank() != l.rank {
			c.Invalid("not support input_layout %s with dim_num %d: %v must be %s", name, t.Rank(), t, l.queryShape)
		}
	}
	return l
}

// measure derives heads and dimensions from the tensors, as the aclnn level does. In BSH and SBH
// the head dimension is the width divided by headNum.
func (s *attentionShape) measure() {
	l := s.layout
	s.heads, s.keyHeads = s.headNum, s.key.Dim(l.head)
	s.dim, s.valDim = s.query.Dim(l.dim), s.value.Dim(l.dim)
	if l.heads {
		s.heads = s.query.Dim(l.head)
	} else {
		s.dim /= max(s.headNum, 1)
		s.keyHeads /= max(s.dim, 1)
		s.valDim /= max(s.keyHeads, 1)
	}
	s.rows, s.cols = s.query.Dim(l.row), s.key.Dim(l.row)
	if !l.packed() {
		s.batch = s.query.Dim(l.batch)
	}
}

// checkDims checks head dimensions as the aclnn level does (161002).
func (s *attentionShape) checkDims(c *op.Call) {
	keyDim := s.dim
	if s.layout.heads {
		keyDim = s.key.Dim(s.layout.dim)
	}
	if s.dim != keyDim {
		c.Invalid("qD and kD should be same: the head dimension is %d in %v and %d in %v", s.dim, s.query, keyDim, s.key)
	}
	if keyDim < s.valDim {
		c.Invalid("only support kD >= vD: the head dimension is %d in %v and %d in %v", keyDim, s.key, s.valDim, s.value)
	}
}

// checkPairs checks that the tensors agree. A violation is a tiling error.
func (s *attentionShape) checkPairs() error {
	l := s.layout
	switch {
	case !l.packed() && s.query.Dim(l.batch) != s.key.Dim(l.batch):
		return tilingErrorf("query or key shape is invalid: the batch is %d in %v and %d in %v", s.query.Dim(l.batch), s.query, s.key.Dim(l.batch), s.key)
	case !l.packed() && s.key.Dim(l.batch) != s.value.Dim(l.batch), s.key.Dim(l.row) != s.value.Dim(l.row):
		return tilingErrorf("key or value shape is invalid: batch or length differ in %v and %v", s.key, s.value)
	case l.heads && s.key.Dim(l.head) != s.value.Dim(l.head):
		return tilingErrorf("key or value shape is invalid: the heads differ in %v and %v", s.key, s.value)
	}
	return nil
}

// checkHeads checks the head counts. A violation is a tiling error.
func (s *attentionShape) checkHeads() error {
	l := s.layout
	h1 := s.query.Dim(l.dim)
	switch {
	case l.heads && s.headNum != s.heads:
		return tilingErrorf("head_num is [%d], but got query dim%d [%d] in %v", s.headNum, l.head, s.heads, s.query)
	case !l.heads && h1%s.headNum != 0:
		return tilingErrorf("h1 [%d] should be a multiple of n1Size [%d]: the last dimension of %v holds headNum heads", h1, s.headNum, s.query)
	case s.heads > maxHeads:
		return tilingErrorf("%v has %d heads; %d are supported", s.query, s.heads, maxHeads)
	case s.dim > s.dimLimit:
		return tilingErrorf("dSize is not in range:(0, %d]: the head dimension of %v is %d", s.dimLimit, s.query, s.dim)
	case s.dim == 0 || s.heads == 0:
		return tilingErrorf("H is zero: %v has no heads or no head dimension", s.query)
	case s.keyHeads == 0:
		return tilingErrorf("n2Size is zero: %v has no heads of dimension %d", s.key, s.dim)
	case !l.heads && (s.key.Dim(l.dim) != s.keyHeads*s.dim || s.value.Dim(l.dim) != s.keyHeads*s.valDim):
		return tilingErrorf("the widths of %v and %v are no multiples of %d heads; the head dimension of query and key is %d", s.key, s.value, s.keyHeads, s.dim)
	case s.heads%s.keyHeads != 0:
		return tilingErrorf("n1Size [%d] should be a multiple of n2Size [%d]: query heads share key heads in groups of equal size", s.heads, s.keyHeads)
	}
	return nil
}

func (s *attentionShape) checkDType() error {
	for _, t := range []*op.Tensor{s.query, s.key, s.value} {
		if t.DType != s.query.DType || !slices.Contains(attentionDTypes, t.DType) {
			return tilingErrorf("not support input dtype: %v; query, key and value must be of one dtype of %v", t, attentionDTypes)
		}
	}
	return nil
}

var attentionDTypes = []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float32}

// divide fills items with the batch items, or with the sequences of the length lists.
func (s *attentionShape) divide() error {
	if !s.layout.packed() {
		for b := range s.batch {
			s.items = append(s.items, attentionItem{batch: b, rows: s.rows, cols: s.cols})
		}
		return nil
	}
	if len(s.queryEnds) == 0 || len(s.keyEnds) == 0 {
		return tilingErrorf("actualSeqQLen or actualSeqKvLen is null or empty; TND needs the cumulative ends of the sequences, without a leading 0")
	}
	if len(s.queryEnds) != len(s.keyEnds) {
		return tilingErrorf("VarLen scene, q is not equal kv: actualSeqQLen has %d values and actualSeqKvLen %d", len(s.queryEnds), len(s.keyEnds))
	}
	s.batch, s.rows, s.cols = int64(len(s.queryEnds)), 0, 0
	for i := range s.queryEnds {
		item := attentionItem{batch: int64(i), row: s.rowsPacked, col: s.colsTotal, rows: length(s.queryEnds, i), cols: length(s.keyEnds, i)}
		s.rowsPacked += item.rows
		s.colsTotal += item.cols
		s.rows, s.cols = max(s.rows, item.rows), max(s.cols, item.cols)
		s.items = append(s.items, item)
	}
	if q, k := s.query.Dim(0), s.key.Dim(0); q < s.rowsPacked || k < s.colsTotal {
		return tilingErrorf("Query T(%d) and key T(%d) need larger than the sums %d and %d of the sequence lengths", q, k, s.rowsPacked, s.colsTotal)
	}
	return nil
}

// length returns the length of sequence i in a list of cumulative ends. It is 0 if the ends fall.
func length(ends []int64, i int) int64 {
	if i == 0 {
		return max(ends[0], 0)
	}
	return max(ends[i]-ends[i-1], 0)
}

// drops reports whether a list of ends is not in ascending order. Callers pad lists in that way.
func drops(ends []int64) bool { return !slices.IsSorted(ends) }

// part returns a view of t that starts offset elements later. In phase one there is no memory yet,
// and only the shape matters.
func part(t *op.Tensor, offset int64, shape, strides []int64) kernel.View {
	v := t.As(shape, strides)
	if v.Data != nil {
		v.Data = unsafe.Add(v.Data, offset*int64(t.DType.Size()))
	}
	return v
}
