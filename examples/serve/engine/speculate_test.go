package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDraftTokens(t *testing.T) {
	for _, c := range []struct {
		tokens []int32
		n      int
		want   []int32
	}{
		{[]int32{1, 2, 3, 4, 1, 2}, 2, []int32{3, 4}},
		{[]int32{1, 2, 3, 4, 1, 2}, 9, []int32{3, 4, 1, 2}},
		{[]int32{1, 2, 3, 4, 1, 2}, 0, nil},
		{[]int32{1, 2, 3, 4, 5, 2}, 3, nil},                       // one token says nothing
		{[]int32{0, 1, 2, 7, 5, 1, 2, 8, 0, 1, 2}, 1, []int32{7}}, // the longest end
		{[]int32{1, 2, 7, 1, 2, 8, 1, 2}, 1, []int32{8}},          // the last of equal ones
		{[]int32{6, 6, 6, 6}, 3, []int32{6}},                      // a text may overlap itself
		{[]int32{1}, 3, nil}, {nil, 3, nil}, {[]int32{4, 4}, 3, nil},
	} {
		require.Equal(t, c.want, draftTokens(c.tokens, c.n), "%v", c.tokens)
	}
}
