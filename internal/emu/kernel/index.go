package kernel

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// Indices reads the elements of an integer view in row-major order.
func Indices(v View) ([]int64, error) {
	whole, release := temporary(dtype.Int64, v.Shape)
	defer release()
	if err := Copy(whole, v); err != nil {
		return nil, err
	}
	return append([]int64(nil), unsafe.Slice((*int64)(whole.Data), whole.Len())...), nil
}

// at is element i of the first dimension.
func (v View) at(i int64) View {
	return View{
		Data:  unsafe.Add(v.Data, i*v.Strides[0]*int64(v.DType.Size())),
		DType: v.DType, Shape: v.Shape[1:], Strides: v.Strides[1:],
	}
}

// Gather is out[i] = table[indices[i]], rows of the first dimension. An index out of range
// is an error that names it.
func Gather(out, table View, indices []int64) error {
	n := table.Shape[0]
	for i, k := range indices {
		if k < 0 || k >= n {
			return fmt.Errorf("index %d at position %d is out of range for %d rows", k, i, n)
		}
	}
	contiguous := out.Contiguous() && table.at(0).Contiguous() && out.DType == table.DType
	size := int64(0)
	if len(indices) > 0 {
		size = out.at(0).Len() * int64(out.DType.Size())
	}
	var failed error
	Parallel(int64(len(indices)), max(1, grain/max(size, 1)), func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			to, from := out.at(i), table.at(indices[i])
			if contiguous {
				copy(unsafe.Slice((*byte)(to.Data), size), unsafe.Slice((*byte)(from.Data), size))
			} else if err := Copy(to, from); err != nil {
				failed = err
			}
		}
	})
	return failed
}

// ScatterSum is out[k] = Σ rows[i] over the i with indices[i] = k, times scale(count of k)
// when scale is given; rows whose index is skip are left out. The sums are fp32, in the
// order of the rows.
func ScatterSum(out, rows View, indices []int64, skip int64, scale func(count int) float32) error {
	n := out.Shape[0]
	at := make(map[int64][]int64)
	var keys []int64
	for i, k := range indices {
		if k == skip {
			continue
		}
		if k < 0 || k >= n {
			return fmt.Errorf("index %d at position %d is out of range for %d rows", k, i, n)
		}
		if at[k] == nil {
			keys = append(keys, k)
		}
		at[k] = append(at[k], int64(i))
	}
	source, release := temporary(dtype.Float32, rows.Shape)
	defer release()
	if err := Copy(source, rows); err != nil {
		return err
	}
	sums, releaseSums := temporary(dtype.Float32, out.Shape)
	defer releaseSums()
	if err := Zero(sums); err != nil {
		return err
	}
	width := int64(0)
	if len(indices) > 0 && n > 0 {
		width = sums.Len() / n
	}
	Parallel(int64(len(keys)), max(1, grain/max(width, 1)), func(lo, hi int64) {
		for _, k := range keys[lo:hi] {
			sum := unsafe.Slice((*float32)(unsafe.Add(sums.Data, 4*k*width)), width)
			for _, i := range at[k] {
				row := unsafe.Slice((*float32)(unsafe.Add(source.Data, 4*i*width)), width)
				for j, x := range row {
					sum[j] += x
				}
			}
			if scale != nil {
				f := scale(len(at[k]))
				for j := range sum {
					sum[j] *= f
				}
			}
		}
	})
	return Copy(out, sums)
}
