package mask_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/ops/mask"
)

const unlimited = math.MaxInt32

// square is a batch of equal lengths; wide has more keys, tall more queries.
var (
	square = mask.Shape{Layout: mask.BSND, Batch: 3, Heads: 4, Queries: 8, Keys: 8}
	wide   = mask.Shape{Layout: mask.BNSD, Batch: 1, Heads: 4, Queries: 4, Keys: 10}
	tall   = mask.Shape{Layout: mask.BSH, Batch: 2, Heads: 1, Queries: 10, Keys: 4}
	packed = mask.Shape{Layout: mask.TND, Batch: 1, Heads: 2, Queries: 9, Keys: 14}
)

// decided is a case of the decision table; Reason is a part of the text.
type decided struct {
	name  string
	mask  mask.Mask
	shape mask.Shape
	want  mask.Decision
}

// refused is a case that must fail with a text.
type refused struct {
	name  string
	mask  mask.Mask
	shape mask.Shape
	text  string
}

// cu and cuKeys pack four sequences, one of them empty.
var cu, cuKeys = []int64{0, 2, 5, 5, 9}, []int64{4, 8, 8, 14}

func in(m mask.Mask) mask.Mask { return mask.Varlen{CuQueries: cu, CuKeys: cuKeys, Within: m} }

func TestDecide(t *testing.T) {
	valid := func(rows ...string) []bool {
		var v []bool
		for _, c := range strings.Join(rows, "") {
			v = append(v, c == '1')
		}
		return v
	}
	checkDecided(t, []decided{
		{"nil", nil, square, mask.Decision{Source: mask.Absent, Reason: "full"}},
		{"none", mask.None{}, tall, mask.Decision{Source: mask.Absent}},
		{"causal", mask.Causal{}, square, mask.Decision{SparseMode: 2, Source: mask.Triangle}},
		{"causal of a chunk from the top left", mask.Causal{Anchor: mask.TopLeft}, wide, mask.Decision{SparseMode: 2, Source: mask.Triangle}},
		{"causal with a cache", mask.Causal{Anchor: mask.BottomRight}, wide, mask.Decision{SparseMode: 3, Source: mask.Triangle}},
		{"rows without keys", mask.Causal{Anchor: mask.BottomRight}, tall, mask.Decision{SparseMode: 3, Source: mask.Triangle, InnerPrecise: 2, Reason: "zeros"}},

		{"window", mask.Band{Pre: 3}, square, mask.Decision{SparseMode: 4, Source: mask.Triangle, Pre: 3}},
		{"window from the top left", mask.Band{Pre: 3, Next: 1, Anchor: mask.TopLeft}, wide, mask.Decision{SparseMode: 4, Source: mask.Triangle, Pre: 9, Next: -5}},
		{"window from the bottom right", mask.Band{Pre: 3, Next: 1, Anchor: mask.BottomRight}, wide, mask.Decision{SparseMode: 4, Source: mask.Triangle, Pre: 3, Next: 1}},
		{"window before the position", mask.Band{Pre: 5, Next: -1}, square, mask.Decision{SparseMode: 4, Source: mask.Triangle, Pre: 5, Next: -1, InnerPrecise: 2}},
		{"window behind the position", mask.Band{Pre: -1, Next: 5}, square, mask.Decision{SparseMode: 4, Source: mask.Triangle, Pre: -1, Next: 5, InnerPrecise: 2}},
		{"window that hides nothing", mask.Band{Pre: 99, Next: 99}, square, mask.Decision{SparseMode: 4, Source: mask.Triangle, Pre: 99, Next: 99}},
		{"window of nothing", mask.Band{Pre: -5, Anchor: mask.TopLeft}, mask.Shape{Layout: mask.BSND, Batch: 1, Heads: 1, Keys: 3}, mask.Decision{SparseMode: 4, Source: mask.Triangle, Pre: -2, Next: -3, InnerPrecise: 2}},

		{"prefix", mask.Prefix{Lengths: []int64{0, 8, 3}}, square, mask.Decision{SparseMode: 6, Source: mask.PrefixTriangle, Prefix: []int64{0, 8, 3}}},
		{"prefix with a cache", mask.Prefix{Lengths: []int64{6}}, wide, mask.Decision{SparseMode: 6, Source: mask.PrefixTriangle, Prefix: []int64{6}}},
		{"prefix with rows without keys", mask.Prefix{Lengths: []int64{0, 4}}, tall, mask.Decision{SparseMode: 6, Source: mask.PrefixTriangle, Prefix: []int64{0, 4}, InnerPrecise: 2}},

		{"right padding, causal", mask.Padding{Lengths: []int64{8, 3, 0}, Causal: true}, square, mask.Decision{SparseMode: 2, Source: mask.Triangle, Reason: "right padding"}},
		{"right padding, causal, as bools", mask.Padding{Valid: valid("11111111", "11100000", "00000000"), Causal: true}, square, mask.Decision{SparseMode: 2, Source: mask.Triangle, Reason: "right padding"}},
		{"right padding, causal, exact", mask.Padding{Lengths: []int64{8, 3, 0}, Causal: true, Exact: true}, square, mask.Decision{SparseMode: 1, Source: mask.Built, Shape: []int64{3, 1, 8, 8}, InnerPrecise: 2}},
		{"left padding, causal", mask.Padding{Valid: valid("11111111", "00000111", "11111111"), Causal: true}, square, mask.Decision{SparseMode: 1, Source: mask.Built, Shape: []int64{3, 1, 8, 8}, InnerPrecise: 2}},
		{"a hole, causal", mask.Padding{Valid: valid("11111111", "11100111", "11111111"), Causal: true}, square, mask.Decision{SparseMode: 1, Source: mask.Built, Shape: []int64{3, 1, 8, 8}, InnerPrecise: 2}},
		{"padding", mask.Padding{Lengths: []int64{1, 10}}, mask.Shape{Layout: mask.BSH, Batch: 2, Heads: 1, Queries: 4, Keys: 10}, mask.Decision{SparseMode: 1, Source: mask.Built, Shape: []int64{2, 1, 4, 10}, InnerPrecise: 2}},
		{"padding of nothing", mask.Padding{Lengths: []int64{8, 8, 8}}, square, mask.Decision{Source: mask.Absent, Reason: "nothing is padded"}},
		{"padding of nothing, causal, exact", mask.Padding{Lengths: []int64{8, 8, 8}, Causal: true, Exact: true}, square, mask.Decision{SparseMode: 2, Source: mask.Triangle}},

		{"packed", in(nil), packed, mask.Decision{Source: mask.Absent}},
		{"packed causal", in(mask.Causal{Anchor: mask.BottomRight}), packed, mask.Decision{SparseMode: 3, Source: mask.Triangle}},
		{"packed causal from the top left", in(mask.Causal{Anchor: mask.TopLeft}), packed, mask.Decision{SparseMode: 2, Source: mask.Triangle}},
		{"packed window", in(mask.Band{Pre: 2, Anchor: mask.BottomRight}), packed, mask.Decision{SparseMode: 4, Source: mask.Triangle, Pre: 2}},
		{"packed prefix", in(mask.Prefix{Lengths: []int64{2, 1, 0, 6}}), packed, mask.Decision{SparseMode: 6, Source: mask.PrefixTriangle, Prefix: []int64{2, 1, 0, 6}}},
	})
}

func checkDecided(t *testing.T, cases []decided) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := mask.Decide(c.mask, c.shape)
			require.NoError(t, err)
			want := c.want
			if want.SparseMode != 4 {
				want.Pre, want.Next = unlimited, unlimited
			}
			if c.shape.Layout == mask.TND {
				want.SeqQueries, want.SeqKeys = cu[1:], cuKeys
			}
			require.Contains(t, got.Reason, want.Reason)
			require.Contains(t, got.String(), fmt.Sprintf("sparseMode %d, %v", want.SparseMode, want.Source))
			require.Equal(t, want.SparseMode, got.SparseMode)
			require.Equal(t, want.Source, got.Source)
			require.Equal(t, want.Shape, got.Shape)
			require.Equal(t, [2]int64{want.Pre, want.Next}, [2]int64{got.Pre, got.Next})
			require.Equal(t, want.InnerPrecise, got.InnerPrecise)
			require.Equal(t, want.Prefix, got.Prefix)
			require.Equal(t, want.SeqQueries, got.SeqQueries)
			require.Equal(t, want.SeqKeys, got.SeqKeys)
			require.Equal(t, want.Source == mask.Given, got.Dense != nil)
		})
	}
}

func TestRefused(t *testing.T) {
	within := func(m mask.Mask) mask.Mask {
		return mask.Varlen{CuQueries: []int64{4, 9}, CuKeys: []int64{2, 14}, Within: m}
	}
	checkRefused(t, []refused{
		{"causal of a chunk from either corner", mask.Causal{}, wide, "its Anchor is not given"},
		{"window of a chunk from either corner", mask.Band{Pre: 3}, wide, "its Anchor is not given"},
		{"packed causal from either corner", within(mask.Causal{}), packed, "its Anchor is not given"},
		{"packed window from either corner", within(mask.Band{Pre: 3}), packed, "its Anchor is not given"},
		{"unknown anchor", mask.Causal{Anchor: 3}, square, "use mask.TopLeft or mask.BottomRight"},
		{"packed layout", mask.Causal{}, packed, "wrap the mask: mask.Varlen"},
		{"no packed layout", mask.Varlen{CuQueries: []int64{8}}, square, "use layout TND"},
		{"nil in the packed layout", nil, packed, "none for TND"},
		{"empty window", mask.Band{Pre: -5, Next: -5}, square, "no cell"},
		{"window above the matrix", mask.Band{Pre: -8, Next: 20}, square, "no cell"},
		{"window left of the matrix", mask.Band{Pre: 20, Next: -8}, square, "no cell"},
		{"window whose ends cross", mask.Band{Pre: 5, Next: -6}, square, "widen"},
		{"too few prefixes", mask.Prefix{Lengths: []int64{1}}, square, "one per batch item"},
		{"negative prefix", mask.Prefix{Lengths: []int64{0, -1, 0}}, square, "Lengths[1] is -1; it must be from 0 to 8"},
		{"long prefix", mask.Prefix{Lengths: []int64{0, 0, 9}}, square, "Lengths[2] is 9"},
		{"prefix shorter than the cache", mask.Prefix{Lengths: []int64{5}}, wide, "it must be from 6 to 10"},
		{"nothing about padding", mask.Padding{}, square, "neither or both"},
		{"both about padding", mask.Padding{Lengths: []int64{}, Valid: []bool{}}, square, "neither or both"},
		{"too few lengths", mask.Padding{Lengths: []int64{1, 2}}, square, "one per batch item"},
		{"length", mask.Padding{Lengths: []int64{1, 9, 0}}, square, "Lengths[1] is 9"},
		{"negative length", mask.Padding{Lengths: []int64{1, -1, 0}}, square, "Lengths[1] is -1"},
		{"too few bools", mask.Padding{Valid: make([]bool, 8)}, square, "give [3,8]"},
		{"causal padding of a chunk", mask.Padding{Lengths: []int64{4}, Causal: true}, wide, "as many queries as keys"},
		{"no tensor", mask.Dense{}, square, "no tensor"},
		{"no sequences", mask.Varlen{}, packed, "at least one"},
		{"unequal lists", mask.Varlen{CuQueries: []int64{9}, CuKeys: []int64{7, 14}}, packed, "1 query sequences and 2"},
		{"falling list", mask.Varlen{CuQueries: []int64{5, 4, 9}, CuKeys: []int64{5, 9, 14}}, packed, "falls from 5 to 4 at sequence 1"},
		{"rows beyond the end", mask.Varlen{CuQueries: []int64{4, 8}, CuKeys: []int64{7, 14}}, packed, "ends at 8 for 9 tokens"},
		{"queries as keys", mask.Varlen{CuQueries: []int64{4, 9}}, packed, "CuKeys ends at 9 for 14"},
		{"packed rows without keys", within(mask.Causal{Anchor: mask.BottomRight}), packed, "sequence 0 has 4 queries and 2 keys"},
		{"packed window without the position", within(mask.Band{Pre: -1, Next: 3, Anchor: mask.BottomRight}), packed, "position itself"},
		{"packed window of one", within(mask.Band{Anchor: mask.BottomRight}), packed, "position itself and more"},
		{"packed window that misses rows", within(mask.Band{Pre: 1, Next: 1, Anchor: mask.BottomRight}), packed, "first queries of sequence 0"},
		{"packed window of unequal shifts", within(mask.Band{Pre: 3, Anchor: mask.TopLeft}), packed, "bottom-right anchor"},
		{"packed prefixes", within(mask.Prefix{Lengths: []int64{1}}), packed, "1 prefix lengths for 2"},
		{"packed prefix", within(mask.Prefix{Lengths: []int64{1, 6}}), packed, "Lengths[1] is 6; it must be from 7 to 12"},
		{"packed padding", within(mask.Padding{Lengths: []int64{1, 1}}), packed, "not possible"},
		{"packed in packed", within(within(nil)), packed, "not possible"},
	})
}

func checkRefused(t *testing.T, cases []refused) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d, err := mask.Decide(c.mask, c.shape)
			require.ErrorIs(t, err, mask.ErrRefused)
			require.ErrorContains(t, err, c.text)
			require.Empty(t, d)
		})
	}
}
