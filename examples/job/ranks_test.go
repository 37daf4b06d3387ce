package job_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl/world"
)

var errBroken = errors.New("the cause")

// TestEach: the rank that fails is named first though another ended before it, the others follow,
// and their groups are closed.
func TestEach(t *testing.T) {
	const ranks, broken = 4, 2
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	groups, err := world.LocalGroups(ctx, ranks, world.GroupConfig{})
	require.NoError(t, err)
	gone := make(chan struct{})
	err = job.Each(ctx, groups, func(ctx context.Context, g *world.Group) error {
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		if g.Rank() == broken {
			defer func() { <-gone }() // its error comes last
			return errors.Join(errBroken, g.Close(), fmt.Errorf("closing: %w", acl.ErrPeerLost))
		}
		err := g.Barrier(ctx)
		if g.Rank() == 0 {
			close(gone)
		}
		return err
	})
	require.ErrorIs(t, err, errBroken)
	require.ErrorIs(t, err, world.ErrRankLost)
	require.Regexp(t, `^rank 2: the cause\n`, err.Error())
	for rank := range ranks {
		require.ErrorContains(t, err, fmt.Sprintf("rank %d: ", rank))
		require.ErrorIs(t, groups[rank].Barrier(t.Context()), world.ErrClosed)
	}
	require.NoError(t, job.Each(ctx, nil, nil))
}

// TestTogether: causes come before the loss of peers, that before the end of the job, and equals
// stay in the order in which they ended.
func TestTogether(t *testing.T) {
	require.NoError(t, job.Together(nil))
	lost := fmt.Errorf("a: %w", errors.Join(acl.ErrPeerLost, errBroken))
	left := fmt.Errorf("e: %w", world.ErrGaveUp)
	ended := fmt.Errorf("b: %w", context.Canceled)
	first, second := fmt.Errorf("c: %w", errors.Join(errBroken, context.Canceled)), fmt.Errorf("d: %w", acl.ErrOutOfMemory)
	require.EqualError(t, job.Together([]error{ended, lost, left, first, second}), errors.Join(first, second, lost, left, ended).Error())
}
