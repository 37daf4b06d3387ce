package mask_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/ops/mask"
)

// visible draws a pattern: one row per query, 1 where a key is visible.
func visible(d mask.Decision, index int, b, queries, keys int64) []string {
	p := d.Pattern(index)
	rows := make([]string, queries)
	for i := range queries {
		for j := range keys {
			if p.Visible(b, i, j) {
				rows[i] += "1"
			} else {
				rows[i] += "."
			}
		}
	}
	return rows
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		name          string
		mask          mask.Mask
		queries, keys int64
		want          []string // of the last batch item of two
	}{
		{"none", mask.None{}, 2, 3, []string{"111", "111"}},
		{"causal", mask.Causal{}, 3, 3, []string{"1..", "11.", "111"}},
		{"causal, more keys", mask.Causal{Anchor: mask.TopLeft}, 2, 4, []string{"1...", "11.."}},
		{"causal, bottom right", mask.Causal{Anchor: mask.BottomRight}, 2, 4, []string{"111.", "1111"}},
		{"causal, more queries", mask.Causal{Anchor: mask.BottomRight}, 4, 2, []string{"..", "..", "1.", "11"}},
		{"band", mask.Band{Pre: 1, Next: 1}, 4, 4, []string{"11..", "111.", ".111", "..11"}},
		{"band, bottom right", mask.Band{Pre: 1, Anchor: mask.BottomRight}, 2, 4, []string{".11.", "..11"}},
		{"band behind", mask.Band{Pre: -1, Next: 2, Anchor: mask.TopLeft}, 3, 4, []string{".11.", "..11", "...1"}},
		{"prefix", mask.Prefix{Lengths: []int64{0, 2}}, 4, 4, []string{"11..", "11..", "111.", "1111"}},
		{"padding", mask.Padding{Lengths: []int64{1, 2}}, 2, 3, []string{"11.", "11."}},
		{"left padding, causal", mask.Padding{Valid: []bool{true, true, true, false, true, true}, Causal: true}, 3, 3, []string{"...", ".1.", ".11"}},
		{"right padding, causal, exact", mask.Padding{Lengths: []int64{3, 1}, Causal: true, Exact: true}, 3, 3, []string{"1..", "1..", "1.."}},
		{"right padding, causal", mask.Padding{Lengths: []int64{3, 1}, Causal: true}, 3, 3, []string{"1..", "11.", "111"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := mask.Decide(c.mask, mask.Shape{Layout: mask.BSND, Batch: 2, Heads: 1, Queries: c.queries, Keys: c.keys})
			require.NoError(t, err)
			require.Equal(t, c.want, visible(d, 0, 1, c.queries, c.keys))
		})
	}
}

func TestPatternPacked(t *testing.T) {
	s := mask.Shape{Layout: mask.TND, Batch: 1, Heads: 1, Queries: 5, Keys: 6}
	for _, c := range []struct {
		within mask.Mask
		want   [][]string
	}{
		{nil, [][]string{{"111", "111"}, {"111", "111", "111"}}},
		{mask.Causal{Anchor: mask.TopLeft}, [][]string{{"1..", "11."}, {"1..", "11.", "111"}}},
		{mask.Causal{Anchor: mask.BottomRight}, [][]string{{"11.", "111"}, {"1..", "11.", "111"}}},
		{mask.Band{Pre: 1, Anchor: mask.BottomRight}, [][]string{{"11.", ".11"}, {"1..", "11.", ".11"}}},
		{mask.Prefix{Lengths: []int64{1, 2}}, [][]string{{"11.", "111"}, {"11.", "11.", "111"}}},
	} {
		t.Run(fmt.Sprint(c.within), func(t *testing.T) {
			d, err := mask.Decide(mask.Varlen{CuQueries: []int64{2, 5}, CuKeys: []int64{3, 6}, Within: c.within}, s)
			require.NoError(t, err)
			for i, want := range c.want {
				require.Equal(t, want, visible(d, i, 0, int64(len(want)), 3))
			}
		})
	}
}

// FuzzBand compares what a decision on a window does on the device (mode 4: from the
// bottom right) with what the window says, from either corner.
func FuzzBand(f *testing.F) {
	f.Add(int8(2), int8(1), uint8(4), uint8(7), true)
	f.Add(int8(-3), int8(5), uint8(9), uint8(2), false)
	f.Fuzz(func(t *testing.T, pre, next int8, queries, keys uint8, bottomRight bool) {
		sq, skv := int64(queries%20), int64(keys%20)
		m := mask.Band{Pre: int64(pre), Next: int64(next), Anchor: mask.TopLeft}
		shift := int64(0)
		if bottomRight {
			m.Anchor, shift = mask.BottomRight, skv-sq
		}
		count := 0
		sees := func(i, j int64) bool { return i+shift-m.Pre <= j && j <= i+shift+m.Next }
		for i := range sq {
			for j := range skv {
				if sees(i, j) {
					count++
				}
			}
		}
		d, err := mask.Decide(m, mask.Shape{Layout: mask.BNSD, Batch: 1, Heads: 1, Queries: sq, Keys: skv})
		if err != nil {
			require.ErrorIs(t, err, mask.ErrRefused)
			require.Zero(t, count, "a window with cells was refused: %v", err)
			return
		}
		require.False(t, count == 0 && sq > 0 && skv > 0, "a window without cells was accepted: %v", d)
		p := d.Pattern(0)
		for i := range sq {
			for j := range skv {
				delta := skv - sq
				device := i+delta-d.Pre <= j && j <= i+delta+d.Next
				require.Equal(t, sees(i, j), device, "device at %d,%d: %v", i, j, d)
				require.Equal(t, sees(i, j), p.Visible(0, i, j), "pattern at %d,%d: %v", i, j, d)
			}
		}
	})
}

// FuzzPadding compares the decision on random padding with the definition, on the rows
// that a decision defines.
func FuzzPadding(f *testing.F) {
	f.Add([]byte{1, 1, 0, 0, 1, 1, 1, 0}, uint8(4), true, false)
	f.Add([]byte{0, 1, 1}, uint8(3), false, true)
	f.Fuzz(func(t *testing.T, bits []byte, length uint8, causal, exact bool) {
		s := int64(length%8) + 1
		b := int64(len(bits)) / s
		if b > 6 {
			return
		}
		valid := make([]bool, b*s)
		for i := range valid {
			valid[i] = bits[i]%2 == 1
		}
		d, err := mask.Decide(mask.Padding{Valid: valid, Causal: causal, Exact: exact}, mask.Shape{Layout: mask.BSND, Batch: b, Heads: 1, Queries: s, Keys: s})
		require.NoError(t, err)
		p := d.Pattern(0)
		for n := range b {
			for i := range s {
				for j := range s {
					want := valid[n*s+j] && (!causal || j <= i)
					if exact || valid[n*s+i] || !causal {
						require.Equal(t, want, p.Visible(n, i, j), "item %d query %d key %d: %v", n, i, j, d)
					}
				}
			}
		}
	})
}
