package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// compressions join neighbouring keys or values into one, for attention to long contexts.
var compressions = table{"NsaCompress": nsaCompress, "NsaCompressGrad": nsaCompressGrad, "NsaCompressWithCache": nsaCompressCache}

// blocks are those of tokens, stride apart in each sequence, that become one. The sequences
// lie one after the other in input [tokens, heads, dim].
type blocks struct {
	input, weight *Tensor
	size          int64
	first         []int64 // the first token of each
}

// blocks reads the arguments and checks joined, a row for each block.
func (c *Call) blocks(joined *Tensor) *blocks {
	b := &blocks{input: c.Tensor("input"), weight: c.Tensor("weight"), size: c.Int("compressBlockSize")}
	input, ends, size, stride := b.input, c.Ints("actSeqLenOptional"), b.size, c.Int("compressStride")
	if ends == nil {
		c.Fail(nullPointer, "actSeqLenOptional is null")
	}
	if layout := c.Text("layoutOptional"); layout != "TND" {
		c.Invalid("layoutOptional is %q; only TND is supported", layout)
	}
	if kind := c.Int("actSeqLenType"); kind != 0 {
		c.Invalid("actSeqLenType is %d; only 0 (where sequences end) is supported", kind)
	}
	c.plain(input, b.weight, joined)
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
		c.Invalid("actSeqLenOptional %s does not divide the %d tokens of %v", dims(ends), tokens, input)
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

// column is a view [size, heads] as one that broadcasts to [size, heads, dim].
func column(v kernel.View) kernel.View {
	v.Shape, v.Strides = append(slices.Clone(v.Shape), 1), append(slices.Clone(v.Strides), 0)
	return v
}

// nsaCompress weights the tokens of each block and adds them up.
func nsaCompress(c *Call) (Run, error) {
	out := c.Tensor("output")
	b := c.blocks(out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(append([]int64{b.size}, b.input.Shape[1:]...)...)
		defer release()
		for i, at := range b.first {
			in := []kernel.Input{kernel.Of(b.input.View().Narrow(0, at, b.size)), kernel.Of(column(b.weight.View()))}
			if err := kernel.Map(kernel.Mul, dtype.Float32, t, in); err != nil {
				return err
			}
			if err := kernel.Reduce(kernel.ReduceSum, out.View().Select(0, int64(i)), t, []int{0}, 0); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// nsaCompressGrad is the gradient of nsaCompress in the tokens and the weights.
func nsaCompressGrad(c *Call) (Run, error) {
	dout, dx, dw := c.Tensor("outputGrad"), c.Tensor("inputGradOut"), c.Tensor("weightGradOut")
	b := c.blocks(dout)
	c.plain(dx, dw)
	c.Same(b.input, dx)
	c.Same(b.weight, dw)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		tokens, releaseTokens := kernel.Temporary(b.input.Shape...)
		defer releaseTokens()
		weights, releaseWeights := kernel.Temporary(b.weight.Shape...)
		defer releaseWeights()
		product, release := kernel.Temporary(append([]int64{b.size}, b.input.Shape[1:]...)...)
		defer release()
		sum, releaseSum := kernel.Temporary(b.weight.Shape...)
		defer releaseSum()
		for _, v := range []kernel.View{tokens, weights} {
			if err := kernel.Zero(v); err != nil {
				return err
			}
		}
		for i, at := range b.first {
			grad := kernel.Of(dout.View().Select(0, int64(i)))
			into := tokens.Narrow(0, at, b.size)
			if err := kernel.Map(kernel.Addcmul, dtype.Float32, into, []kernel.Input{kernel.Of(into), grad, kernel.Of(column(b.weight.View()))}, kernel.Real(1)); err != nil {
				return err
			}
			if err := kernel.Map(kernel.Mul, dtype.Float32, product, []kernel.Input{kernel.Of(b.input.View().Narrow(0, at, b.size)), grad}); err != nil {
				return err
			}
			if err := kernel.Reduce(kernel.ReduceSum, sum, product, []int{2}, 0); err != nil {
				return err
			}
			if err := kernel.Map(kernel.Add, dtype.Float32, weights, []kernel.Input{kernel.Of(weights), kernel.Of(sum)}, kernel.Real(1)); err != nil {
				return err
			}
		}
		if err := kernel.Copy(dx.View(), tokens); err != nil {
			return err
		}
		return kernel.Copy(dw.View(), weights)
	}, nil
}

// nsaCompressCache compresses the last block of each sequence that a token has just completed,
// and writes it to a place of a cache. Tokens lie in pages that a table lists, [pages, tokens
// of a page, heads, dim], or one sequence after the other.
func nsaCompressCache(c *Call) (Run, error) {
	input, weight, slots, out := c.Tensor("input"), c.Tensor("weight"), c.Tensor("slotMapping"), c.Tensor("outputCache")
	table, lengths, size, stride := c.Optional("blockTableOptional"), c.Ints("actSeqLenOptional"), c.Int("compressBlockSize"), c.Int("compressStride")
	if lengths == nil {
		c.Fail(nullPointer, "actSeqLenOptional is null")
	}
	if kind := c.Int("actSeqLenType"); kind != 1 {
		c.Invalid("actSeqLenType is %d; only 1 (the length of each sequence) is supported", kind)
	}
	c.plain(input, weight, slots, out)
	c.DType(input, dtype.Float16, dtype.BFloat16)
	c.SameDType(input, weight, out)
	c.DType(slots, dtype.Int32)
	rank := 3
	if table != nil {
		rank = 4
		c.plain(table)
		c.DType(table, dtype.Int32)
		c.Rank(table, 2, 2)
	} else if layout := c.Text("layoutOptional"); layout != "TND" {
		c.Invalid("layoutOptional is %q; only TND is supported", layout)
	}
	c.Rank(input, rank, rank)
	if c.Err() != nil {
		return nil, c.Err()
	}
	heads, dim, batch := input.Dim(-2), input.Dim(-1), int64(len(lengths))
	if size < 16 || size%16 != 0 || stride < 16 || stride%16 != 0 || stride > size {
		c.Invalid("compressBlockSize is %d and compressStride %d; use multiples of 16, and a stride of at most a block", size, stride)
	}
	if dim%16 != 0 || input.Len() == 0 || !input.Contiguous() {
		c.Invalid("%v must be contiguous and not empty, with a last dimension that is a multiple of 16", input)
	}
	c.Shape(weight, []int64{size, heads}, "a weight for each token of a block and head")
	c.Shape(slots, []int64{batch}, "a place for each sequence")
	if out.Rank() != 3 || !slices.Equal(out.Shape[1:], []int64{heads, dim}) {
		c.Invalid("%v must have rows like the tokens of %v", out, input)
	}
	page, tokens := int64(0), int64(0)
	if table != nil {
		page = input.Shape[1]
		if c.Int("pageBlockSize") != page || table.Shape[0] != batch {
			c.Invalid("pageBlockSize is %d: %v must have pages of that many tokens, and %v a row for each of %d sequences", c.Int("pageBlockSize"), input, table, batch)
		}
	}
	for _, n := range lengths {
		tokens += n
		if n < 0 || table != nil && n > table.Shape[1]*page {
			c.Invalid("actSeqLenOptional %s: a length is negative, or longer than the pages of %v", dims(lengths), table)
		}
	}
	if table == nil && tokens != input.Shape[0] {
		c.Invalid("actSeqLenOptional %s has %d tokens, but %v", dims(lengths), tokens, input)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	// rows are those of the last block of sequence i, of which first is the first token.
	rows := func(i int, first int64, pages []int64) ([]int64, error) {
		places := make([]int64, size)
		for k := range places {
			at := lengths[i] - size + int64(k)
			if places[k] = first + at; table != nil {
				p := pages[int64(i)*table.Shape[1]+at/page]
				if p < 0 || p >= input.Shape[0] {
					return nil, fmt.Errorf("%v names page %d for token %d of sequence %d; there are %d", table, p, at, i, input.Shape[0])
				}
				places[k] = p*page + at%page
			}
		}
		return places, nil
	}
	return func(*Exec) error {
		to, err := kernel.Indices(slots.View())
		if err != nil {
			return err
		}
		var pages []int64
		if table != nil {
			if pages, err = kernel.Indices(table.View()); err != nil {
				return err
			}
		}
		width := heads * dim
		flat := input.As([]int64{input.Len() / width, width}, []int64{width, 1})
		t, release := kernel.Temporary(size, width)
		defer release()
		first := int64(0)
		for i, n := range lengths {
			if n >= size && (n-size)%stride == 0 {
				if to[i] < 0 || to[i] >= out.Shape[0] {
					return fmt.Errorf("slotMapping %d of sequence %d is out of range for %d", to[i], i, out.Shape[0])
				}
				places, err := rows(i, first, pages)
				if err != nil {
					return err
				}
				if err := copyRows(t, flat, places); err != nil {
					return err
				}
				block := divided(t, 1, heads)
				if err := kernel.Map(kernel.Mul, dtype.Float32, block, []kernel.Input{kernel.Of(block), kernel.Of(column(weight.View()))}); err != nil {
					return err
				}
				if err := kernel.Reduce(kernel.ReduceSum, out.View().Select(0, to[i]), block, []int{0}, 0); err != nil {
					return err
				}
			}
			first += n
		}
		return nil
	}, nil
}
