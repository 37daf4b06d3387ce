package hccl_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/hccl"
)

// TestSeveralDevices: communicators of several devices of one process come and go, whichever
// threads the goroutines run on, with the HCCL that remembers the device of a thread and with the
// one that does not.
func TestSeveralDevices(t *testing.T) {
	test := func(t *testing.T) {
		for range 20 {
			joined(t, 4, func(st *acl.Stream, c *hccl.Comm) {
				ranks := []int{c.Rank() &^ 1, c.Rank() | 1}
				pair, err := c.Sub(ranks, hccl.Config{})
				if !assert.NoError(t, err) {
					return
				}
				x, err := aclnn.FromSlice(t.Context(), st, aclnn.Float32, []float32{float32(c.Rank())}, 1)
				assert.NoError(t, err)
				assert.NoError(t, pair.AllReduce(st, x, x, hccl.Sum))
				got, err := aclnn.ToSlice[float32](t.Context(), st, x)
				assert.NoError(t, err)
				assert.Equal(t, []float32{float32(ranks[0] + ranks[1])}, got)
				assert.NoError(t, x.Close())
				assert.NoError(t, pair.Close())
			})
		}
		streams := devices(t, 3)
		all, err := hccl.JoinAll(t.Context(), streams...)
		require.NoError(t, err)
		for _, c := range all {
			require.NoError(t, c.Close())
		}
	}
	t.Run("as it is", test)
	if cshim.Emulated {
		t.Run("8.1.RC1", func(t *testing.T) { acltest.Rerun(t, test, "CANN_EMU_API=8.1.RC1") })
	}
}

// TestDefaultStream: HCCL has no default stream; the error names it before HCCL is called.
func TestDefaultStream(t *testing.T) {
	joined(t, 2, func(st *acl.Stream, c *hccl.Comm) {
		none, err := st.Device().DefaultStream()
		if !assert.NoError(t, err) {
			return
		}
		x, err := aclnn.New(st, aclnn.Float32, 2)
		assert.NoError(t, err)
		defer x.Close()
		for name, call := range map[string]func() error{
			"AllReduce": func() error { return c.AllReduce(none, x, x, hccl.Sum) },
			"AllToAll":  func() error { return c.AllToAll(none, x, x) },
			"Send":      func() error { return c.Send(none, x, 0) },
			"Recv":      func() error { return c.Recv(none, x, 0) },
			"Exchange":  func() error { return c.Exchange(none, hccl.SendTo(0, x), hccl.RecvFrom(0, x)) },
			"Barrier":   func() error { return c.Barrier(none) },
		} {
			err := call()
			assert.ErrorIs(t, err, acl.ErrInvalidArgument, name)
			assert.ErrorContains(t, err, "NewStream", name)
			var e *hccl.Error
			if assert.ErrorAs(t, err, &e, name) {
				assert.Zero(t, e.Code, name)
			}
		}
	})
}
