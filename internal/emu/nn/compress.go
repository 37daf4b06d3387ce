package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// compressions join neighbouring keys or values into one, for attention to long contexts.
var compressions = table{"NsaCompress": nsaCompress}

// nsaCompress weights blocks of tokens, stride apart in each sequence, and adds them up. The
// sequences lie one after the other in input [tokens, heads, dim].
func nsaCompress(c *Call) (Run, error) {
	input, weight, out, ends := c.Tensor("input"), c.Tensor("weight"), c.Tensor("output"), c.Ints("actSeqLenOptional")
	size, stride := c.Int("compressBlockSize"), c.Int("compressStride")
	if ends == nil {
		c.Fail(nullPointer, "actSeqLenOptional is null")
	}
	if layout := c.Text("layoutOptional"); layout != "TND" {
		c.Invalid("layoutOptional is %q; only TND is supported", layout)
	}
	if kind := c.Int("actSeqLenType"); kind != 0 {
		c.Invalid("actSeqLenType is %d; only 0 (where sequences end) is supported", kind)
	}
	c.plain(input, weight, out)
	c.DType(input, dtype.Float16, dtype.BFloat16)
	c.SameDType(input, weight, out)
	c.Rank(input, 3, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	tokens, heads, dim := input.Shape[0], input.Shape[1], input.Shape[2]
	if size < 16 || size > 128 || size%16 != 0 || stride < 16 || stride%16 != 0 || stride > size {
		c.Invalid("compressBlockSize is %d and compressStride %d; use multiples of 16 up to 128, and a stride of at most a block", size, stride)
	}
	if heads > 128 || dim%16 != 0 || dim > 256 || input.Len() == 0 {
		c.Invalid("%v must have 1 to 128 heads and a last dimension that is a multiple of 16 up to 256", input)
	}
	c.Shape(weight, []int64{size, heads}, "a weight for each token of a block and head")
	if !slices.IsSorted(ends) || len(ends) == 0 || ends[0] < 0 || ends[len(ends)-1] != tokens {
		c.Invalid("actSeqLenOptional %s does not divide the %d tokens of %v", dims(ends), tokens, input)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	var blocks []int64 // the first token of each
	first := int64(0)
	for _, end := range ends {
		for at := first; at+size <= end; at += stride {
			blocks = append(blocks, at)
		}
		first = end
	}
	c.Shape(out, []int64{int64(len(blocks)), heads, dim}, "a row for each block that a sequence holds")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(size, heads, dim)
		defer release()
		w := weight.As([]int64{size, heads, 1}, append(slices.Clone(weight.Strides), 0))
		for i, at := range blocks {
			in := []kernel.Input{kernel.Of(input.View().Narrow(0, at, size)), kernel.Of(w)}
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
