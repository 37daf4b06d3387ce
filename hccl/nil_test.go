package hccl_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/niltest"
)

// TestNil: communicators that nothing has joined, and nil parameters, give errors of package
// acl's classes and no panics.
func TestNil(t *testing.T) {
	refusals := []error{acl.ErrInvalidArgument, acl.ErrClosed, acl.ErrNotSupported}
	niltest.Complete(t, ".", "Comm", "Error", "Join", "JoinAll", "NewRootInfo", "RecvFrom", "SendTo", "Together", "Window")
	// Progress and the numbers of a rank are no calls.
	niltest.Receivers(t, refusals, (*hccl.Comm)(nil), new(hccl.Comm))
	niltest.Receivers(t, refusals, (*hccl.Window)(nil), new(hccl.Window))
	require.NotEmpty(t, new(hccl.Error).Error())
	for name, f := range map[string]any{
		"Join with a root info": hccl.Join[hccl.RootInfo], "Join with a table": hccl.Join[hccl.Table], "Join with a group": hccl.Join[*world.Group],
		"JoinAll": hccl.JoinAll, "NewRootInfo": hccl.NewRootInfo, "Together": hccl.Together,
	} {
		niltest.Function(t, refusals, name, f)
	}

	ctx := t.Context()
	gone, err := acltest.Device(t, acltest.Open(t), 0).NewStream()
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	info, table := hccl.RootInfo{Size: 1}, hccl.Table{Path: "table.json"}
	var none context.Context
	for st, class := range map[*acl.Stream]error{nil: acl.ErrInvalidArgument, new(acl.Stream): acl.ErrInvalidArgument, gone: acl.ErrClosed} {
		for name, call := range map[string]func() error{
			"NewRootInfo":           func() error { _, err := hccl.NewRootInfo(st); return err },
			"Join with a root info": func() error { _, err := hccl.Join(ctx, st, info, hccl.Config{}); return err },
			"Join with a table":     func() error { _, err := hccl.Join(ctx, st, table, hccl.Config{}); return err },
			"JoinAll":               func() error { _, err := hccl.JoinAll(ctx, st); return err },
			"Together":              func() error { return hccl.Together(st, func() error { return nil }) },
		} {
			require.ErrorIs(t, call(), class, name)
		}
	}
	joined(t, 1, func(st *acl.Stream, c *hccl.Comm) {
		for name, call := range map[string]func() error{
			"Join with a root info": func() error { _, err := hccl.Join(none, st, info, hccl.Config{}); return err },
			"Join with a table":     func() error { _, err := hccl.Join(none, st, table, hccl.Config{}); return err },
			"JoinAll":               func() error { _, err := hccl.JoinAll(none, st); return err },
		} {
			require.ErrorIs(t, call(), acl.ErrInvalidArgument, name)
		}
		x, err := aclnn.New(st, aclnn.Float32, 4)
		require.NoError(t, err)
		defer x.Close()
		niltest.Parameters(t, refusals, c)
		require.Equal(t, 16, hccl.SendTo(0, x).Bytes())
		require.Zero(t, hccl.Message{}.Bytes())
		for name, call := range map[string]func(st *acl.Stream, x *aclnn.Tensor) error{
			"AllReduce": func(st *acl.Stream, x *aclnn.Tensor) error { return c.AllReduce(st, x, x, hccl.Sum) },
			"Send":      func(st *acl.Stream, x *aclnn.Tensor) error { return c.Send(st, x, 0) },
			"AllGatherV": func(st *acl.Stream, x *aclnn.Tensor) error {
				return c.AllGatherV(st, x, x, hccl.Packed(4))
			},
			"Exchange": func(st *acl.Stream, x *aclnn.Tensor) error {
				return c.Exchange(st, hccl.SendTo(0, x), hccl.RecvFrom(0, x))
			},
		} {
			require.ErrorIs(t, call(nil, x), acl.ErrInvalidArgument, name)
			require.ErrorIs(t, call(new(acl.Stream), x), acl.ErrInvalidArgument, name)
			require.ErrorIs(t, call(gone, x), acl.ErrClosed, name)
			require.ErrorIs(t, call(st, nil), acl.ErrInvalidArgument, name)
			require.ErrorIs(t, call(st, new(aclnn.Tensor)), acl.ErrInvalidArgument, name)
		}
		require.ErrorIs(t, c.Exchange(nil), acl.ErrInvalidArgument)
	})
}
