//go:build emu && linux && cgo

package acl_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/emu/machine"
)

// counted sums what the executor caches of all OS threads added while f ran.
type counted struct {
	hits, misses uint64
	threads      int // that launched
}

func count(f func()) (c counted) {
	type counts struct{ hits, misses uint64 }
	before := make(map[uint64]counts)
	for _, s := range machine.Process().Caches() {
		before[s.Thread] = counts{s.Hits, s.Misses}
	}
	f()
	for _, s := range machine.Process().Caches() {
		hits, misses := s.Hits-before[s.Thread].hits, s.Misses-before[s.Thread].misses
		c.hits, c.misses = c.hits+hits, c.misses+misses
		if hits+misses > 0 {
			c.threads++
		}
	}
	return c
}

// trainer launches what a step of training launches: forward, backward and the optimiser.
type trainer struct {
	st *acl.Stream
	x  []*aclnn.Tensor // of several shapes
}

func newTrainer(t *testing.T, dev *acl.Device) *trainer {
	w := &trainer{st: acltest.Stream(t, dev)}
	for layer := range int64(6) {
		w.x = append(w.x, tensors(t, w.st, 4, 8+layer, 8+layer)...)
	}
	return w
}

func (w *trainer) step() error {
	return aclnn.Compose(w.st, func(s *aclnn.Scope) {
		for i := 0; i < len(w.x); i += 4 {
			a, b, c, d := w.x[i], w.x[i+1], w.x[i+2], w.x[i+3]
			aclnn.Launch(s, aclnn.Mm, aclnn.MmParams{Self: a, Mat2: b, Out: c})
			aclnn.Launch(s, aclnn.Add, aclnn.AddParams{Self: c, Other: a, Alpha: aclnn.Float(1), Out: d})
			aclnn.Launch(s, aclnn.Silu, aclnn.SiluParams{Self: d, Out: c})
			aclnn.Launch(s, aclnn.Mul, aclnn.MulParams{Self: c, Other: d, Out: c})
			aclnn.Launch(s, aclnn.Mm, aclnn.MmParams{Self: c, Mat2: b.Transpose(0, 1), Out: d})
			aclnn.Launch(s, aclnn.Tanh, aclnn.TanhParams{Self: d, Out: a})
		}
		s.Fail(w.st.Synchronize(background))
	})
}

// TestLaunchesHitTheCacheOfTheirThread: 64 goroutines on four devices launch the steps of a training,
// each on a stream of its own. Each OS thread has a cache of executors, which has to have nearly all
// of what is launched on it.
func TestLaunchesHitTheCacheOfTheirThread(t *testing.T) {
	rt := acltest.Open(t)
	var workers []*trainer
	for id := range 4 {
		dev := acltest.Device(t, rt, id)
		for range 16 {
			workers = append(workers, newTrainer(t, dev))
		}
	}
	train := func(steps int) func() {
		return func() {
			var all sync.WaitGroup
			for _, w := range workers {
				all.Go(func() {
					for range steps {
						if !assert.NoError(t, w.step()) {
							return
						}
					}
				})
			}
			all.Wait()
		}
	}
	t.Logf("two steps: %+v", count(train(2)))
	// Go starts more threads while others are busy with the machine's processors, and each fills
	// its cache once. A training is steady when no more start.
	for round := 0; ; round++ {
		warm := count(train(8))
		t.Logf("eight more: %+v", warm)
		require.EqualValues(t, 64*8*36, warm.hits+warm.misses)
		if warm.hits*100 >= (warm.hits+warm.misses)*95 {
			break
		}
		require.Less(t, round, 4, "the launches do not become steady")
	}
}
