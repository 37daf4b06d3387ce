package order_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/emu/kernel/order"
)

// sorted returns the places of values in the order that the package documents.
func sorted(values []float64, descending bool) []int64 {
	places := make([]int64, len(values))
	for i := range places {
		places[i] = int64(i)
	}
	slices.SortStableFunc(places, func(i, j int64) int {
		a, b := values[i], values[j]
		c := 0
		switch {
		case math.IsNaN(a) && math.IsNaN(b), a == b:
		case math.IsNaN(a), a > b:
			c = 1
		default:
			c = -1
		}
		if descending {
			return -c
		}
		return c
	})
	return places
}

// Sorting all or the first keys, and choosing one by rank, agree with a stable sort, for few keys and
// many, narrow ranges and wide ones.
func TestKeys(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 63, 64, 200, 5000}).Draw(r, "n")
		some := rapid.SliceOfN(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, math.NaN(), -math.NaN(), math.Inf(1), math.Inf(-1)})), 1, 40).Draw(r, "some")
		values, keys := make([]float64, n), make([]uint64, n)
		step := rapid.IntRange(1, 97).Draw(r, "step")
		for i := range values {
			values[i] = some[i*step%len(some)]
			keys[i] = math.Float64bits(values[i])
		}
		descending := rapid.Bool().Draw(r, "descending")
		order.KeysOfFloats(keys, descending)
		want := sorted(values, descending)
		got := make([]int64, rapid.IntRange(0, n).Draw(r, "first"))
		var s order.Sorter
		s.Sort(got, keys)
		require.Equal(r, want[:len(got)], got)
		rank := rapid.IntRange(0, n-1).Draw(r, "rank")
		require.Equal(r, want[rank], order.Ranked(keys, int64(rank), make([]uint64, n)))
	})
}

func TestStable(t *testing.T) {
	require.Equal(t, []int64{1, 3, 0, 2}, order.Stable([]int64{5, -1, 5, 0}))
	require.Equal(t, []int64{1, 3, 0, 2}, order.Stable([]int64{math.MaxInt64, math.MinInt64, math.MaxInt64, 0}), "a range beyond int64")
	require.Equal(t, []int64{}, order.Stable(nil))
	require.Equal(t, []int64{2, 0, 1}, order.Descending([]float32{1, 1, 2}))
}

func TestSearch(t *testing.T) {
	row := []float64{1, 2, 2, math.Inf(1), math.NaN()}
	for x, want := range map[float64][2]int64{0: {0, 0}, 2: {1, 3}, 3: {3, 3}, math.Inf(1): {3, 4}} {
		require.Equal(t, want, [2]int64{order.Search(row, x, false), order.Search(row, x, true)}, "%v", x)
	}
	require.EqualValues(t, 4, order.Search(row, math.NaN(), false))
	require.EqualValues(t, 5, order.Search(row, math.NaN(), true))
}

func TestGroups(t *testing.T) {
	rows := order.Rows[float64]{Elements: []float64{1, 2, 0, 5, 1, 2, 1, 2}, Width: 2, N: 4}
	require.Equal(t, order.Groups{First: []int64{1, 0}, Group: []int64{1, 0, 1, 1}, Members: []int64{1, 3}}, rows.Grouped(rows.Sorted()))
	require.Equal(t, order.Groups{First: []int64{0, 1, 2}, Group: []int64{0, 1, 2, 2}, Members: []int64{1, 1, 2}}, rows.Grouped(nil))
	nan := order.Rows[float64]{Elements: []float64{math.NaN(), math.NaN()}, Width: 1, N: 2}
	require.Len(t, nan.Grouped(nil).First, 2, "a NaN does not equal itself")
	empty := order.Rows[float64]{N: 3}
	require.Equal(t, []int64{3}, empty.Grouped(empty.Sorted()).Members, "empty rows are equal")
}
