package kernel

import "fmt"

// BagMode is how the rows of a bag become one.
type BagMode int

// The sum, the mean, or the largest element of each column.
const (
	BagSum BagMode = iota
	BagMean
	BagMax
)

// Bags are groups of rows of a table: bag b has the rows that Index names from First[b] up to
// the next bag's, or the end.
type Bags struct {
	Mode    BagMode
	Index   []int64
	First   []int64
	Scale   []float64 // of every row, for sums; nil for ones
	Padding int64     // an index whose rows are left out; negative for none
}

// bag is the range of Index of a bag.
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

// Members is the bag of every index, and how many of its rows each bag counts.
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

// Into sets the rows of out, one for each bag; a bag without rows gives zeros. It returns
// the index of the row that every largest element came from.
func (b Bags) Into(out, table View) (largest []int64, err error) {
	if err := b.check(table.Shape[0]); err != nil {
		return nil, err
	}
	width := table.Shape[1]
	y := make([]float64, int64(len(b.First))*width)
	largest = make([]int64, len(y))
	_, sizes := b.Members()
	for i := range b.First {
		row, from := y[int64(i)*width:][:width], largest[int64(i)*width:][:width]
		lo, hi := b.bag(i)
		empty := true
		for k := lo; k < hi; k++ {
			if b.Index[k] == b.Padding {
				continue
			}
			x, err := Doubles(table.Select(0, b.Index[k]))
			if err != nil {
				return nil, err
			}
			scale := 1.0
			if b.Scale != nil {
				scale = b.Scale[k]
			}
			for j, v := range x {
				switch {
				case b.Mode != BagMax:
					row[j] += scale * v
				case empty || v > row[j] || v != v:
					row[j], from[j] = v, b.Index[k]
				}
			}
			empty = false
		}
		if b.Mode == BagMean {
			for j := range row {
				row[j] /= float64(max(sizes[i], 1))
			}
		}
	}
	return largest, SetFloats(out, y)
}
