package compare_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/thread"
	"github.com/goascend/cann/internal/tools/compare"
)

// product is [m,k]·[k,n] to float32, where the second operand may be the transpose of [n,k].
type product struct {
	m, n, k    int64
	transposed bool
}

func (p product) String() string {
	return fmt.Sprintf("%dx%dx%d%s", p.m, p.n, p.k, map[bool]string{true: "T"}[p.transposed])
}

var products = []product{
	{1024, 1024, 1024, false}, {1024, 1024, 1024, true}, {512, 3072, 768, true}, {128, 128, 128, false},
	{64, 64, 16384, false}, {1, 4096, 1024, true}, {4, 4096, 1024, true}, {1, 4096, 1024, false},
}

func (p product) operands(t testing.TB, d dtype.Type) (a, b kernel.View) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return v
	}
	layout := kerneltest.Contiguous
	if p.transposed {
		layout = kerneltest.Transposed
	}
	return newView(t, d, kerneltest.Contiguous, []int64{p.m, p.k}, random(p.m*p.k)),
		newView(t, d, layout, []int64{p.k, p.n}, random(p.k*p.n))
}

// BenchmarkMatmul measures products of the emulator and of each library in turns, many short
// rounds of each, and reports the rates of the best rounds and the emulator's share of each
// library's rate.
func BenchmarkMatmul(b *testing.B) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		for _, p := range products {
			b.Run(fmt.Sprintf("%v/%v", d, p), func(b *testing.B) { multiply(b, p, d) })
		}
	}
}

func multiply(b *testing.B, p product, d dtype.Type) {
	runtime.LockOSThread() // OpenMP has a number of threads, and threads, for each thread that calls it
	defer runtime.UnlockOSThread()
	x, y := p.operands(b, d)
	out := newView(b, dtype.Float32, kerneltest.Contiguous, []int64{p.m, p.n}, nil)
	runs := map[string]func() bool{"ours": func() bool {
		return gemm.Gemm(gemm.Product{Out: out, A: x, B: y, Alpha: 1}) == nil
	}}
	for name, l := range libraries {
		if !l.Load(thread.Threads()) {
			b.Logf("%s is not installed", name)
			continue
		}
		runs[name] = func() bool { return l.Multiply(out, x, y, d == dtype.BFloat16) }
	}
	// The threads of a library wait actively after its turn, on the cores of the next one.
	rest := time.Duration(0)
	if thread.Threads() > 1 {
		rest = 30 * time.Millisecond
	}
	flops := 2 * float64(p.m) * float64(p.n) * float64(p.k)
	repeat := 1 + int(5e8/flops)
	best := map[string]float64{}
	turn := func(name string, run func() bool) {
		run()
		begin := time.Now()
		for range repeat {
			if !run() {
				delete(runs, name)
				return
			}
		}
		best[name] = max(best[name], flops*float64(repeat)/time.Since(begin).Seconds()/1e9)
	}
	for b.Loop() {
		for name, run := range runs {
			time.Sleep(rest)
			if name != "ours" {
				turn(name, run)
				continue
			}
			var wg sync.WaitGroup
			wg.Go(func() { turn(name, run) }) // kernels are called by goroutines without threads of their own
			wg.Wait()
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, rate := range best {
		b.ReportMetric(rate, name+"-GFLOP/s")
		if name != "ours" {
			b.ReportMetric(best["ours"]/rate, "of-"+name)
		}
	}
}

var libraries = map[string]compare.Library{"onednn": compare.OneDNN, "openblas": compare.OpenBLAS}

// TestLibraries checks that what is compared is the same product.
func TestLibraries(t *testing.T) {
	for name, l := range libraries {
		t.Run(name, func(t *testing.T) {
			if !l.Load(1) {
				t.Skip("not installed")
			}
			for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
				for _, transposed := range []bool{false, true} {
					p := product{5, 7, 30, transposed}
					a, b := p.operands(t, d)
					ours := newView(t, dtype.Float32, kerneltest.Contiguous, []int64{p.m, p.n}, nil)
					theirs := newView(t, dtype.Float32, kerneltest.Contiguous, []int64{p.m, p.n}, nil)
					require.NoError(t, gemm.Gemm(gemm.Product{Out: ours, A: a, B: b, Alpha: 1}))
					if !l.Multiply(theirs, a, b, d == dtype.BFloat16) {
						t.Logf("no products of %v", d)
						continue
					}
					require.InDeltaSlice(t, kerneltest.Values(ours), kerneltest.Values(theirs), 1e-4, "%v %v", d, p)
				}
			}
		})
	}
}
