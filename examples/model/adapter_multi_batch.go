package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/ops/mask"
)

// portion is a range of a micro-batch's rows on this rank that has a loss of its own: all rows, or with
// UseEach those of an adapter.
type portion struct {
	number      int // of the adapter, as in Batch.Adapters, or of the sequence, as in Batch.Numbers; 0 if there are none
	first, rows int64
	labelled    int  // labels that are not ignored
	trained     bool // it has gradients
}

// samples returns the number of sequences.
func (b Batch) samples() int {
	if b.CuSeqLens != nil {
		return len(b.CuSeqLens) - 1
	}
	return b.Size
}

// sample returns where the inputs and labels of a sequence, with its padding, begin and end.
func (b Batch) sample(i int) (from, to int) {
	if b.CuSeqLens != nil {
		return int(b.CuSeqLens[i]), int(b.CuSeqLens[i+1])
	}
	return i * b.Length, (i + 1) * b.Length
}

func (b Batch) checkAdapters() error {
	switch {
	case b.Adapters == nil && b.AdapterTargets != nil:
		return fmt.Errorf("model: a batch has AdapterTargets and no Adapters: %w", acl.ErrInvalidArgument)
	case b.Adapters != nil && len(b.Adapters) != b.samples():
		return fmt.Errorf("model: a batch of %d samples has %d adapters: %w", b.samples(), len(b.Adapters), acl.ErrInvalidArgument)
	}
	return nil
}

// byAdapter returns the samples in the order of their adapters' numbers, and otherwise of the batch.
func (b Batch) byAdapter() Batch {
	order := make([]int, b.samples())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(b.Adapters[i], b.Adapters[j]) })
	sorted := b
	sorted.Inputs, sorted.Labels, sorted.Adapters, sorted.Lengths = nil, nil, nil, nil
	if b.CuSeqLens != nil {
		sorted.CuSeqLens = []int64{0}
	}
	for _, i := range order {
		from, to := b.sample(i)
		sorted.Inputs, sorted.Labels = append(sorted.Inputs, b.Inputs[from:to]...), append(sorted.Labels, b.Labels[from:to]...)
		sorted.Adapters = append(sorted.Adapters, b.Adapters[i])
		switch {
		case b.CuSeqLens != nil:
			sorted.CuSeqLens = append(sorted.CuSeqLens, int64(len(sorted.Inputs)))
		case b.Lengths != nil:
			sorted.Lengths = append(sorted.Lengths, b.Lengths[i])
		}
	}
	return sorted
}

// portions returns this rank's rows of each number, for samples in the order of their numbers. labels are those of the rank.
func (b Batch) portions(of []int, chunks []mask.Range, labels []int32) (parts []portion) {
	var numbers []int // by position
	for i, n := range of {
		from, to := b.sample(i)
		numbers = append(numbers, slices.Repeat([]int{n}, to-from)...)
	}
	for at, n := range mask.Gather(numbers, int64(b.Length), chunks) {
		if last := len(parts) - 1; last < 0 || parts[last].number != n {
			parts = append(parts, portion{number: n, first: int64(at), trained: n > 0})
		}
		last := &parts[len(parts)-1]
		last.rows++
		last.labelled += counted(labels[at : at+1])
	}
	return parts
}

// counted returns the number of labels that are not ignored.
func counted(labels []int32) (n int) {
	for _, l := range labels {
		if l >= 0 {
			n++
		}
	}
	return n
}
