package matmul

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// FuzzGroupList runs grouped products with lists of any form and content on the device: a
// list that fits gives what its definition requires, rows past it stay as they are, and any other
// list is an error. Nothing crashes.
func FuzzGroupList(f *testing.F) {
	f.Add([]byte{2, 0, 3}, uint8(5), uint8(1), false)
	f.Add([]byte{2, 2, 5, 6}, uint8(7), uint8(0), true)
	f.Add([]byte{1, 3, 0, 2, 2, 0}, uint8(6), uint8(2), false)
	f.Add([]byte{1, 3, 1, 2}, uint8(6), uint8(2), false)
	f.Add([]byte{4, 255}, uint8(6), uint8(1), true)
	f.Fuzz(func(t *testing.T, raw []byte, height, form uint8, sums bool) {
		listType, rows := int64(form%3), int64(height%12)
		entries := make([]float64, min(len(raw), 16))
		for i := range entries {
			entries[i] = float64(int8(raw[i]))
		}
		shape := []int64{int64(len(entries))}
		if listType == 2 {
			entries = entries[:len(entries)/2*2]
			shape = []int64{int64(len(entries) / 2), 2}
			sums = false // pairs are for groups of rows
		}
		groups := shape[0]
		if groups == 0 || rows == 0 {
			return // refused before there is a list, and a product of nothing
		}
		group, ok := groupOfRow(listType, rows, entries)

		// Row i of x is i+1 in its only column, weight g is g+1.
		const unwritten = -7
		value := func(n int64) []float64 {
			v := make([]float64, n)
			for i := range v {
				v[i] = float64(i + 1)
			}
			return v
		}
		x, list := optest.Tensor(t, dtype.Float32, []int64{rows, 1}, value(rows)...), optest.Tensor(t, dtype.Int64, shape, entries...)
		a, want := groupedArgs(x, optest.Tensor(t, dtype.Float32, []int64{groups, 1, 1}, value(groups)...), list, optest.Tensor(t, dtype.Float32, []int64{rows, 1}, unwritten)), make([]float64, rows)
		for i, g := range group {
			want[i] = unwritten
			if g >= 0 {
				want[i] = float64(int64(i+1) * (g + 1))
			}
		}
		if sums {
			ones := optest.Tensor(t, dtype.Float32, []int64{rows, 1}, 1)
			a = groupedArgs(optest.Flipped(x), ones, list, optest.Tensor(t, dtype.Float32, []int64{groups, 1, 1}, unwritten)).With(optest.Args{"groupType": 2})
			want = make([]float64, groups)
			for i, g := range group {
				if g >= 0 {
					want[g] += float64(i + 1)
				}
			}
		}
		err := optest.Execute(t, "GroupedMatmulV5", a.With(optest.Args{"groupListType": listType}))
		if !ok {
			require.Error(t, err, "%v for %d rows", entries, rows)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, optest.Values(a["out"].([]*op.Tensor)[0]))
	})
}

// groupOfRow is the definition of a group list: the group of each row, -1 behind the last,
// and whether the list can be.
func groupOfRow(listType, rows int64, entries []float64) (group []int64, ok bool) {
	group = make([]int64, rows)
	for i := range group {
		group[i] = -1
	}
	type deal struct{ group, size float64 }
	var deals []deal
	switch listType {
	case 0:
		last := 0.0
		for g, end := range entries {
			deals = append(deals, deal{float64(g), end - last})
			last = end
		}
	case 1:
		for g, size := range entries {
			deals = append(deals, deal{float64(g), size})
		}
	default:
		for i := 0; i < len(entries); i += 2 {
			deals = append(deals, deal{entries[i], entries[i+1]})
		}
	}
	row, named := int64(0), map[float64]bool{}
	for _, d := range deals {
		if d.size < 0 || named[d.group] || d.group < 0 || int(d.group) >= len(deals) || row+int64(d.size) > rows {
			return nil, false
		}
		named[d.group] = true
		for range int64(d.size) {
			group[row] = int64(d.group)
			row++
		}
	}
	return group, true
}
