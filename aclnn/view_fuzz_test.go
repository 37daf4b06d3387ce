package aclnn_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
)

// model is what a view should be: its shape, and for each element in row-major order the place
// in memory.
type model struct {
	shape  []int64
	places []int64
}

// pick is the model whose element at an index is that of m at index from(index); ok is false
// when m has no such index.
func (m model) pick(shape []int64, from func(index []int64) []int64) (out model, ok bool) {
	n := int64(1)
	for _, d := range shape {
		if n *= d; d < 0 || n > 1<<12 {
			return m, false
		}
	}
	out.shape = slices.Clone(shape)
	index := make([]int64, len(shape))
	for range n {
		place := int64(0)
		for i, k := range from(index) {
			if k < 0 || k >= m.shape[i] {
				return m, false
			}
			place = place*m.shape[i] + k
		}
		out.places = append(out.places, m.places[place])
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return out, true
}

// FuzzViews makes chains of views and reads the last one: each must have the elements that its
// model has, and be possible where the model is.
func FuzzViews(f *testing.F) {
	for _, program := range [][]byte{
		{0, 0, 2}, {1, 1, 1, 2, 0, 0, 2}, {2, 2, 0, 3, 1, 1}, {3, 1, 0, 0, 0}, {4, 1, 5, 0, 3}, {5, 2, 2}, {0, 1, 2, 5, 1, 3}, {1, 0, 1, 2, 6, 0},
	} {
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		st := openStream(t)
		m := model{shape: []int64{4, 3, 6}}
		values := make([]int32, 4*3*6)
		for i := range values {
			values[i] = int32(i)
			m.places = append(m.places, int64(i))
		}
		x := made(t)(aclnn.FromSlice(t.Context(), st, aclnn.Int32, values, m.shape...))
		take := func() int64 {
			if len(program) == 0 {
				return 0
			}
			b := program[0]
			program = program[1:]
			return int64(b % 8)
		}
		for steps := 0; len(program) > 0 && steps < 8; steps++ {
			next, want, possible := step(x, m, take)
			require.Equal(t, possible, next.Err() == nil, "of %v: %v", x, next.Err())
			if !possible {
				continue
			}
			x, m = next, want
			require.True(t, slices.Equal(m.shape, x.Shape()), "%v is %v", x, m.shape)
		}
		got, err := aclnn.ToSlice[int32](t.Context(), st, x)
		require.NoError(t, err)
		require.Len(t, got, len(m.places))
		for i, p := range m.places {
			require.EqualValues(t, p, got[i], "%v", x)
		}
	})
}

// step makes one view of x and of its model.
func step(x *aclnn.Tensor, m model, take func() int64) (next *aclnn.Tensor, want model, possible bool) {
	op, a, b, c := take(), take(), take(), take()+1
	has := a < int64(len(m.shape))
	axis := min(a, int64(len(m.shape)-1))
	changed := func(d int64) []int64 {
		shape := slices.Clone(m.shape)
		shape[axis] = d
		return shape
	}
	moved := func(f func(k int64) int64) func([]int64) []int64 {
		return func(index []int64) []int64 {
			from := slices.Clone(index)
			from[axis] = f(from[axis])
			return from
		}
	}
	switch op {
	case 0:
		next = x.Transpose(int(a), int(b))
		if !has || b >= int64(len(m.shape)) {
			return next, m, false
		}
		swap := func(v []int64) []int64 {
			v = slices.Clone(v)
			v[a], v[b] = v[b], v[a]
			return v
		}
		want, possible = m.pick(swap(m.shape), swap)
	case 1:
		next = x.Narrow(int(a), b, c)
		if !has || b+c > m.shape[axis] {
			return next, m, false
		}
		want, possible = m.pick(changed(c), moved(func(k int64) int64 { return k + b }))
	case 2:
		end := b + c // beyond b, so that the range is none but for its end
		next = x.Slice(int(a), b, end, c)
		if !has || end > m.shape[axis] {
			return next, m, false
		}
		want, possible = m.pick(changed((end-b+c-1)/c), moved(func(k int64) int64 { return b + k*c }))
	case 3:
		next = x.Select(int(a), b)
		if !has || b >= m.shape[axis] {
			return next, m, false
		}
		want, possible = m.pick(slices.Delete(slices.Clone(m.shape), int(a), int(a+1)), func(index []int64) []int64 { return slices.Insert(slices.Clone(index), int(a), b) })
	case 4:
		next = x.Unsqueeze(int(a))
		if a > int64(len(m.shape)) || len(m.shape) == aclnn.MaxRank {
			return next, m, false
		}
		want, possible = m.pick(slices.Insert(slices.Clone(m.shape), int(a), 1), func(index []int64) []int64 { return slices.Delete(slices.Clone(index), int(a), int(a+1)) })
	case 5:
		shape := append([]int64{c}, m.shape...)
		next = x.Expand(shape...)
		if len(shape) > aclnn.MaxRank || int64(len(m.places))*c > 1<<12 {
			return x.Narrow(99, 0, 0), m, false // not for the model
		}
		want, possible = m.pick(shape, func(index []int64) []int64 { return index[1:] })
	case 6:
		next = x.Reshape(-1)
		if !x.Contiguous() {
			return next, m, false
		}
		want, possible = model{[]int64{int64(len(m.places))}, m.places}, true
	default:
		next = x.Unflatten(int(a), b, c)
		if !has || b*c != m.shape[axis] || len(m.shape) == aclnn.MaxRank {
			return next, m, false
		}
		want, possible = model{slices.Replace(slices.Clone(m.shape), int(a), int(a+1), b, c), m.places}, true
	}
	return next, want, possible
}
