package kernel

import (
	"cmp"
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/order"
)

// comparable copies two views to contiguous elements of a common type: float64 if either is
// floating point, else int64.
func comparable(a, b View) (x, y View, release func(), err error) {
	key := dtype.Int64
	if a.DType.IsFloat() || b.DType.IsFloat() {
		key = dtype.Float64
	}
	x, releaseX := temporary(key, a.Shape)
	y, releaseY := temporary(key, b.Shape)
	release = func() { releaseX(); releaseY() }
	if err = Copy(x, a); err == nil {
		err = Copy(y, b)
	}
	if err != nil {
		release()
	}
	return x, y, release, err
}

// Search sets every element of out to the index in sorted at which the element of x can be
// inserted without breaking the order: before equal elements, or after them with right. sorted
// is a vector, or has the leading dimensions of x, and then each row of x is searched for in its
// own row. If sorter has data, it holds the indices that sort the rows of sorted.
func Search(out, sorted, x, sorter View, right bool) error {
	n := sorted.Shape[len(sorted.Shape)-1]
	rows, at, release, err := comparable(sorted, x)
	if err != nil {
		return err
	}
	defer release()
	if sorter.Data != nil && n > 0 {
		list, releaseList, err := places(sorter, n)
		if err != nil {
			return err
		}
		defer releaseList()
		ordered, releaseOrdered := temporary(rows.DType, rows.Shape)
		defer releaseOrdered()
		if err := Gather(ordered, rows, len(rows.Shape)-1, list); err != nil {
			return err
		}
		rows = ordered
	}
	found := make([]int64, x.Len())
	perRow := x.Len()
	if len(sorted.Shape) > 1 {
		perRow = x.Shape[len(x.Shape)-1]
	}
	if rows.DType == dtype.Float64 {
		search(found, rows.doubles(), at.doubles(), n, perRow, right)
	} else {
		search(found, rows.ints(), at.ints(), n, perRow, right)
	}
	return SetInts(out, found)
}

func search[T cmp.Ordered](found []int64, sorted, x []T, n, perRow int64, right bool) {
	Parallel(int64(len(x)), grain/16, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			found[i] = order.Search(sorted[i/perRow*n:][:n], x[i], right)
		}
	})
}

// SearchNumber is Search for a single number in a vector. With float it uses the floating-point
// form of x, else the integer form.
func SearchNumber(out, sorted View, x Number, float bool, sorter View, right bool) error {
	d := dtype.Int64
	if float {
		d = dtype.Float64
	}
	one, release := temporary(d, []int64{})
	defer release()
	if err := Fill(one, x); err != nil {
		return err
	}
	return Search(out, sorted, one, sorter, right)
}

// AnyEqual compares every element of x with n and reduces the results to one with join.
func AnyEqual(compare Op, join Reduction, compute dtype.Type, out, x View, n Number) error {
	answers, release := temporary(dtype.Bool, x.Shape)
	defer release()
	if x.Len() > 0 {
		if err := Map(compare, compute, answers, []Input{Of(x), Const(n)}); err != nil {
			return err
		}
	}
	return Reduce(join, out, answers, axesFrom(0, len(x.Shape)), 0)
}

// Count sets out[v] to the number of elements of x with the value v, or to the sum of their
// weights. x must not hold negative numbers; a number beyond the end of out is an error.
func Count(out, x, weights View) error {
	if err := Zero(out); err != nil || x.Len() == 0 {
		return err
	}
	at, err := Indices(x)
	if err != nil {
		return err
	}
	for i, k := range at {
		if k < 0 || k >= out.Shape[0] {
			return fmt.Errorf("element %d is %d; the result has places for 0 to %d", i, k, out.Shape[0]-1)
		}
	}
	if weights.Data == nil {
		return ScatterNumber(ScatterAdd, out, Whole(1), 0, x)
	}
	return Scatter(ScatterAdd, out, weights, 0, x)
}

// Histogram counts the elements of x in bins of equal width between lo and hi, both inclusive.
// If lo equals hi, the range is that of the elements. Elements outside the range and NaN are not
// counted.
func Histogram(out, x View, lo, hi float64) error {
	values, err := Doubles(x)
	if err != nil {
		return err
	}
	counts := make([]int64, out.Len())
	if err := order.Histogram(counts, values, lo, hi); err != nil {
		return err
	}
	return SetInts(out, counts)
}
