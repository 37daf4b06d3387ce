package world_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/class"
	"github.com/goascend/cann/internal/testing/niltest"
)

// TestNil: objects that nothing has made, and nil parameters, give errors of package acl's classes
// and no panics.
func TestNil(t *testing.T) {
	refusals := []error{class.ErrInvalidArgument, class.ErrClosed}
	niltest.Complete(t, ".", "AllGather", "Broadcast", "DetectFrom", "EnvError", "Gather", "Group", "GroupError", "Join", "LocalGroups", "Mesh", "NewMembers",
		"NodeFrom", "RankTable", "Share", "StallError", "StartWatchdog", "TableError", "WaitRankTable", "Watchdog", "WithLogger")
	niltest.Receivers(t, refusals,
		(*world.Group)(nil), (*world.Mesh)(nil), (*world.Members[io.Closer])(nil), (*world.RankTable)(nil), (*world.Watchdog)(nil),
		new(world.Group), new(world.Members[io.Closer]), new(world.RankTable), new(world.Watchdog))
	for _, e := range []error{new(world.GroupError), new(world.EnvError), new(world.TableError), new(world.StallError)} {
		require.NotEmpty(t, e.Error())
		require.False(t, errors.Is(e, class.ErrInvalidArgument))
	}
	var none context.Context
	for name, f := range map[string]any{
		"AllGather": world.AllGather[int], "Gather": world.Gather[int], "Broadcast": world.Broadcast[int], "Share": world.Share[int],
		"DetectFrom": world.DetectFrom, "NodeFrom": world.NodeFrom, "Join": world.Join, "LocalGroups": world.LocalGroups,
		"WaitRankTable":      world.WaitRankTable,
		"Join without ctx":   func() error { _, err := world.Join(none, world.Alone(), world.GroupConfig{}, nil); return err },
		"groups without ctx": func() error { _, err := world.LocalGroups(none, 1, world.GroupConfig{}); return err },
	} {
		niltest.Function(t, refusals, name, f)
	}

	groups, err := world.LocalGroups(t.Context(), 1, world.GroupConfig{}, nil)
	require.NoError(t, err)
	g := groups[0]
	defer g.Close()
	niltest.Parameters(t, refusals, g)
	mesh, err := world.NewMesh(0, 1)
	require.NoError(t, err)
	niltest.Parameters(t, refusals, mesh)
	_, err = mesh.Group(t.Context(), nil)
	require.ErrorIs(t, err, world.ErrNil)
	_, err = world.Share[int](t.Context(), g, 0, nil)
	require.ErrorIs(t, err, class.ErrInvalidArgument)
	_, err = world.NewMembers[io.Closer](nil, nil, nil).Of(t.Context())
	require.ErrorIs(t, err, world.ErrNil)
	_, err = world.AllGather(t.Context(), g, 1)
	require.NoError(t, err, "the group still works")
}

// TestNilWatchdog: a watchdog without a group reports that, and can be closed.
func TestNilWatchdog(t *testing.T) {
	faults := make(chan error, 1)
	w := world.StartWatchdog(nil, world.WatchdogConfig{Interval: time.Millisecond, OnFault: func(err error) { faults <- err }}, nil)
	w.Watch(nil)()
	require.ErrorIs(t, <-faults, world.ErrNil)
	require.NoError(t, w.Close())
	require.NoError(t, w.CloseContext(t.Context()))
}

// TestCloseContext: the wait for ranks that do not answer ends with its context, and the watch ends
// all the same.
func TestCloseContext(t *testing.T) {
	groups, err := world.LocalGroups(t.Context(), 2, world.GroupConfig{})
	require.NoError(t, err)
	defer groups[1].Close()
	w := world.StartWatchdog(groups[0], world.WatchdogConfig{Interval: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = w.CloseContext(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, world.ErrGaveUp)
	require.NoError(t, w.Close(), "it is closed already")
	require.ErrorIs(t, groups[0].Barrier(t.Context()), class.ErrClosed)
}
