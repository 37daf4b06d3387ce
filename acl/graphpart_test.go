package acl_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// TestUpdate: the tasks of a part get other arguments, of the same operators.
func TestUpdate(t *testing.T) {
	st := openStream(t)
	x := tensors(t, st, 4, 5)
	scaled := func(from *aclnn.Tensor, by float64) func() error {
		return func() error {
			return aclnn.Add(st, aclnn.AddParams{Self: from, Other: x[1], Alpha: aclnn.Float(by), Out: x[2]})
		}
	}
	var part *acl.GraphPart
	g := capture(t, st, func() (err error) {
		part, err = st.Part(scaled(x[0], 1))
		return errors.Join(err, add(st, x[2], x[1], x[3]))
	})
	check := func(from *aclnn.Tensor, by float64) {
		t.Helper()
		require.NoError(t, scaled(from, by)())
		require.NoError(t, add(st, x[2], x[1], x[3]))
		want := values(t, st, x[3])
		require.NoError(t, st.Memset(x[3].Buffer(), 0, x[3].Bytes()))
		require.NoError(t, g.Replay(st))
		require.Equal(t, want, values(t, st, x[3]))
	}
	check(x[0], 1)
	for i := range 10 {
		require.NoError(t, g.Update(background, st, part, scaled(x[0], float64(i))))
		require.NoError(t, g.Replay(st)) // the next update waits for it
		check(x[0], float64(i))
	}
	fresh, err := aclnn.New(st, aclnn.Float32, 5)
	require.NoError(t, err)
	require.NoError(t, aclnn.Copy(st, fresh, x[3]))
	require.NoError(t, g.Update(background, st, part, scaled(fresh, 2)))
	check(fresh, 2)

	require.ErrorIs(t, g.Update(background, st, part, func() error { return nil }), acl.ErrCapture, "one operator is needed")
	require.ErrorIs(t, g.Update(background, st, part, func() error { _, err := st.Malloc(8); return err }), acl.ErrCapture)
	require.ErrorIs(t, g.Update(background, st, new(acl.GraphPart), scaled(fresh, 2)), acl.ErrInvalidArgument)
	_, err = st.Part(scaled(fresh, 1))
	require.ErrorIs(t, err, acl.ErrInvalidArgument, "outside of a capture")
	check(fresh, 2)
	require.NoError(t, fresh.Close())
	require.ErrorIs(t, g.Update(background, st, part, scaled(x[0], 2)), acl.ErrClosed)
}

// captureSum captures a graph of one part, which runs sum.
func captureSum(t *testing.T, st *acl.Stream) (g *acl.Graph, part *acl.GraphPart, sum func() error) {
	t.Helper()
	x := tensors(t, st, 3, 5)
	sum = func() error { return add(st, x[0], x[1], x[2]) }
	g = capture(t, st, func() (err error) {
		part, err = st.Part(sum)
		return err
	})
	return g, part, sum
}

// TestUpdateWhileMemoryCloses: what the stream has used before is closed by another goroutine, which marks the end of
// that use. The mark is no task of the graph.
func TestUpdateWhileMemoryCloses(t *testing.T) {
	st := openStream(t)
	other := acltest.Stream(t, st.Device())
	g, part, sum := captureSum(t, st)
	for range 20 {
		closed := closeUsed(t, other, st)
		for range 500 {
			require.NoError(t, g.Update(background, st, part, sum))
		}
		require.NoError(t, <-closed)
	}
	require.NoError(t, g.Replay(st))
	require.NoError(t, st.Synchronize(background))
}

// TestUpdateRefusesReplays: no replay begins while an update waits for earlier ones or changes the graph.
func TestUpdateRefusesReplays(t *testing.T) {
	st := openStream(t)
	other := acltest.Stream(t, st.Device())
	g, part, sum := captureSum(t, st)
	require.NoError(t, g.Replay(st))
	refused := 0
	refuse := func() {
		refused++
		assert.ErrorIs(t, g.Replay(st), acl.ErrBusy)
		assert.ErrorIs(t, g.Replay(other), acl.ErrBusy)
		assert.ErrorIs(t, g.Update(background, other, part, sum), acl.ErrBusy)
	}
	ctx := &asked{Context: t.Context(), f: refuse}
	require.NoError(t, g.Update(ctx, st, part, func() error {
		refuse()
		return sum()
	}))
	require.Equal(t, 2, refused)
	require.NoError(t, g.Replay(other))

	ctx = &asked{Context: t.Context(), f: func() { panic("the wait") }}
	require.Panics(t, func() { _ = g.Update(ctx, st, part, sum) })
	require.NoError(t, g.Replay(other), "the update is over")
	require.NoError(t, other.Synchronize(background))
}

// TestUpdateCannotOutgrowTheWorkspace: CANN would take the captured workspace for a larger one.
func TestUpdateCannotOutgrowTheWorkspace(t *testing.T) {
	st := openStream(t)
	small, smallStats := tensors(t, st, 8, 1, 32, 16), tensors(t, st, 2, 1, 2, 32, 8)
	const long = 2048
	large, largeStats := tensors(t, st, 8, 1, long, 16), tensors(t, st, 2, 1, 2, long, 8)
	var part *acl.GraphPart
	g := capture(t, st, func() (err error) {
		part, err = st.Part(func() error { return attentionGrad(st, small, smallStats) })
		return err
	})
	had := g.Memory().Workspace
	require.NoError(t, attentionGrad(st, large, largeStats), "alone the operator gets its workspace")
	err := g.Update(background, st, part, func() error { return attentionGrad(st, large, largeStats) })
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	require.ErrorContains(t, err, "capture it with the largest")
	require.Equal(t, had, g.Memory().Workspace)
	require.NoError(t, attentionGrad(st, small, smallStats))
	want := values(t, st, small[5])
	require.NoError(t, g.Replay(st))
	require.Equal(t, want, values(t, st, small[5]), "the graph is as it was")
}
