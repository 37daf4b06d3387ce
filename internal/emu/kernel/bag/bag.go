package bag

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// Mode says how the rows of a bag are reduced to one row.
type Mode int

// The sum, the mean, or the largest element of each column.
const (
	Sum Mode = iota
	Mean
	Max
)

// Bags describes groups of rows of a table. Bag b consists of the rows Index[First[b]:First[b+1]];
// the last bag ends at the end of Index.
type Bags struct {
	Mode    Mode
	Index   []int64
	First   []int64
	Scale   []float64 // factor of each index, for sums; nil for ones
	Padding int64     // rows with this index are left out; negative for none
}

// bag returns the range of Index that belongs to bag i.
func (b Bags) bag(i int) (lo, hi int64) {
	lo, hi = b.First[i], int64(len(b.Index))
	if i+1 < len(b.First) {
		hi = b.First[i+1]
	}
	return lo, hi
}

// check refuses indices and bags that are out of range.
func (b Bags) check(rows int64) error {
	for i, k := range b.Index {
		if k < 0 || k >= rows {
			return fmt.Errorf("index %d at position %d is out of range for %d rows", k, i, rows)
		}
	}
	for i := range b.First {
		if lo, hi := b.bag(i); lo < 0 || lo > hi || hi > int64(len(b.Index)) {
			return fmt.Errorf("bag %d has the indices from %d up to %d of %d", i, lo, hi, len(b.Index))
		}
	}
	return nil
}

// Members returns the bag of every index, and the number of rows that count in each bag.
func (b Bags) Members() (bags, sizes []int64) {
	bags, sizes = make([]int64, len(b.Index)), make([]int64, len(b.First))
	for i := range b.First {
		lo, hi := b.bag(i)
		for k := lo; k < hi; k++ {
			bags[k] = int64(i)
			if b.Index[k] != b.Padding {
				sizes[i]++
			}
		}
	}
	return bags, sizes
}

// Into sets row b of out to the reduction of bag b; a bag without rows gives zeros. For Max it
// returns the index of the row that each element came from.
func (b Bags) Into(out, table kernel.View) (largest []int64, err error) {
	if err := b.check(table.Shape[0]); err != nil {
		return nil, err
	}
	width := table.Shape[1]
	y := make([]float64, int64(len(b.First))*width)
	largest = make([]int64, len(y))
	_, sizes := b.Members()
	each := func(reduce func(i int64, row []float64, from []int64)) {
		kernel.Parallel(int64(len(b.First)), 1+(1<<12)/(1+int64(len(b.Index))*width/int64(1+len(b.First))), func(first, end int64) {
			for i := first; i < end; i++ {
				reduce(i, y[i*width:][:width], largest[i*width:][:width])
			}
		})
	}
	if table.DType == dtype.Float32 && (width == 1 || table.Strides[1] == 1) {
		each(func(i int64, row []float64, from []int64) {
			reduce(b, int(i), row, from, sizes[i], func(k int64) []float32 {
				return unsafe.Slice((*float32)(unsafe.Add(table.Data, 4*b.Index[k]*table.Strides[0])), width)
			})
		})
		return largest, kernel.SetFloats(out, y)
	}
	picked, release := kernel.TemporaryOf(table.DType, int64(len(b.Index)), width)
	defer release()
	if err := kernel.Pick(picked, table, 0, b.Index); err != nil {
		return nil, err
	}
	x, err := kernel.Doubles(picked)
	if err != nil {
		return nil, err
	}
	each(func(i int64, row []float64, from []int64) {
		reduce(b, int(i), row, from, sizes[i], func(k int64) []float64 { return x[k*width:][:width] })
	})
	return largest, kernel.SetFloats(out, y)
}

// reduce sets row to the reduction of bag i, which has the given size, and from to the indices of largest
// elements. of returns the row of an index.
func reduce[T float32 | float64](b Bags, i int, row []float64, from []int64, size int64, of func(k int64) []T) {
	lo, hi := b.bag(i)
	empty := true
	for k := lo; k < hi; k++ {
		if b.Index[k] == b.Padding {
			continue
		}
		scale := 1.0
		if b.Scale != nil {
			scale = b.Scale[k]
		}
		x := of(k)
		if b.Mode != Max {
			row := row[:len(x)]
			for j, v := range x {
				row[j] += scale * float64(v)
			}
			continue
		}
		for j, v := range x {
			v := float64(v)
			switch {
			case empty || v > row[j] || v != v:
				row[j], from[j] = v, b.Index[k]
			}
		}
		empty = false
	}
	if b.Mode == Mean {
		for j := range row {
			row[j] /= float64(max(size, 1))
		}
	}
}
