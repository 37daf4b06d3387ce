//go:build emu && linux && cgo

package acl_test

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/machine"
)

// again runs tests of this package in a process with another emulator.
func again(t *testing.T, run string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", run)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestHostFuncOnOlderCANN runs the tests of host functions again in a process whose CANN has
// aclrtLaunchCallback only.
func TestHostFuncOnOlderCANN(t *testing.T) {
	const api = "CANN_EMU_API"
	if os.Getenv(api) != "" {
		t.Skip("this is the process with the older CANN")
	}
	out := again(t, "HostFunc|Abort|Wait|Fault$|Leak", api+"="+abi.V81RC1)
	require.Contains(t, out, "--- PASS: TestHostFuncRunsInOrder")
	require.NotContains(t, out, "no host functions")
}

// TestKnobsCount: go test learns of the emulator's variables, also of those read before the tests began,
// so that it does not answer with the result of a run with others.
func TestKnobsCount(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command(os.Args[0], "-test.run=^TestNil$", "-test.testlogfile="+log)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	for _, name := range []string{"API", "COLD_PREPARE", "CONNECT_TIMEOUT", "CPU", "DEVICES", "FAULTS", "FAULT_SEED", "HEALTH", "MEMORY", "SANITIZE", "SOC", "THREADS", "THREAD_START", "TRACE"} {
		require.Contains(t, string(text), "getenv CANN_EMU_"+name+"\n")
	}
}

// TestLeaksArePrinted: without a logger the emulator prints the first leak of a process, unless it
// is set not to.
func TestLeaksArePrinted(t *testing.T) {
	const mode = "CANN_TEST_LEAKS"
	if how := os.Getenv(mode); how != "" {
		rt, err := acl.Open(acl.Config{QuietLeaks: how == "quiet", LeakStacks: how == "stacks"})
		require.NoError(t, err)
		dev, err := rt.Device(0)
		require.NoError(t, err)
		gone := make(chan struct{}, 2)
		for range 2 {
			forget(t, func() (*acl.Buffer, error) { return dev.Malloc(100) }, func(b *acl.Buffer) {
				runtime.AddCleanup(b, func(struct{}) { gone <- struct{}{} }, struct{}{})
			})
		}
		collect(t, func() bool { return len(gone) == 2 && (how == "quiet" || acl.LeakPrinted()) }, "two leaks")
		runtime.KeepAlive(dev) // and the runtime, which it leads to
		return
	}
	const text = "acl: an object of kind buffer with 100 bytes was collected without Close; it stays with the process."
	for how, times := range map[string]int{"plain": 1, "stacks": 1, "quiet": 0} {
		out := again(t, "^TestLeaksArePrinted$", mode+"="+how)
		require.Equal(t, times, strings.Count(out, text), "%s: %s", how, out)
		require.Equal(t, how == "stacks", strings.Contains(out, "acl.(*Context).Malloc"), "%s: %s", how, out)
	}
}

// TestFailuresAskedFor: CANN_EMU_FAULTS reaches the calls of this package as CANN's failures
// do, those of queued work with the operator's name.
func TestFailuresAskedFor(t *testing.T) {
	const rules = "aclrtCreateStreamWithConfig:2=207008;aclnnExpGetWorkspaceSize=161002;run/aclnnMul=507015"
	acltest.Faults(t, rules, func(t *testing.T) {
		dev := acltest.Device(t, acltest.Open(t), 0)
		st := acltest.Stream(t, dev)
		_, err := dev.NewStream()
		var e *acl.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, acl.Code(207008), e.Code)
		x := tensors(t, st, 3, 4)
		require.ErrorIs(t, aclnn.Exp(st, aclnn.ExpParams{Self: x[0], Out: x[1]}), acl.ErrInvalidArgument)
		require.NoError(t, aclnn.Mul(st, aclnn.MulParams{Self: x[0], Other: x[1], Out: x[2]}))
		err = st.Synchronize(background)
		require.ErrorIs(t, err, acl.ErrKernel)
		require.ErrorContains(t, err, "aclnnMul")
	})
}

// TestSanitizers: CANN_EMU_SANITIZE finds what a program must not do with device memory, and
// leaves the ordered program alone.
func TestSanitizers(t *testing.T) {
	acltest.Rerun(t, func(t *testing.T) {
		dev := acltest.Device(t, acltest.Open(t), 0)
		one, two := acltest.Stream(t, dev), acltest.Stream(t, dev)
		x := tensors(t, one, 3, 4)
		exp := func(st *acl.Stream, from, to *aclnn.Tensor) {
			require.NoError(t, aclnn.Exp(st, aclnn.ExpParams{Self: from, Out: to}))
		}
		require.NoError(t, aclnn.InplaceZero(one, aclnn.InplaceZeroParams{Self: x[0]}))
		exp(one, x[0], x[1])
		require.NoError(t, one.Synchronize(background))
		exp(two, x[0], x[1])
		require.NoError(t, two.Synchronize(background), "the program waited for the first stream")

		exp(one, x[0], x[1])
		exp(two, x[0], x[1])
		first, second := one.Synchronize(background), two.Synchronize(background)
		if first == nil {
			first = second
		}
		require.ErrorIs(t, first, acl.ErrKernel)
		for _, part := range []string{"race: aclnnExp on stream", "writes out", "nothing orders them", "aclrtStreamWaitEvent"} {
			require.ErrorContains(t, first, part)
		}
	}, "CANN_EMU_SANITIZE=memory,race")
}

// TestWorkerScheduler: a stream waits for the flag that another one writes, and an abort ends the wait. The sanitizers know what the
// operator writes at the addresses of its context.
func TestWorkerScheduler(t *testing.T) {
	acltest.Rerun(t, func(t *testing.T) {
		dev := acltest.Device(t, acltest.Open(t), 0)
		st, other := acltest.Stream(t, dev), acltest.Stream(t, dev)
		numbers := func(v ...int32) *aclnn.Tensor {
			x, err := aclnn.FromSlice(background, other, aclnn.Int32, v, int64(len(v)))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, x.Close()) })
			return x
		}
		room := func() *aclnn.Tensor { // that nothing has written yet
			x, err := aclnn.New(st, aclnn.Int32, 2)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, x.Close()) })
			return x
		}
		info, data := numbers(0, 7, 11, 12), numbers(0)
		lists := []*aclnn.Tensor{room(), room(), room(), room()} // layers, sessions, micro-batches, experts
		bytes := make([]byte, 1024)
		for at, v := range map[int]uint32{0: 1, 4: 1, 8: 1, 12: 2, 128: 1} { // a session with a micro-batch of a token for two experts, running
			binary.LittleEndian.PutUint32(bytes[at:], v)
		}
		for at, x := range map[int]*aclnn.Tensor{384: info, 400: data, 512: lists[0], 528: lists[1], 544: lists[2], 560: lists[3]} {
			binary.LittleEndian.PutUint64(bytes[at:], x.Address())
			binary.LittleEndian.PutUint64(bytes[at+8:], uint64(x.Bytes()))
		}
		signed := make([]int8, len(bytes))
		for i, b := range bytes {
			signed[i] = int8(b)
		}
		scheduled, err := aclnn.FromSlice(background, st, aclnn.Int8, signed, 1024)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, scheduled.Close()) })
		schedule := func() {
			require.NoError(t, aclnn.InplaceFfnWorkerScheduler(st, aclnn.InplaceFfnWorkerSchedulerParams{ScheduleContext: scheduled, SyncGroupSize: 1}))
		}
		schedule()
		ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
		require.ErrorIs(t, st.Synchronize(ctx), context.DeadlineExceeded)
		cancel()
		require.NoError(t, acl.CopyToDevice(background, other, info.Buffer(), []int32{1}))
		require.NoError(t, st.Synchronize(background))
		for i, want := range [][]int32{{7}, {0}, {0}, {11, 12}} {
			got := make([]int32, len(want))
			require.NoError(t, acl.CopyFromDevice(background, st, got, lists[i].Buffer()))
			require.Equal(t, want, got)
		}
		schedule()
		require.NoError(t, st.Abort(), "nobody writes the flag again")
		require.NoError(t, st.Synchronize(background))
	}, "CANN_EMU_SANITIZE=memory,race", "CANN_EMU_SOC=Ascend910_9391", "CANN_EMU_API=") // an older interface lacks the operator
}

// TestLongWaitLeavesNothing: a wait of ten minutes, on the clock of the test, for work that hangs
// leaves no task on the stream and no error in CANN's log, and a cancelled wait returns at once.
func TestLongWaitLeavesNothing(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	synctest.Test(t, func(t *testing.T) {
		st, err := dev.NewStream()
		require.NoError(t, err)
		gate := make(chan struct{})
		require.NoError(t, st.HostFunc(func() { <-gate }))
		ev, err := st.Record()
		require.NoError(t, err)
		synctest.Wait() // until the function runs
		before := machine.Process().Backlog()
		for name, wait := range map[string]func(context.Context) error{
			"stream": st.Synchronize, "event": ev.Synchronize, "device": dev.Synchronize,
		} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			require.ErrorIs(t, wait(ctx), context.DeadlineExceeded, name)
			require.Equal(t, 10*time.Minute, time.Since(start), name)
			cancel()

			ctx, cancel = context.WithCancel(t.Context())
			returned := make(chan error)
			go func() { returned <- wait(ctx) }()
			time.Sleep(time.Minute)
			start = time.Now()
			cancel()
			require.ErrorIs(t, <-returned, context.Canceled, name)
			require.Less(t, time.Since(start), 10*time.Millisecond, name)
			require.Equal(t, before, machine.Process().Backlog(), name)
		}
		close(gate)
		require.NoError(t, st.Close())
		require.NoError(t, ev.Close())
	})
}

// TestThousandFaults: each of a thousand faults in a row is reported once, with its operator and its
// stream, by the copy that would have brought wrong data, and the copy after it is right.
func TestThousandFaults(t *testing.T) {
	acltest.Faults(t, "run/aclnnMul=507015", func(t *testing.T) {
		dev := acltest.Device(t, acltest.Open(t), 0)
		streams := []*acl.Stream{acltest.Stream(t, dev), acltest.Stream(t, dev)}
		for i := range 1000 {
			st := streams[i%2]
			ctx := background
			if i%3 == 0 {
				ctx = t.Context()
			}
			want := []float32{float32(i), 1}
			x, err := aclnn.FromSlice(ctx, st, aclnn.Float32, want, 2)
			require.NoError(t, err)
			y, err := aclnn.New(st, aclnn.Float32, 2)
			require.NoError(t, err)
			require.NoError(t, aclnn.Exp(st, aclnn.ExpParams{Self: x, Out: y}))
			require.NoError(t, aclnn.Mul(st, aclnn.MulParams{Self: x, Other: x, Out: y}))

			got := make([]float32, 2)
			var e *acl.Error
			require.ErrorAs(t, aclnn.CopyFromDevice(ctx, st, got, y), &e)
			require.ErrorIs(t, e, acl.ErrKernel)
			require.Equal(t, "aclnnMul", e.Suspects[0])
			require.Equal(t, st.ID(), e.Stream)
			require.NoError(t, aclnn.CopyFromDevice(ctx, st, got, x))
			require.Equal(t, want, got)
			require.NoError(t, st.Synchronize(ctx))
			require.NoError(t, x.Close())
			require.NoError(t, y.Close())
		}
		require.NoError(t, dev.Synchronize(background))
	})
}

// TestReopenOlderCANN: CANN 8.1 cannot be initialised twice. It stays initialised for those who open
// it again, unless a configuration file needs its end; then Open says why it fails.
func TestReopenOlderCANN(t *testing.T) {
	const older = "CANN_EMU_API=" + abi.V81RC1
	use := func(t *testing.T, cfg acl.Config) {
		rt, err := acl.Open(cfg)
		require.NoError(t, err)
		dev, err := rt.Device(0)
		require.NoError(t, err)
		st, err := dev.NewStream()
		require.NoError(t, err)
		x, err := aclnn.FromSlice(t.Context(), st, aclnn.Float32, []float32{1, 2}, 2)
		require.NoError(t, err)
		require.NoError(t, add(st, x, x, x))
		got, err := aclnn.ToSlice[float32](t.Context(), st, x)
		require.NoError(t, err)
		require.Equal(t, []float32{2, 4}, got)
		require.NoError(t, x.Close())
		require.NoError(t, st.Close())
		require.NoError(t, dev.Close())
		require.NoError(t, rt.Close())
	}
	t.Run("plain", func(t *testing.T) {
		acltest.Rerun(t, func(t *testing.T) {
			for range 3 {
				use(t, acl.Config{})
			}
		}, older)
	})
	t.Run("with a file", func(t *testing.T) {
		acltest.Rerun(t, func(t *testing.T) {
			cfg := acl.Config{File: filepath.Join(t.TempDir(), "acl.json")}
			require.NoError(t, os.WriteFile(cfg.File, []byte("{}"), 0o600))
			use(t, cfg)
			_, err := acl.Open(cfg)
			e := requireError(t, err, acl.ErrNotSupported, 0)
			require.Contains(t, e.Message, "keep a Runtime open")
			require.Empty(t, acl.Live())
		}, older, unopened+"=1")
	})
}

// TestWaitsAcrossOlderChips: where streams do not wait for events of other devices, CANN says that
// they do; the error says so.
func TestWaitsAcrossOlderChips(t *testing.T) {
	acltest.Rerun(t, func(t *testing.T) {
		rt := acltest.Open(t)
		require.Equal(t, "Ascend910A", rt.SoC())
		here, there := acltest.Stream(t, acltest.Device(t, rt, 0)), acltest.Stream(t, acltest.Device(t, rt, 1))
		release := hold(t, there)
		ev, err := there.Record()
		require.NoError(t, err)
		e := requireError(t, here.Wait(ev), acl.ErrNotSupported, 0)
		require.Contains(t, e.Message, "Event.Synchronize")
		same := acltest.Stream(t, there.Device())
		require.NoError(t, same.Wait(ev), "of the same device")
		release()
		require.NoError(t, same.Synchronize(t.Context()))
		require.NoError(t, ev.Close())
	}, "CANN_EMU_SOC=Ascend910A")
}
