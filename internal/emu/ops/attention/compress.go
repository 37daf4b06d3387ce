package attention

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// compressions combine neighbouring keys or values into one, for attention to long contexts.
var compressions = op.Table{"NsaCompress": nsaCompress, "NsaCompressGrad": nsaCompressGrad, "NsaCompressWithCache": nsaCompressCache}.Selects("NsaCompressWithCache")

// blocks describes the blocks of tokens that are each compressed to one token. They start stride
// tokens apart within each sequence. The sequences follow each other in input [tokens, heads, dim].
type blocks struct {
	input, weight *op.Tensor
	size          int64
	first         []int64 // the first token of each block
}

// newBlocks reads the arguments and checks joined, which must have a row for each block.
func newBlocks(c *op.Call, joined *op.Tensor) *blocks {
	b := &blocks{input: c.Tensor("input"), weight: c.Tensor("weight"), size: c.Int("compressBlockSize")}
	input, ends, size, stride := b.input, c.Ints("actSeqLenOptional"), b.size, c.Int("compressStride")
	if ends == nil {
		c.Fail(op.NullPointer, "actSeqLenOptional is null")
	}
	if layout := c.Text("layoutOptional"); layout != "TND" {
		c.Invalid("layoutOptional is %q; only TND is supported", layout)
	}
	if kind := c.Int("actSeqLenType"); kind != 0 {
		c.Invalid("actSeqLenType is %d; only 0 (where sequences end) is supported", kind)
	}
	c.Plain(input, b.weight, joined)
	c.DType(input, dtype.Float16, dtype.BFloat16)
	c.SameDType(input, b.weight, joined)
	c.Rank(input, 3, 3)
	if c.Err() != nil {
		return b
	}
	tokens, heads, dim := input.Shape[0], input.Shape[1], input.Shape[2]
	if size < 16 || size > 128 || size%16 != 0 || stride < 16 || stride%16 != 0 || stride > size {
		c.Invalid("compressBlockSize is %d and compressStride %d; use multiples of 16 up to 128, and a stride of at most a block", size, stride)
	}
	if heads > 128 || dim%16 != 0 || dim > 256 || input.Len() == 0 {
		c.Invalid("%v must have 1 to 128 heads and a last dimension that is a multiple of 16 up to 256", input)
	}
	c.Shape(b.weight, []int64{size, heads}, "a weight for each token of a block and head")
	if !slices.IsSorted(ends) || len(ends) == 0 || ends[0] < 0 || ends[len(ends)-1] != tokens {
		c.Invalid("actSeqLenOptional %s does not divide the %d tokens of %v", op.Dims(ends), tokens, input)
	}
	if c.Err() != nil {
		return b
	}
	begin := int64(0)
	for _, end := range ends {
		for at := begin; at+size <= end; at += stride {
			b.first = append(b.first, at)
		}
		begin = end
	}
	c.Shape(joined, []int64{int64(len(b.first)), heads, dim}, "a row for each block that a sequence holds")
	return b
}

// column views [size, heads] so that it broadcasts to [size, heads, dim].
func column(v kernel.View) kernel.View {
	v.Shape, v.Strides = append(slices.Clone(v.Shape), 1), append(slices.Clone(v.Strides), 0)
	return v
}

// nsaCompress computes the weighted sum of the tokens of each block.
func nsaCompress(c *op.Call) (op.Run, error) {
	out := c.Tensor("output")
	b := newBlocks(c, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(append([]int64{b.size}, b.input.Shape[1:]...)...)
		defer release()
		for i, at := range b.first {
			in := []elementwise.Input{elementwise.Of(b.input.View().Narrow(0, at, b.size)), elementwise.Of(column(b.weight.View()))}
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, t, in); err != nil {
				return err
			}
			if err := rowwise.Reduce(rowwise.ReduceSum, out.View().Select(0, int64(i)), t, []int{0}, 0); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// nsaCompressGrad computes the gradients of nsaCompress with respect to the tokens and the weights.
func nsaCompressGrad(c *op.Call) (op.Run, error) {
	dout, dx, dw := c.Tensor("outputGrad"), c.Tensor("inputGradOut"), c.Tensor("weightGradOut")
	b := newBlocks(c, dout)
	c.Plain(dx, dw)
	c.Same(b.input, dx)
	c.Same(b.weight, dw)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		tokens, releaseTokens := kernel.Temporary(b.input.Shape...)
		defer releaseTokens()
		weights, releaseWeights := kernel.Temporary(b.weight.Shape...)
		defer releaseWeights()
		product, release := kernel.Temporary(append([]int64{b.size}, b.input.Shape[1:]...)...)
		defer release()
		sum, releaseSum := kernel.Temporary(b.weight.Shape...)
		defer releaseSum()
		for _, v := range []kernel.View{tokens, weights} {
			if err := elementwise.Zero(v); err != nil {
				return err
			}
		}
		for i, at := range b.first {
			grad := elementwise.Of(dout.View().Select(0, int64(i)))
			into := tokens.Narrow(0, at, b.size)
			if err := elementwise.Map(elementwise.Addcmul, dtype.Float32, into, []elementwise.Input{elementwise.Of(into), grad, elementwise.Of(column(b.weight.View()))}, elementwise.Real(1)); err != nil {
				return err
			}
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, product, []elementwise.Input{elementwise.Of(b.input.View().Narrow(0, at, b.size)), grad}); err != nil {
				return err
			}
			if err := rowwise.Reduce(rowwise.ReduceSum, sum, product, []int{2}, 0); err != nil {
				return err
			}
			if err := elementwise.Map(elementwise.Add, dtype.Float32, weights, []elementwise.Input{elementwise.Of(weights), elementwise.Of(sum)}, elementwise.Real(1)); err != nil {
				return err
			}
		}
		if err := elementwise.Copy(dx.View(), tokens); err != nil {
			return err
		}
		return elementwise.Copy(dw.View(), weights)
	}, nil
}

// nsaCompressCache compresses the last block of each sequence, if the newest token completes it,
// and writes the result to a slot of a cache. The tokens are in pages listed by a table, [pages,
// tokens of a page, heads, dim], or the sequences follow each other.
func nsaCompressCache(c *op.Call) (op.Run, error) {
	b := &lastBlocks{
		input: c.Tensor("input"), weight: c.Tensor("weight"), slots: c.Tensor("slotMapping"), out: c.Tensor("outputCache"), table: c.Optional("blockTableOptional"),
		lengths: c.Ints("actSeqLenOptional"), size: c.Int("compressBlockSize"), stride: c.Int("compressStride"),
	}
	if b.lengths == nil {
		c.Fail(op.NullPointer, "actSeqLenOptional is null")
	}
	if kind := c.Int("actSeqLenType"); kind != 1 {
		c.Invalid("actSeqLenType is %d; only 1 (the length of each sequence) is supported", kind)
	}
	c.Plain(b.input, b.weight, b.slots, b.out)
	c.DType(b.input, dtype.Float16, dtype.BFloat16)
	c.SameDType(b.input, b.weight, b.out)
	c.DType(b.slots, dtype.Int32)
	rank := 3
	if b.table != nil {
		rank = 4
		c.Plain(b.table)
		c.DType(b.table, dtype.Int32)
		c.Rank(b.table, 2, 2)
	} else if layout := c.Text("layoutOptional"); layout != "TND" {
		c.Invalid("layoutOptional is %q; only TND is supported", layout)
	}
	c.Rank(b.input, rank, rank)
	if c.Err() == nil {
		b.checkShapes(c)
		b.checkLengths(c)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return b.run() }, nil
}

// lastBlocks is a call of nsaCompressCache.
type lastBlocks struct {
	input, weight, slots, out *op.Tensor
	table                     *op.Tensor // page table; may be nil
	lengths                   []int64
	size, stride              int64 // of blocks, in tokens
	page                      int64 // tokens of a page
}

func (b *lastBlocks) checkShapes(c *op.Call) {
	heads, dim, batch := b.input.Dim(-2), b.input.Dim(-1), int64(len(b.lengths))
	if b.size < 16 || b.size%16 != 0 || b.stride < 16 || b.stride%16 != 0 || b.stride > b.size {
		c.Invalid("compressBlockSize is %d and compressStride %d; use multiples of 16, and a stride of at most a block", b.size, b.stride)
	}
	if dim%16 != 0 || b.input.Len() == 0 || !b.input.Contiguous() {
		c.Invalid("%v must be contiguous and not empty, with a last dimension that is a multiple of 16", b.input)
	}
	c.Shape(b.weight, []int64{b.size, heads}, "a weight for each token of a block and head")
	c.Shape(b.slots, []int64{batch}, "a place for each sequence")
	if b.out.Rank() != 3 || !slices.Equal(b.out.Shape[1:], []int64{heads, dim}) {
		c.Invalid("%v must have rows like the tokens of %v", b.out, b.input)
	}
	if b.table == nil {
		return
	}
	b.page = b.input.Shape[1]
	if c.Int("pageBlockSize") != b.page || b.table.Shape[0] != batch {
		c.Invalid("pageBlockSize is %d: %v must have pages of that many tokens, and %v a row for each of %d sequences", c.Int("pageBlockSize"), b.input, b.table, batch)
	}
}

func (b *lastBlocks) checkLengths(c *op.Call) {
	tokens := int64(0)
	for _, n := range b.lengths {
		tokens += n
		if n < 0 || b.table != nil && n > b.table.Shape[1]*b.page {
			c.Invalid("actSeqLenOptional %s: a length is negative, or longer than the pages of %v", op.Dims(b.lengths), b.table)
		}
	}
	if b.table == nil && tokens != b.input.Shape[0] {
		c.Invalid("actSeqLenOptional %s has %d tokens, but %v", op.Dims(b.lengths), tokens, b.input)
	}
}

func (b *lastBlocks) run() error {
	to, err := elementwise.Indices(b.slots.View())
	if err != nil {
		return err
	}
	var pages []int64
	if b.table != nil {
		if pages, err = elementwise.Indices(b.table.View()); err != nil {
			return err
		}
	}
	first := int64(0)
	for i, n := range b.lengths {
		if n >= b.size && (n-b.size)%b.stride == 0 {
			if to[i] < 0 || to[i] >= b.out.Shape[0] {
				return fmt.Errorf("slotMapping %d of sequence %d is out of range for %d", to[i], i, b.out.Shape[0])
			}
			places, err := b.rows(i, first, pages)
			if err != nil {
				return err
			}
			if err := b.compress(b.out.View().Select(0, to[i]), places); err != nil {
				return err
			}
		}
		first += n
	}
	return nil
}

// rows returns the rows of the last block of sequence i, whose first token is at first.
func (b *lastBlocks) rows(i int, first int64, pages []int64) ([]int64, error) {
	places := make([]int64, b.size)
	for k := range places {
		at := b.lengths[i] - b.size + int64(k)
		if places[k] = first + at; b.table != nil {
			p := pages[int64(i)*b.table.Shape[1]+at/b.page]
			if p < 0 || p >= b.input.Shape[0] {
				return nil, fmt.Errorf("%v names page %d for token %d of sequence %d; there are %d", b.table, p, at, i, b.input.Shape[0])
			}
			places[k] = p*b.page + at%b.page
		}
	}
	return places, nil
}

// compress sets out to the weighted sum of the tokens at places.
func (b *lastBlocks) compress(out kernel.View, places []int64) error {
	heads := b.input.Dim(-2)
	width := heads * b.input.Dim(-1)
	t, release := kernel.Temporary(b.size, width)
	defer release()
	if err := op.CopyRows(t, b.input.As([]int64{b.input.Len() / width, width}, []int64{width, 1}), places); err != nil {
		return err
	}
	block := op.Divided(t, 1, heads)
	if err := elementwise.Map(elementwise.Mul, dtype.Float32, block, []elementwise.Input{elementwise.Of(block), elementwise.Of(column(b.weight.View()))}); err != nil {
		return err
	}
	return rowwise.Reduce(rowwise.ReduceSum, out, block, []int{0}, 0)
}
