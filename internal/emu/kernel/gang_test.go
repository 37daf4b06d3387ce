package kernel

import (
	"os"
	"path/filepath"
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

// TestGang: kernels that are computed at the same time, in chunks of any size by any number of threads, give the same as one
// thread.
func TestGang(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		product := productOfTiles(t)
		all.Go(func() {
			want := product(func(g unsafe.Pointer, tiles int64) { share(gemmWork, g, tiles, tiles) })
			assert.NotContains(t, want, float32(0))
			for threads := range int64(6) {
				for chunk := range int64(12) {
					got := product(func(g unsafe.Pointer, tiles int64) { gang(gemmWork, g, tiles, chunk+1, threads+1) })
					assert.Equal(t, want, got, "%d threads, chunks of %d", threads+1, chunk+1)
				}
			}
		})
	}
	all.Wait()
}

// TestGangThreads: a kernel starts as many threads as help its caller, which may run on all cores afterwards, and end when
// no kernel comes.
func TestGangThreads(t *testing.T) {
	var cores unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &cores))
	product := productOfTiles(t)
	for range 100 {
		product(func(g unsafe.Pointer, tiles int64) { gang(gemmWork, g, tiles, 1, 4) })
	}
	assert.GreaterOrEqual(t, gangThreads(t, cores), 3)
	require.Eventually(t, func() bool { return gangThreads(t, cores) == 0 }, 20*time.Second, 100*time.Millisecond)
}

// gangThreads counts the threads of the gang, all of which may run on the given cores unless they are moving to another one.
func gangThreads(t *testing.T, cores unix.CPUSet) (n int) {
	threads, err := filepath.Glob("/proc/self/task/*")
	assert.NoError(t, err)
	for _, dir := range threads {
		if name, _ := os.ReadFile(filepath.Join(dir, "comm")); string(name) != "cann-gang\n" { // "" if it has ended
			continue
		}
		id, err := strconv.Atoi(filepath.Base(dir))
		assert.NoError(t, err)
		n++
		assert.Eventually(t, func() bool {
			var set unix.CPUSet
			return unix.SchedGetaffinity(id, &set) != nil || set == cores
		}, 10*time.Second, time.Millisecond)
	}
	return n
}
