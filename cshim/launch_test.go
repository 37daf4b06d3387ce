package cshim_test

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
)

var (
	setDevice    = cshim.NewFunc(cshim.ACL, "aclrtSetDevice")
	resetDevice  = cshim.NewFunc(cshim.ACL, "aclrtResetDevice")
	getContext   = cshim.NewFunc(cshim.ACL, "aclrtGetCurrentContext")
	getDevice    = cshim.NewFunc(cshim.ACL, "aclrtGetDevice")
	malloc       = cshim.NewFunc(cshim.ACL, "aclrtMalloc")
	free         = cshim.NewFunc(cshim.ACL, "aclrtFree")
	memcpy       = cshim.NewFunc(cshim.ACL, "aclrtMemcpy")
	synchronize  = cshim.NewFunc(cshim.ACL, "aclrtSynchronizeStream")
	newStream    = cshim.NewFunc(cshim.ACL, "aclrtCreateStream")
	closeStream  = cshim.NewFunc(cshim.ACL, "aclrtDestroyStream")
	hostFunc     = cshim.NewFunc(cshim.ACL, "aclrtLaunchHostFunc")
	missing      = cshim.NewFunc(cshim.ACL, "aclrtNoSuchFunction")
	addOperator  = &cshim.Operator{Symbol: "aclnnAdd"}
	noSuchKernel = &cshim.Operator{Symbol: "aclnnNoSuchOperator"}
)

// fixture is a device with a stream, driven through the shim alone.
type fixture struct {
	t               *testing.T
	context, stream uint64
}

func newFixture(t *testing.T, device int) *fixture {
	if _, err := cshim.Opened(cshim.ACL); err != nil {
		t.Skip(err)
	}
	r := &fixture{t: t}
	runtime.LockOSThread() // SetDevice and GetCurrentContext must see one thread
	defer runtime.UnlockOSThread()
	c := cshim.Call{Args: [cshim.Args]uint64{uint64(device)}, Rebinds: true}
	require.NoError(t, c.Do(setDevice, 0))
	c = cshim.Call{Out: 1}
	require.NoError(t, c.Do(getContext, 0))
	r.context = c.Args[0]
	c = cshim.Call{Out: 1}
	require.NoError(t, c.Do(newStream, r.context))
	r.stream = c.Args[0]
	t.Cleanup(func() {
		c := cshim.Call{Args: [cshim.Args]uint64{r.stream}}
		require.NoError(t, c.Do(closeStream, r.context))
		c = cshim.Call{Args: [cshim.Args]uint64{uint64(device)}, Rebinds: true}
		require.NoError(t, c.Do(resetDevice, 0))
		cshim.Forget()
	})
	return r
}

// upload puts values into new device memory.
func (r *fixture) upload(values ...float32) uint64 {
	n := uint64(4 * len(values))
	c := cshim.Call{Args: [cshim.Args]uint64{0, n}, Out: 1}
	require.NoError(r.t, c.Do(malloc, r.context))
	address := c.Args[0]
	c = cshim.Call{Args: [cshim.Args]uint64{address, n, 0, n, uint64(abi.ACL_MEMCPY_HOST_TO_DEVICE)}, Host: unsafe.Pointer(&values[0]), HostArg: 3}
	require.NoError(r.t, c.Do(memcpy, r.context))
	r.t.Cleanup(func() {
		c := cshim.Call{Args: [cshim.Args]uint64{address}}
		require.NoError(r.t, c.Do(free, 0))
	})
	return address
}

func (r *fixture) download(address uint64, n int) []float32 {
	c := cshim.Call{Args: [cshim.Args]uint64{r.stream}}
	require.NoError(r.t, c.Do(synchronize, r.context))
	out := make([]float32, n)
	bytes := uint64(4 * n)
	c = cshim.Call{Args: [cshim.Args]uint64{0, bytes, address, bytes, uint64(abi.ACL_MEMCPY_DEVICE_TO_HOST)}, Host: unsafe.Pointer(&out[0]), HostArg: 1}
	require.NoError(r.t, c.Do(memcpy, r.context))
	return out
}

func vector(address uint64, n int64) *cshim.TensorDesc {
	d := &cshim.TensorDesc{Address: address, Rank: 1, StorageRank: 1, DType: int16(dtype.Float32), Format: int16(dtype.ND)}
	d.Dims[0], d.Strides[0], d.Storage[0] = n, 1, n
	return d
}

func encodeAdd(l *cshim.Launch, self, other, out *cshim.TensorDesc) {
	l.Reset(addOperator)
	l.Tensor(self)
	l.Tensor(other)
	l.Scalar(int32(dtype.Int64), [2]uint64{2})
	l.Tensor(out)
}

func TestLaunch(t *testing.T) {
	r := newFixture(t, 0)
	x, y, out := r.upload(1, 2, 3), r.upload(10, 20, 30), r.upload(0, 0, 0)
	var l cshim.Launch
	encodeAdd(&l, vector(x, 3), vector(y, 3), vector(out, 3))
	need, err := l.Run(r.context, r.stream, 0, 0)
	require.NoError(t, err)
	require.Zero(t, need)
	require.Equal(t, []float32{21, 42, 63}, r.download(out, 3))
}

func TestLaunchNamesTheFailedPhase(t *testing.T) {
	r := newFixture(t, 0)
	x := r.upload(1, 2, 3)
	var l cshim.Launch
	encodeAdd(&l, vector(x, 3), vector(x, 2), vector(x, 3))
	_, err := l.Run(r.context, r.stream, 0, 0)
	var e *cshim.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "aclnnAddGetWorkspaceSize", e.Func)
	require.Equal(t, int32(abi.ACLNN_ERR_PARAM_INVALID), e.Code)
	require.Contains(t, e.Message, "aclnnAdd")
}

// thread is an OS thread that runs functions.
type thread chan func()

func newThread(t *testing.T) thread {
	c, ended := make(thread), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range c {
			f()
		}
	}()
	t.Cleanup(func() {
		close(c)
		<-ended
	})
	return c
}

func (c thread) run(f func()) {
	done := make(chan struct{})
	c <- func() {
		defer close(done)
		f()
	}
	<-done
}

// TestLaunchWithMoreWorkspace: a launch that needed more workspace goes on on another OS thread,
// while the first one launches the same operator, whose executors share a buffer of that thread.
func TestLaunchWithMoreWorkspace(t *testing.T) {
	r := newFixture(t, 0)
	first, second := newThread(t), newThread(t)
	weight, space := r.upload(make([]float32, 128)...), r.upload(make([]float32, 1024)...)
	matrix := &cshim.TensorDesc{Address: weight, Rank: 2, StorageRank: 2, DType: int16(dtype.Float16), Format: int16(dtype.ND)}
	matrix.Dims[0], matrix.Dims[1], matrix.Strides[0], matrix.Strides[1] = 16, 16, 16, 1
	matrix.Storage = matrix.Dims
	operator := &cshim.Operator{Symbol: "aclnnTransMatmulWeight"}
	launch := func(l *cshim.Launch, on thread, size uint64) (need uint64, err error) {
		on.run(func() { need, err = l.Run(r.context, r.stream, space, size) })
		return need, err
	}
	var grows, other cshim.Launch
	for _, l := range []*cshim.Launch{&grows, &other} {
		l.Reset(operator)
		l.Tensor(matrix)
	}
	for range 2 { // from now on the thread has the operator in its cache
		need, err := launch(&other, first, 4096)
		require.NoError(t, err)
		require.Zero(t, need)
	}
	need, err := launch(&grows, first, 0)
	require.NoError(t, err)
	require.NotZero(t, need)
	_, err = launch(&other, first, 4096)
	require.NoError(t, err)
	need, err = launch(&grows, second, need)
	require.NoError(t, err)
	require.Zero(t, need)
	_, err = launch(&other, first, 4096)
	require.NoError(t, err)
	r.download(weight, 1) // waits
}

// TestPrepareAfterLaunch: what the cache of the thread has cannot be repeated; Prepare makes an
// executor that the cache does not have, and leaves the cache as it was.
func TestPrepareAfterLaunch(t *testing.T) {
	r := newFixture(t, 0)
	x, out := r.upload(1, 2), r.upload(0, 0)
	newThread(t).run(func() {
		for range 3 {
			var l cshim.Launch
			encodeAdd(&l, vector(x, 2), vector(x, 2), vector(out, 2))
			_, err := l.Run(r.context, r.stream, 0, 0)
			require.NoError(t, err)
			p, err := cshim.Prepare(&l, r.context)
			require.NoError(t, err)
			require.NoError(t, p.Run(r.stream, 0, p.Workspace()))
			require.NoError(t, p.Run(r.stream, 0, p.Workspace()))
			p.Close()
		}
	})
	require.Equal(t, []float32{3, 6}, r.download(out, 2))
}

func TestPreparedRunsWithOtherAddresses(t *testing.T) {
	r := newFixture(t, 0)
	x, y, out := r.upload(1, 2), r.upload(10, 20), r.upload(0, 0)
	var l cshim.Launch
	encodeAdd(&l, vector(x, 2), vector(y, 2), vector(out, 2))
	p, err := cshim.Prepare(&l, r.context)
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Run(r.stream, 0, p.Workspace()))
	require.Equal(t, []float32{21, 42}, r.download(out, 2))

	require.NoError(t, p.Bind(0, y))
	other := r.upload(0, 0)
	require.NoError(t, p.Bind(2, other))
	require.Error(t, p.Bind(3, y))
	require.NoError(t, p.Run(r.stream, 0, p.Workspace()))
	require.Equal(t, []float32{30, 60}, r.download(other, 2))
	require.Equal(t, []float32{21, 42}, r.download(out, 2))
}

func TestMissingSymbols(t *testing.T) {
	r := newFixture(t, 0)
	var c cshim.Call
	var e *cshim.SymbolError
	require.ErrorAs(t, c.Do(missing, r.context), &e)
	require.Equal(t, "aclrtNoSuchFunction", e.Symbol)
	var l cshim.Launch
	l.Reset(noSuchKernel)
	_, err := l.Run(r.context, r.stream, 0, 0)
	require.ErrorAs(t, err, &e)
	require.Equal(t, "aclnnNoSuchOperatorGetWorkspaceSize", e.Symbol)
}

func TestHostFuncRunsOnce(t *testing.T) {
	r := newFixture(t, 0)
	ran := make(chan struct{})
	function, argument, _ := cshim.RegisterHostFunc(func() { close(ran) })
	c := cshim.Call{Args: [cshim.Args]uint64{r.stream, function, argument}}
	require.NoError(t, c.Do(hostFunc, r.context))
	<-ran
}

// TestContextRidesWithTheCall: goroutines on any OS thread reach their device, with the
// threads changing under them.
func TestContextRidesWithTheCall(t *testing.T) {
	var fixtures [4]*fixture
	for d := range fixtures {
		fixtures[d] = newFixture(t, d)
	}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 200 {
				d := (g + i) % len(fixtures)
				c := cshim.Call{Out: 1}
				if err := c.Do(getDevice, fixtures[d].context); err != nil || int(int32(c.Args[0])) != d {
					t.Errorf("device %d of %d, error %v", int32(c.Args[0]), d, err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
}

// TestCapturedLaunchReplays: operators are part of a graph like copies.
func TestCapturedLaunchReplays(t *testing.T) {
	r := newFixture(t, 0)
	x, y := r.upload(1, 2, 3), r.upload(1, 1, 1)
	call := func(name string, out uint32, args ...uint64) uint64 {
		c := cshim.Call{Out: out}
		copy(c.Args[:], args)
		require.NoError(t, c.Do(cshim.NewFunc(cshim.ACL, name), r.context))
		return c.Args[1]
	}
	call("aclmdlRICaptureBegin", 0, r.stream, abi.ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
	var l cshim.Launch
	encodeAdd(&l, vector(x, 3), vector(y, 3), vector(x, 3))
	_, err := l.Run(r.context, r.stream, 0, 0)
	require.NoError(t, err)
	graph := call("aclmdlRICaptureEnd", 2, r.stream)
	for range 3 {
		call("aclmdlRIExecuteAsync", 0, graph, r.stream)
	}
	require.Equal(t, []float32{7, 8, 9}, r.download(x, 3))
	call("aclmdlRIDestroy", 0, graph)
}
