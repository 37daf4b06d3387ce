package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/graph"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// set stores numbers in the memory of the device, and get reads them.
func (c *cached) set(thread *rt.Thread, offset uint64, values ...float32) {
	size := uint64(4 * len(values))
	c.p.Must(thread, "aclrtMemcpy", c.memory+offset, size, rttest.Address(&values[0]), size, 1)
}

func (c *cached) get(thread *rt.Thread, offset uint64) float32 {
	var v float32
	c.p.Must(thread, "aclrtMemcpy", rttest.Address(&v), 4, c.memory+offset, 4, 2)
	return v
}

// executor returns the executor behind a handle.
func (c *cached) executor(handle uint64) *op.Executor {
	x, ok := rt.Lookup[*prepared](&c.l.rt.Handles, handle)
	require.True(c.t, ok)
	return x.Executor
}

// A call takes the executor of an equal call that has ended, of any thread, and computes at its own
// addresses.
func TestExecutorsServeAgain(t *testing.T) {
	c := newCached(t)
	a, b := c.p.Thread(0), c.p.Thread(0)
	c.set(a, 0, -1)
	c.set(a, 4096, -2)
	c.launch(a, 1)
	c.p.Must(a, "aclrtSynchronizeStream", c.stream)
	c.set(a, 0, -1)
	first := c.phaseOne(a, 1, 0) // the executor of the first call was not kept
	used := c.executor(first)
	require.NotSame(t, used, c.executor(c.phaseOne(a, 1, 0)), "the first call has not been launched")
	require.Zero(t, c.phaseTwo(a, first))
	c.p.Must(a, "aclrtSynchronizeStream", c.stream)

	second := c.phaseOne(b, 1, 4096)
	require.Same(t, used, c.executor(second))
	require.NotSame(t, used, c.executor(c.phaseOne(b, 2, 4096)), "another shape")
	require.Zero(t, c.phaseTwo(b, second))
	c.p.Must(a, "aclrtSynchronizeStream", c.stream)
	assert.EqualValues(t, 1, c.get(a, 0))
	assert.EqualValues(t, 2, c.get(a, 4096))
}

// Calls that always change leave executors of no more than so many calls, and none of an entry that is
// dropped; a call that comes again keeps its executor.
func TestExecutorsOfChangingCalls(t *testing.T) {
	t.Setenv("ACLNN_CACHE_LIMIT", "100")
	c := newCached(t)
	a := c.p.Thread(0)
	for range 2 { // the executor of the first call is not kept
		c.launch(a, 1)
		c.p.Must(a, "aclrtSynchronizeStream", c.stream)
	}
	again := c.phaseOne(a, 1, 0)
	used := c.executor(again)
	for n := int64(2); n < 3*executorCalls; n++ {
		if n%(executorCalls/2) == 0 {
			require.Zero(t, c.phaseTwo(a, again))
			c.p.Must(a, "aclrtSynchronizeStream", c.stream)
			again = c.phaseOne(a, 1, 0)
			require.Same(t, used, c.executor(again))
		}
		c.launch(a, n)
		c.launch(a, n)
		if n%20 == 0 { // the executors return to the cache
			c.p.Must(a, "aclrtSynchronizeStream", c.stream)
			c.launch(a, 1) // keeps the entry
		}
	}
	c.p.Must(a, "aclDestroyAclOpExecutor", again)
	c.p.Must(a, "aclrtSynchronizeStream", c.stream)
	require.Equal(t, executorCalls, c.l.cache.recent.Len())
	require.LessOrEqual(t, len(c.l.cache.calls), executorCalls+100, "calls with neither entries nor executors are forgotten")
}

// An executor of which a graph has a task serves no other call, since the graph runs it again.
func TestNoExecutorsOfGraphs(t *testing.T) {
	c := newCached(t)
	c.p.Add(graph.New(c.p.Runtime).Functions())
	a := c.p.Thread(0)
	c.launch(a, 1)
	c.p.Must(a, "aclmdlRICaptureBegin", c.stream, 2)
	handle := c.phaseOne(a, 1, 0)
	captured := c.executor(handle)
	require.Zero(t, c.phaseTwo(a, handle))
	g := c.p.Out(a, "aclmdlRICaptureEnd", 1, c.stream)
	for range 2 {
		c.set(a, 0, -1)
		c.set(a, 4096, -2)
		c.p.Must(a, "aclmdlRIExecuteAsync", g, c.stream)
		c.p.Must(a, "aclrtSynchronizeStream", c.stream)
		assert.EqualValues(t, 1, c.get(a, 0))
		assert.EqualValues(t, -2, c.get(a, 4096))
		handle = c.phaseOne(a, 1, 4096)
		require.NotSame(t, captured, c.executor(handle))
		require.Zero(t, c.phaseTwo(a, handle))
		c.p.Must(a, "aclrtSynchronizeStream", c.stream)
		assert.EqualValues(t, 2, c.get(a, 4096))
	}
	c.p.Must(a, "aclmdlRIDestroy", g)
}

// Phase one of an operator that the program registers runs in each call.
func TestNoExecutorsOfRegistered(t *testing.T) {
	c := newCached(t)
	calls := 0
	o := &op.Operator{Name: "CountedInCache", Params: []op.Param{{Name: "x", Class: op.TensorClass, Use: op.Updated}}}
	require.NoError(t, Register(o, func(*op.Call) (op.Run, error) {
		calls++
		return op.Nothing, nil
	}))
	number, _, ok := Custom(o.Name)
	require.True(t, ok)
	a, id := c.p.Thread(0), -1-number
	for n := range 4 {
		require.Equal(t, n, calls)
		x := c.l.rt.Handles.New(rt.TensorKind, &op.Tensor{Shape: []int64{1}, Strides: []int64{1}, Storage: []int64{1}, DType: dtype.Float32, Format: dtype.ND, Addr: c.memory})
		words := []uint64{x, 0, 0}
		words = append(words, make([]uint64, CustomFloats)...)
		var size, executor uint64
		words[1], words[2] = rttest.Address(&size), rttest.Address(&executor)
		require.Zero(t, c.l.Prepare(a, id, words), rttest.Text(a))
		require.Zero(t, c.l.Execute(a, id, 0, 0, executor, c.stream))
		c.p.Must(a, "aclrtSynchronizeStream", c.stream)
	}
}
