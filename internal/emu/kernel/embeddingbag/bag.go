package embeddingbag

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Mode determines how the rows of a bag are reduced to one row.
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
	if b.Mode != Max && out.Len() > 0 {
		if done, err := b.combine(out, table); done || err != nil {
			return nil, err
		}
	}
	y := make([]float64, int64(len(b.First))*width)
	largest = make([]int64, len(y))
	picked, release := kernel.TemporaryOf(table.DType, int64(len(b.Index)), width)
	defer release()
	if err := indexing.Pick(picked, table, 0, b.Index); err != nil {
		return nil, err
	}
	x, release, err := elementwise.Borrow[float32](picked)
	defer release()
	if err != nil {
		return nil, err
	}
	thread.Parallel(int64(len(b.First)), 1+(1<<12)/(1+int64(len(x))/int64(1+len(b.First))), func(first, end int64) {
		for i := first; i < end; i++ {
			b.reduce(int(i), y[i*width:][:width], largest[i*width:][:width], x)
		}
	})
	return largest, elementwise.SetFloats(out, y)
}

// combine computes sums and means in float32, unless some bags are much larger than most.
func (b Bags) combine(out, table kernel.View) (done bool, err error) {
	count, most := int64(len(b.First)), int64(1)
	for i := range b.First {
		lo, hi := b.bag(i)
		most = max(most, hi-lo)
	}
	if count*most > 4*int64(len(b.Index))+1<<10 {
		return false, nil
	}
	c := indexing.Combination{X: table, Choices: most, Index: slices.Repeat([]int64{-1}, int(count*most))}
	if b.Scale != nil {
		c.Scale = make([]float32, len(c.Index))
	}
	divisors := make([]float64, count)
	for i := range b.First {
		lo, hi := b.bag(i)
		size := 0
		for k := lo; k < hi; k++ {
			if b.Index[k] == b.Padding {
				continue
			}
			size++
			at := int64(i)*most + k - lo
			c.Index[at] = b.Index[k]
			if b.Scale != nil {
				c.Scale[at] = float32(b.Scale[k])
			}
		}
		divisors[i] = float64(max(size, 1))
	}
	if b.Mode == Sum {
		return true, c.Into(out)
	}
	sums, release := kernel.Temporary(count, table.Shape[1])
	defer release()
	by, release := kernel.Temporary(count, 1)
	defer release()
	if err := elementwise.SetFloats(by, divisors); err != nil {
		return true, err
	}
	if err := c.Into(sums); err != nil {
		return true, err
	}
	return true, elementwise.Map(elementwise.Div, dtype.Float32, out, []elementwise.Input{elementwise.Of(sums), elementwise.Of(by)})
}

// reduce sets row to the reduction of bag i, and from to the indices of largest elements. x has the rows of all indices.
func (b Bags) reduce(i int, row []float64, from []int64, x []float32) {
	lo, hi := b.bag(i)
	size := 0
	for k := lo; k < hi; k++ {
		if b.Index[k] == b.Padding {
			continue
		}
		scale := 1.0
		if b.Scale != nil {
			scale = b.Scale[k]
		}
		for j, v := range x[int(k)*len(row):][:len(row)] {
			v := float64(v)
			switch {
			case b.Mode != Max:
				row[j] += scale * v
			case size == 0 || v > row[j] || v != v:
				row[j], from[j] = v, b.Index[k]
			}
		}
		size++
	}
	if b.Mode == Mean {
		for j := range row {
			row[j] /= float64(max(size, 1))
		}
	}
}
