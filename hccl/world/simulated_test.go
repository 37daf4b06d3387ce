package world

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSimulated: the peers of a simulated group contribute what this rank does, in subgroups too, and errors stay errors.
func TestSimulated(t *testing.T) {
	g, err := Simulated(5, 512)
	require.NoError(t, err)
	assert.Equal(t, 5, g.Rank())
	assert.Equal(t, 512, g.Size())
	all, err := AllGather(t.Context(), g, "mine")
	require.NoError(t, err)
	assert.Len(t, all, 512)
	assert.Equal(t, "mine", all[77])
	shared, err := Share(t.Context(), g, 0, func() (int, error) { return 3, nil })
	require.NoError(t, err)
	assert.Equal(t, 3, shared, "rank 0 does not run")
	gathered, err := Gather(t.Context(), g, 0, 1)
	require.NoError(t, err)
	assert.Nil(t, gathered, "this is not rank 0")
	require.NoError(t, g.Barrier(t.Context()))

	sub, err := g.Sub(t.Context(), "few", []int{1, 5, 9})
	require.NoError(t, err)
	assert.Equal(t, 1, sub.Rank())
	few, err := AllGather(t.Context(), sub, 2.5)
	require.NoError(t, err)
	assert.Equal(t, []float64{2.5, 2.5, 2.5}, few)
	require.NoError(t, sub.Close())

	_, err = Share(t.Context(), g, 0, func() (int, error) { return 0, errors.New("broken") })
	require.ErrorIs(t, err, ErrRankFailed)
	_, err = g.Sub(t.Context(), "others", []int{1, 2})
	require.ErrorIs(t, err, ErrDisagree)
	require.NoError(t, g.Close())
	_, err = AllGather(t.Context(), g, 1)
	require.ErrorIs(t, err, ErrClosed)
	for _, p := range [][2]int{{-1, 4}, {4, 4}, {0, 0}} {
		_, err := Simulated(p[0], p[1])
		require.ErrorIs(t, err, ErrDisagree)
	}
}
