//go:build !emu

package emptycann_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/tools/emptycann"
)

// The C program's loops: each makes loop calls. The Go side makes the same ones.
var (
	cLaunch = cshim.NewFunc(cshim.ACL, "cannBenchLaunch")
	cRecord = cshim.NewFunc(cshim.ACL, "cannBenchRecord")
	cWait   = cshim.NewFunc(cshim.ACL, "cannBenchWait")
	cCopy   = cshim.NewFunc(cshim.ACL, "cannBenchCopy")
)

const loop = 1000

// home is built once: the shim finds libraries once per process.
var home = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "emptycann")
	if err != nil {
		return "", err
	}
	if _, err := emptycann.Build(dir); err != nil {
		return "", err
	}
	return dir, os.Setenv("ASCEND_HOME_PATH", dir)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := home(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// bench is a device of the empty CANN with what the measured calls need.
type bench struct {
	st       *acl.Stream
	ev       *acl.Event
	src, dst *acl.Buffer
	params   aclnn.FlashAttentionScoreParams
}

func setUp(tb testing.TB) *bench {
	_, err := home()
	require.NoError(tb, err)
	rt, err := acl.Open(acl.Config{})
	require.NoError(tb, err)
	dev, err := rt.Device(0)
	require.NoError(tb, err)
	st, err := dev.NewStream()
	require.NoError(tb, err)
	ev, err := dev.NewEvent()
	require.NoError(tb, err)
	b := &bench{st: st, ev: ev}
	b.src, err = dev.Malloc(64)
	require.NoError(tb, err)
	b.dst, err = dev.Malloc(64)
	require.NoError(tb, err)
	var tensors []*aclnn.Tensor
	tensor := func(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
		t, err := aclnn.New(st, dt, shape...)
		require.NoError(tb, err)
		tensors = append(tensors, t)
		return t
	}
	b.params = aclnn.FlashAttentionScoreParams{
		Query: tensor(aclnn.Float16, 2, 8, 128, 64), Key: tensor(aclnn.Float16, 2, 8, 128, 64),
		Value: tensor(aclnn.Float16, 2, 8, 128, 64), AttenMask: tensor(aclnn.Bool, 2048, 2048),
		ScaleValue: 0.125, KeepProb: 1, PreTokens: 2147483647, NextTokens: 2147483647, HeadNum: 8,
		InputLayout: "BNSD", SparseMode: 2,
		SoftmaxMaxOut: tensor(aclnn.Float32, 2, 8, 128, 8), SoftmaxSumOut: tensor(aclnn.Float32, 2, 8, 128, 8),
		AttentionOut: tensor(aclnn.Float16, 2, 8, 128, 64),
	}
	tb.Cleanup(func() {
		for _, t := range tensors {
			require.NoError(tb, t.Close())
		}
		require.NoError(tb, b.src.Close())
		require.NoError(tb, b.dst.Close())
		require.NoError(tb, ev.Close())
		require.NoError(tb, st.Close())
		require.NoError(tb, dev.Close())
		require.NoError(tb, rt.Close())
	})
	return b
}

func (b *bench) launch() error { return aclnn.FlashAttentionScore(b.st, b.params) }

func (b *bench) record() error { return b.ev.Record(b.st) }

func (b *bench) wait() error { return b.st.Wait(b.ev) }

func (b *bench) copy() error { return b.st.Copy(b.dst, b.src, 64) }

// TestCallsAllocateNothing: a launch with 20 arguments and 7 tensors, and the hot runtime
// calls, leave the garbage collector alone.
func TestCallsAllocateNothing(t *testing.T) {
	b := setUp(t)
	for name, call := range map[string]func() error{"launch": b.launch, "record": b.record, "wait": b.wait, "copy": b.copy} {
		var err error
		allocs := testing.AllocsPerRun(1000, func() { err = call() })
		require.NoError(t, err, name)
		require.Zero(t, allocs, name)
	}
}

// The benchmarks come in pairs: what a C program takes for the calls, and what Go takes, also
// as a multiple of an empty cgo call of the same run. The difference is the cost of the binding.

func BenchmarkLaunchFlashAttentionScore(b *testing.B) { compare(b, cLaunch, (*bench).launch) }

func BenchmarkRuntimeRecord(b *testing.B) { compare(b, cRecord, (*bench).record) }

func BenchmarkRuntimeWait(b *testing.B) { compare(b, cWait, (*bench).wait) }

func BenchmarkRuntimeCopy(b *testing.B) { compare(b, cCopy, (*bench).copy) }

func BenchmarkRuntimeEmptyCall(b *testing.B) {
	for range b.N {
		emptycann.Cross()
	}
}

// multiple is how many empty cgo calls take the time of one call. Of rounds that alternate
// between the two the fastest count, so that other programs on the machine do not.
func multiple(rounds int, call func()) float64 {
	fastest := func(best time.Duration, f func()) time.Duration {
		began := time.Now()
		for range loop {
			f()
		}
		return min(best, time.Since(began))
	}
	one, empty := time.Hour, time.Hour
	for range rounds {
		one, empty = fastest(one, call), fastest(empty, emptycann.Cross)
	}
	return float64(one) / float64(empty)
}

func compare(b *testing.B, c *cshim.Func, call func(*bench) error) {
	set := setUp(b)
	b.Run("C", func(b *testing.B) {
		for done := 0; done < b.N; done += loop {
			var calls cshim.Call
			require.NoError(b, calls.Do(c, 0))
		}
	})
	b.Run("Go", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if err := call(set); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if rounds := b.N / loop; rounds > 0 {
			b.ReportMetric(multiple(rounds, func() { _ = call(set) }), "cgo-calls/op")
		}
	})
}
