package convolution

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Span describes the indices of one dimension that a pooling window covers: N indices from First
// on with stride Step. It is never empty.
type Span struct{ First, N, Step int64 }

// MaxPool sets out to the largest element of each window over the trailing dimensions of in.
// spans has one list of spans for each of these one to three dimensions. If index has data, it
// gets the row-major index of the element in those dimensions. The first of equal elements wins,
// and a NaN is larger than every number.
func MaxPool(out, index, in kernel.View, spans [][]Span) error {
	if out.Len() == 0 {
		return nil
	}
	spatial := len(spans)
	lead := len(in.Shape) - spatial
	want := slices.Clone(in.Shape[:lead])
	for _, s := range spans {
		want = append(want, int64(len(s)))
	}
	if spatial < 1 || spatial > 3 || !slices.Equal(want, out.Shape) {
		return fmt.Errorf("kernel: pooling %v gives %v, not %v", in.Shape, want, out.Shape)
	}
	c := rowwise.NewChain(in)
	x, y := c.Temp(in.Shape), c.Temp(out.Shape)
	at := c.TempOf(dtype.Int64, out.Shape)
	c.Set(x, elementwise.Identity, nil, elementwise.Of(in))
	if c.Err == nil {
		sizes := slices.Clone(in.Shape[lead:])
		for len(spans) < 3 {
			spans = slices.Insert(slices.Clone(spans), 0, []Span{{0, 1, 1}})
			sizes = slices.Insert(sizes, 0, 1)
		}
		if x.DType == dtype.Float64 {
			largest(y.Doubles(), at.Ints(), x.Doubles(), sizes, spans)
		} else {
			largest(y.Floats(), at.Ints(), x.Floats(), sizes, spans)
		}
	}
	c.Set(out, elementwise.Identity, nil, elementwise.Of(y))
	if c.Err == nil && index.Data != nil {
		c.Err = elementwise.Copy(index, at)
	}
	return c.End()
}

// largest pools planes of three dimensions.
func largest[T float32 | float64](y []T, index []int64, x []T, sizes []int64, spans [][]Span) {
	plane := sizes[0] * sizes[1] * sizes[2]
	places := int64(len(spans[0]) * len(spans[1]) * len(spans[2]))
	thread.Parallel(int64(len(y))/places, max(thread.Grain/places, 1), func(lo, hi int64) {
		for p := lo; p < hi; p++ {
			in, o := x[p*plane:][:plane], p*places
			for _, a := range spans[0] {
				for _, b := range spans[1] {
					for _, c := range spans[2] {
						first := (a.First*sizes[1]+b.First)*sizes[2] + c.First
						best, where := in[first], first
						for i := range a.N {
							for j := range b.N {
								row := ((a.First+i*a.Step)*sizes[1]+b.First+j*b.Step)*sizes[2] + c.First
								for k := range c.N {
									if v := in[row+k*c.Step]; v > best || v != v && best == best {
										best, where = v, row+k*c.Step
									}
								}
							}
						}
						y[o], index[o] = best, where
						o++
					}
				}
			}
		}
	})
}

// flattened returns a contiguous copy of v in type d as a matrix, with the last n dimensions
// merged into the columns and the others into the rows.
func flattened(c *rowwise.Chain, v kernel.View, n int, d dtype.Type) kernel.View {
	whole := c.TempOf(d, v.Shape)
	if c.Err == nil {
		c.Err = elementwise.Copy(whole, v)
	}
	return whole.Planes(n)
}

// Unpool sets image to zero and scatters every element of maps to the row-major position in the
// last n dimensions that index holds. With ScatterAdd it is the gradient of MaxPool, with
// ScatterSet its partial inverse. An index out of range is an error.
func Unpool(op indexing.ScatterOp, image, maps, index kernel.View, n int) error {
	if err := elementwise.Zero(image); err != nil || maps.Len() == 0 || image.Len() == 0 {
		return err
	}
	c := rowwise.NewChain(image)
	d := image.DType
	if op == indexing.ScatterAdd {
		d = c.Compute
	}
	whole := c.TempOf(d, image.Shape)
	src, at := flattened(c, maps, n, d), flattened(c, index, n, dtype.Int64)
	if c.Err == nil {
		clear(unsafe.Slice((*byte)(whole.Data), whole.Len()*int64(d.Size())))
		c.Err = indexing.Scatter(op, whole.Planes(n), src, 1, at)
	}
	if c.Err == nil {
		c.Err = elementwise.Copy(image, whole)
	}
	return c.End()
}

// UnpoolGrad sets every element of maps to the element of image at the row-major position in the
// last n dimensions that index holds.
func UnpoolGrad(maps, image, index kernel.View, n int) error {
	if maps.Len() == 0 {
		return nil
	}
	c := rowwise.NewChain(image)
	src, at := flattened(c, image, n, image.DType), flattened(c, index, n, dtype.Int64)
	whole := c.TempOf(maps.DType, maps.Shape)
	if c.Err == nil {
		c.Err = indexing.Gather(whole.Planes(n), src, 1, at)
	}
	if c.Err == nil {
		c.Err = elementwise.Copy(maps, whole)
	}
	return c.End()
}
