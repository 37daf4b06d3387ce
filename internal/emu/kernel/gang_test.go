package kernel

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/dtype"
)

// productOfTiles returns a function that computes a product with f, and its result.
func productOfTiles(t *testing.T) func(f func(g unsafe.Pointer, tiles int64)) []float32 {
	view := func(m, n int64) View {
		v, release := temporary(dtype.Float32, []int64{m, n})
		t.Cleanup(release)
		for i := range v.floats() {
			v.floats()[i] = float32(i%101+1) / 64
		}
		return v
	}
	p := Product{Out: view(150, 640), A: view(150, 300), B: view(300, 640), Alpha: 1}
	g, err := p.c()
	require.NoError(t, err)
	g.tile_m, g.tile_n = 96, 128
	return func(f func(g unsafe.Pointer, tiles int64)) []float32 {
		clear(p.Out.floats())
		f(unsafe.Pointer(&g), 2*5)
		return slices.Clone(p.Out.floats())
	}
}

// TestGang: kernels that are computed at the same time, in chunks of any size, give the same as one thread.
func TestGang(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		product := productOfTiles(t)
		all.Go(func() {
			want := product(func(g unsafe.Pointer, tiles int64) { share(gemmWork, g, tiles, tiles, false) })
			assert.NotContains(t, want, float32(0))
			for chunk := range int64(12) {
				assert.Equal(t, want, product(func(g unsafe.Pointer, tiles int64) { assert.True(t, gang(gemmWork, g, tiles, chunk+1)) }))
			}
		})
	}
	all.Wait()
}

// TestGangWithoutFile: a kernel is computed even if no file can be opened for its end.
func TestGangWithoutFile(t *testing.T) {
	product := productOfTiles(t)
	want := product(func(g unsafe.Pointer, tiles int64) { share(gemmWork, g, tiles, 1, true) })
	var files unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &files)) }()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: files.Max}))
	product(func(g unsafe.Pointer, tiles int64) { assert.False(t, gang(gemmWork, g, tiles, 1)) })
	assert.Equal(t, want, product(func(g unsafe.Pointer, tiles int64) { share(gemmWork, g, tiles, 1, true) }))
}

// TestGangCores: as many threads as there are cores have one each.
func TestGangCores(t *testing.T) {
	if Threads() != runtime.NumCPU() || Threads() == 1 {
		t.Skipf("%d threads have %d cores", Threads(), runtime.NumCPU())
	}
	product := productOfTiles(t)
	// Threads of a smaller gang, which another test had, take a core when they compute something.
	require.Eventually(t, func() bool {
		product(func(g unsafe.Pointer, tiles int64) { assert.True(t, gang(gemmWork, g, tiles, 1)) })
		threads, cores := threadsOfOneCore(t)
		return threads == Threads() && len(cores) == threads
	}, 20*time.Second, time.Millisecond)
}

// threadsOfOneCore counts the threads that may run on one core only, and returns these cores.
func threadsOfOneCore(t *testing.T) (threads int, cores map[int]bool) {
	files, err := filepath.Glob("/proc/self/task/*")
	assert.NoError(t, err)
	cores = map[int]bool{}
	for _, f := range files {
		id, err := strconv.Atoi(filepath.Base(f))
		assert.NoError(t, err)
		var set unix.CPUSet
		if unix.SchedGetaffinity(id, &set) != nil || set.Count() != 1 {
			continue
		}
		threads++
		for c := range len(set) * 64 {
			if set.IsSet(c) {
				cores[c] = true
			}
		}
	}
	return threads, cores
}
