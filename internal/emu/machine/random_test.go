package machine

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

var (
	randomCalls = flag.Int("calls", 20_000, "calls of C functions that TestRandomCalls makes")
	randomSeed  = flag.Uint64("seed", 0, "of the first sequence of TestRandomCalls; the others count on from it")
)

// brief lets nothing wait long for what never comes.
func brief(tb testing.TB) {
	tb.Setenv("HCCL_EXEC_TIMEOUT", "1")
	tb.Setenv("CANN_EMU_CONNECT_TIMEOUT", "20ms")
	tb.Chdir(tb.TempDir()) // some functions write files
}

// FuzzSurface makes sequences of random C calls.
func FuzzSurface(f *testing.F) {
	table, err := abi.Load()
	require.NoError(f, err)
	brief(f)
	for seed := range uint64(8) {
		f.Add(seed, uint16(200))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		s := newSurface(t, table, seed)
		for range steps % 2000 {
			s.step()
		}
		s.close()
		for name, text := range s.wrong {
			t.Errorf("%s panics: %.2000s", name, text)
		}
	})
}

// use is the memory and the other resources of the process.
type use struct{ heap, resident, goroutines, files int }

func used(t *testing.T) use {
	runtime.GC()
	runtime.GC() // what finalizers freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	require.NoError(t, err)
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return use{int(m.HeapAlloc), pages * os.Getpagesize(), runtime.NumGoroutine(), len(files)}
}

// TestRandomCalls makes many random calls of all functions and operators, without a crash, and without
// more memory, goroutines or files at the end than after a tenth of them. By hand:
//
//	go test ./internal/emu/machine -run TestRandomCalls -v -calls 10000000 -timeout 0
func TestRandomCalls(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	brief(t)
	var early use
	done := 0
	wrong := map[string]bool{}
	for seed := *randomSeed; done < *randomCalls; seed++ {
		if *randomCalls > 100_000 {
			t.Logf("sequence %d after %d calls", seed, done) // the last one of a process that crashes
		}
		s := newSurface(t, table, seed)
		for range 1000 {
			s.step()
		}
		s.close()
		done += s.calls
		for name, text := range s.wrong {
			if !wrong[name] {
				wrong[name] = true
				t.Errorf("sequence %d: %s panics: %.2000s", seed, name, text)
			}
		}
		if early == (use{}) && done > *randomCalls/10 {
			early = used(t)
		}
	}
	now := used(t)
	for try := 0; try < 1000 && (now.goroutines > early.goroutines+2 || now.files > early.files+2); try++ {
		time.Sleep(10 * time.Millisecond) // connections that nobody answered are about to end
		now = used(t)
	}
	t.Logf("%d calls; after a tenth of them %+v, now %+v", done, early, now)
	if *randomCalls > 100_000 { // few calls fill caches, and a sanitizer keeps memory for a while
		require.LessOrEqual(t, now.heap, early.heap+4<<20)
		require.LessOrEqual(t, now.resident, early.resident+64<<20)
	}
	require.LessOrEqual(t, now.goroutines, early.goroutines+2)
	require.LessOrEqual(t, now.files, early.files+2)
}
