package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
)

// RowsOf copies the rows at places of a matrix into temporary memory of the same element type. The
// caller must call release.
func RowsOf(x kernel.View, places []int64) (rows kernel.View, release func(), err error) {
	n, width := int64(len(places)), x.Shape[1]
	bytes, release := kernel.TemporaryInt8(n * width * int64(x.DType.Size()))
	rows = kernel.View{Data: bytes.Data, DType: x.DType, Shape: []int64{n, width}, Strides: []int64{width, 1}}
	return rows, release, indexing.Rows(rows, x, places)
}

// CopyRows sets row i of out to row places[i] of x, or to zero if places[i] is negative.
func CopyRows(out, x kernel.View, places []int64) error {
	c := indexing.Combination{X: x, Choices: 1, Index: places}
	return c.Into(out)
}

// RowEnds reads the end of each group of rows. The ends must be in ascending order and at most
// rows.
func RowEnds(groups *Tensor, rows int64) ([]int64, error) {
	ends, err := elementwise.Indices(groups.View())
	if err != nil {
		return nil, err
	}
	if !slices.IsSorted(ends) || ends[0] < 0 || ends[len(ends)-1] > rows {
		return nil, fmt.Errorf("%v holds %v; the ends must not fall and not exceed the %d rows", groups, ends, rows)
	}
	return ends, nil
}

// GroupEnds returns the end of each group of rows. With counts, the tensor holds the number of rows
// of each group instead of its end. Without a tensor all rows form one group.
func GroupEnds(groups *Tensor, rows int64, counts bool) ([]int64, error) {
	if groups == nil {
		return []int64{rows}, nil
	}
	if !counts {
		return RowEnds(groups, rows)
	}
	ends, err := elementwise.Indices(groups.View())
	if err != nil {
		return nil, err
	}
	end := int64(0)
	for i, n := range ends {
		if n < 0 || n > rows-end {
			return nil, fmt.Errorf("%v holds %v; the numbers of rows must not be negative and not exceed %d together", groups, ends, rows)
		}
		end += n
		ends[i] = end
	}
	return ends, nil
}

// EachGroup calls f for each group that is not empty, with its index, first row and number of rows.
func EachGroup(ends []int64, f func(g int, first, n int64) error) error {
	first := int64(0)
	for g, end := range ends {
		if end > first {
			if err := f(g, first, end-first); err != nil {
				return err
			}
		}
		first = end
	}
	return nil
}

// Total returns the sum of counts. A program may pass any numbers: a sum above the limit of int64 is that limit, which no
// dimension has.
func Total(counts []int64) (n int64) {
	for _, k := range counts {
		if k > 0 && n > math.MaxInt64-k {
			return math.MaxInt64
		}
		n += k
	}
	return n
}
