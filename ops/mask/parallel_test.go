package mask_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/ops/mask"
)

func TestChunks(t *testing.T) {
	for _, c := range []struct {
		split       mask.Split
		length      int64
		rank, ranks int
		want        []mask.Range
	}{
		{mask.Contiguous, 8, 0, 1, []mask.Range{{0, 8}}},
		{mask.Contiguous, 8, 1, 2, []mask.Range{{4, 8}}},
		{mask.ZigZag, 8, 0, 1, []mask.Range{{0, 8}}},
		{mask.ZigZag, 8, 0, 2, []mask.Range{{0, 2}, {6, 8}}},
		{mask.ZigZag, 8, 1, 2, []mask.Range{{2, 4}, {4, 6}}},
		{mask.ZigZag, 0, 1, 2, []mask.Range{{0, 0}, {0, 0}}},
	} {
		got, err := c.split.Chunks(c.length, c.rank, c.ranks)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, c := range []struct {
		split       mask.Split
		length      int64
		rank, ranks int
	}{{mask.ZigZag, 6, 0, 2}, {mask.ZigZag, 3, 0, 1}, {mask.Contiguous, 7, 0, 2}, {mask.ZigZag, 8, 2, 2}, {mask.ZigZag, 8, -1, 2}, {mask.Contiguous, 8, 0, 0}} {
		_, err := c.split.Chunks(c.length, c.rank, c.ranks)
		require.ErrorIs(t, err, mask.ErrRefused)
	}
	require.Equal(t, []string{"a", "b", "g", "h", "A", "B", "G", "H"},
		mask.Gather([]string{"a", "b", "c", "d", "e", "f", "g", "h", "A", "B", "C", "D", "E", "F", "G", "H"}, 8, []mask.Range{{0, 2}, {6, 8}}))
}

// TestChunksPartition checks that the chunks of all ranks contain every position exactly once.
func TestChunksPartition(t *testing.T) {
	for _, split := range []mask.Split{mask.Contiguous, mask.ZigZag} {
		for ranks := 1; ranks <= 5; ranks++ {
			seen := make([]int, 40*ranks)
			for rank := range ranks {
				chunks, err := split.Chunks(int64(len(seen)), rank, ranks)
				require.NoError(t, err)
				held := int64(0)
				for _, c := range chunks {
					held += c.Len()
					for i := c.From; i < c.To; i++ {
						seen[i]++
					}
				}
				require.EqualValues(t, 40, held, "ranks hold equally many")
			}
			for i, n := range seen {
				require.Equal(t, 1, n, "position %d of %d ranks", i, ranks)
			}
		}
	}
}

// TestParts checks that the parts of all ranks together see the same keys as the whole mask.
func TestParts(t *testing.T) {
	const length = 24
	whole := mask.Shape{Layout: mask.BSND, Batch: 2, Heads: 1, Queries: length, Keys: length}
	for _, m := range []mask.Mask{
		nil, mask.None{}, mask.Causal{}, mask.Causal{Anchor: mask.BottomRight}, mask.Band{Pre: 5}, mask.Band{Pre: 3, Next: 4}, mask.Band{Pre: -1, Next: 9},
		mask.Band{Pre: 7, Next: -2, Anchor: mask.BottomRight}, mask.Padding{Lengths: []int64{9, length}}, mask.Padding{Lengths: []int64{9, length}, Causal: true},
	} {
		for _, split := range []mask.Split{mask.Contiguous, mask.ZigZag} {
			for _, ranks := range []int{1, 2, 3, 12} {
				t.Run(fmt.Sprint(m, split, ranks), func(t *testing.T) {
					d, err := mask.Decide(m, whole)
					require.NoError(t, err)
					want := d.Pattern(0)
					held := make([][]mask.Range, ranks)
					for rank := range ranks {
						held[rank], err = split.Chunks(length, rank, ranks)
						require.NoError(t, err)
					}
					for _, queries := range held {
						for _, keys := range held {
							parts, err := mask.Parts(m, whole, queries, keys)
							require.NoError(t, err)
							seen := cells(t, whole, parts)
							for b := range whole.Batch {
								for i, q := range positions(queries) {
									for j, k := range positions(keys) {
										require.Equal(t, want.Visible(b, q, k), seen[[3]int64{b, int64(i), int64(j)}], "item %d query %d key %d in %+v", b, q, k, parts)
									}
								}
							}
						}
					}
				})
			}
		}
	}
}

// positions lists the positions of chunks in the order in which a rank holds them.
func positions(chunks []mask.Range) (out []int64) {
	for _, c := range chunks {
		for i := c.From; i < c.To; i++ {
			out = append(out, i)
		}
	}
	return out
}

// cells returns the cells that parts show, by item, query and key; each may be in one part only.
func cells(t *testing.T, whole mask.Shape, parts []mask.Part) map[[3]int64]bool {
	seen := map[[3]int64]bool{}
	for _, p := range parts {
		s := whole
		s.Queries, s.Keys = p.Queries.Len(), p.Keys.Len()
		d, err := mask.Decide(p.Mask, s)
		require.NoError(t, err)
		some := false
		for b := range whole.Batch {
			for i := range s.Queries {
				for j := range s.Keys {
					cell := [3]int64{b, p.Queries.From + i, p.Keys.From + j}
					_, twice := seen[cell]
					require.False(t, twice, "%v is in two of %+v", cell, parts)
					shown := d.Pattern(0).Visible(b, i, j)
					seen[cell], some = shown, some || shown
				}
			}
		}
		require.True(t, some, "no query sees a key in %+v", p)
	}
	return seen
}

// TestPackedParts checks the same of packed sequences, which calls take apart themselves.
func TestPackedParts(t *testing.T) {
	const length = 24
	whole := mask.Shape{Layout: mask.TND, Batch: 1, Heads: 1, Queries: length, Keys: length}
	ends := []int64{5, 5, 6, 15, 24}
	sequence := func(i int64) int {
		return slices.IndexFunc(ends, func(end int64) bool { return i < end })
	}
	for _, within := range []mask.Mask{nil, mask.Causal{}} {
		for _, split := range []mask.Split{mask.Contiguous, mask.ZigZag} {
			for _, ranks := range []int{1, 2, 3, 12} {
				t.Run(fmt.Sprint(within, split, ranks), func(t *testing.T) {
					for mine := range ranks {
						for theirs := range ranks {
							queries, err := split.Chunks(length, mine, ranks)
							require.NoError(t, err)
							keys, err := split.Chunks(length, theirs, ranks)
							require.NoError(t, err)
							parts, err := mask.Parts(mask.Varlen{CuQueries: ends, Within: within}, whole, queries, keys)
							require.NoError(t, err)
							seen := map[[2]int64]bool{}
							for _, p := range parts {
								s := whole
								s.Queries, s.Keys = p.Queries.Len(), p.Keys.Len()
								_, err := mask.Decide(p.Mask, s)
								require.NoError(t, err)
								m := p.Mask.(mask.Varlen)
								q, k := m.CuQueries, m.CuKeys
								if k == nil {
									k = q
								}
								if q[0] != 0 {
									q, k = append([]int64{0}, q...), append([]int64{0}, k...)
								}
								for n := 1; n < len(q); n++ {
									for i := q[n-1]; i < q[n]; i++ {
										for j := k[n-1]; j < k[n]; j++ {
											if m.Within == nil || m.Within == (mask.None{}) || j-k[n-1] <= i-q[n-1] {
												seen[[2]int64{p.Queries.From + i, p.Keys.From + j}] = true
											}
										}
									}
								}
							}
							for i, q := range positions(queries) {
								for j, k := range positions(keys) {
									want := sequence(q) == sequence(k) && (within == nil || k <= q)
									require.Equal(t, want, seen[[2]int64{int64(i), int64(j)}], "query %d key %d in %+v", q, k, parts)
								}
							}
						}
					}
				})
			}
		}
	}
}

// TestPartsJoined: a causal rule in zig-zag order takes one call of each step of a ring.
func TestPartsJoined(t *testing.T) {
	whole := mask.Shape{Layout: mask.BSND, Batch: 1, Heads: 1, Queries: 64, Keys: 64}
	packed := whole
	packed.Layout = mask.TND
	for mine := range 4 {
		for theirs := range 4 {
			queries, err := mask.ZigZag.Chunks(64, mine, 4)
			require.NoError(t, err)
			keys, err := mask.ZigZag.Chunks(64, theirs, 4)
			require.NoError(t, err)
			for m, s := range map[mask.Mask]mask.Shape{mask.Causal{}: whole, mask.None{}: whole} {
				parts, err := mask.Parts(m, s, queries, keys)
				require.NoError(t, err)
				require.Len(t, parts, 1)
			}
			parts, err := mask.Parts(mask.Varlen{CuQueries: []int64{64}, Within: mask.Causal{}}, packed, queries, keys)
			require.NoError(t, err)
			require.Len(t, parts, 1)
		}
	}
}

func TestPartsRefused(t *testing.T) {
	chunks, even := []mask.Range{{0, 4}}, mask.Shape{Layout: mask.TND, Batch: 1, Heads: 2, Queries: 9, Keys: 9}
	for _, c := range []struct {
		mask   mask.Mask
		shape  mask.Shape
		chunks []mask.Range
		text   string
	}{
		{mask.Causal{Anchor: mask.TopLeft}, wide, chunks, "as many queries as keys"},
		{mask.Causal{}, square, []mask.Range{{4, 9}}, "not in the sequence"},
		{mask.Prefix{Lengths: []int64{1, 2, 3}}, square, chunks, "cannot be cut"},
		{mask.Padding{Lengths: []int64{1, 2, 3}, Causal: true, Exact: true}, square, chunks, "pad on the right"},
		{mask.Padding{Lengths: []int64{1, 2}}, square, chunks, "one per batch item"},
		{mask.Varlen{CuQueries: []int64{4, 9}, Within: mask.Band{Pre: 2}}, even, chunks, "use Causal or None"},
		{mask.Varlen{CuQueries: []int64{4, 9}, CuKeys: []int64{5, 9}}, even, chunks, "as many queries as keys"},
	} {
		_, err := mask.Parts(c.mask, c.shape, c.chunks, c.chunks)
		require.ErrorIs(t, err, mask.ErrRefused)
		require.ErrorContains(t, err, c.text)
	}
}

func TestLastTokens(t *testing.T) {
	for _, c := range []struct {
		mask  mask.Mask
		shape mask.Shape
		want  []int64
		text  string
	}{
		{nil, square, []int64{7, 7, 7}, ""},
		{mask.Causal{}, wide, []int64{3}, ""},
		{mask.Padding{Lengths: []int64{8, 3, 1}}, square, []int64{7, 2, 0}, ""},
		{mask.Padding{Valid: []bool{false, true, true, false}}, mask.Shape{Layout: mask.BSH, Batch: 2, Heads: 1, Queries: 2, Keys: 2}, []int64{1, 0}, ""},
		{in(nil), packed, nil, "item 2 has no token"},
		{mask.Varlen{CuQueries: []int64{4, 9}, CuKeys: []int64{5, 14}}, packed, []int64{3, 8}, ""},
		{mask.Varlen{CuQueries: []int64{4}}, packed, nil, "ends at 4"},
		{mask.Padding{Lengths: []int64{8, 0, 1}}, square, nil, "item 1 has no token"},
		{mask.Padding{}, square, nil, "neither or both"},
		{mask.Dense{}, square, nil, "device memory"},
		{nil, mask.Shape{Layout: mask.BSH, Batch: 1}, nil, "item 0 has no token"},
	} {
		got, err := mask.LastTokens(c.mask, c.shape)
		if c.text != "" {
			require.ErrorIs(t, err, mask.ErrRefused)
			require.ErrorContains(t, err, c.text)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestValidTokens(t *testing.T) {
	s := mask.Shape{Layout: mask.BSH, Batch: 2, Heads: 1, Queries: 3, Keys: 3}
	valid, err := mask.Padding{Lengths: []int64{3, 1}}.ValidTokens(s)
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true, true, false, false}, valid)
	again, err := mask.Padding{Valid: valid, Causal: true}.ValidTokens(s)
	require.NoError(t, err)
	require.Equal(t, valid, again)
	_, err = mask.Padding{}.ValidTokens(s)
	require.ErrorIs(t, err, mask.ErrRefused)
	require.Equal(t, []int64{0, 3, 3, 7}, mask.CuSeqLens([]int64{3, 0, 4}))
}
