package pool

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func setUp(t *testing.T, capacity uint64) (*device, *Pool, *stream, *stream) {
	d := newDevice(capacity)
	out := new(int)
	t.Cleanup(func() { assert.Zero(t, *out, "fences not released") })
	return d, New(d), d.newStream(out), d.newStream(out)
}

func malloc(t *testing.T, p *Pool, s Stream, n uint64) *Block {
	t.Helper()
	b, err := p.Malloc(s, n)
	require.NoError(t, err)
	require.GreaterOrEqual(t, b.Size(), n)
	require.Zero(t, b.Address()%unit)
	return b
}

func TestSegmentSizes(t *testing.T) {
	for _, c := range []struct {
		name             string
		request, segment uint64
	}{
		{"one byte", 1, 2 << 20},
		{"the largest small", 1<<20 - tail, 2 << 20},
		{"the smallest medium", 1<<20 - tail + 1, 20 << 20},
		{"medium", 9 << 20, 20 << 20},
		{"large", 10 << 20, 12 << 20},
		{"large, even with the tail", 12<<20 - tail, 12 << 20},
		{"huge", 1<<30 + 1, 1<<30 + 2<<20},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, p, s, _ := setUp(t, 1<<40)
			b := malloc(t, p, s, c.request)
			assert.Equal(t, c.segment, d.out)
			assert.Equal(t, c.segment, p.Stats().Reserved)
			assert.Equal(t, c.request, p.Stats().Allocated)
			require.NoError(t, p.Free(b, nil))
			assert.Zero(t, p.Stats().InUse)
			assert.Zero(t, p.Stats().Allocated)
		})
	}
}

func TestImpossibleSizes(t *testing.T) {
	_, p, s, _ := setUp(t, 1<<40)
	for _, n := range []uint64{0, maxSize + 1, ^uint64(0)} {
		_, err := p.Malloc(s, n)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrExhausted)
	}
	assert.Zero(t, p.Stats())
}

func TestSameStreamReusesAtOnce(t *testing.T) {
	d, p, s, _ := setUp(t, 1<<40)
	b := malloc(t, p, s, 1000)
	at := b.Address()
	s.uses = append(s.uses, span{at, 1000}) // still queued
	require.NoError(t, p.Free(b, nil))
	assert.Equal(t, at, malloc(t, p, s, 1000).Address())
	assert.EqualValues(t, 1, p.Stats().DeviceMallocs)
	assert.Zero(t, d.syncs)
}

func TestOtherStreamGetsOtherMemory(t *testing.T) {
	_, p, s, other := setUp(t, 1<<40)
	b := malloc(t, p, s, 1000)
	at := b.Address()
	s.uses = append(s.uses, span{at, 1000})
	require.NoError(t, p.Free(b, nil))
	assert.NotEqual(t, at, malloc(t, p, other, 1000).Address())
	assert.NotEqual(t, at, malloc(t, p, nil, 1000).Address())
}

func TestUserStreamHoldsMemoryBack(t *testing.T) {
	_, p, s, other := setUp(t, 1<<40)
	b := malloc(t, p, s, 2<<20)
	at := b.Address()
	other.uses = append(other.uses, span{at, 2 << 20})
	require.NoError(t, p.Free(b, []Stream{other, s}))
	assert.NotZero(t, p.Stats().Waiting)
	second := malloc(t, p, s, 19<<20)
	assert.NotEqual(t, at, second.Address())
	other.done = 1
	third := malloc(t, p, s, 19<<20)
	assert.Equal(t, at, third.Address(), "the fence has passed")
	assert.Zero(t, p.Stats().Waiting)
}

func TestNeighboursJoin(t *testing.T) {
	_, p, s, _ := setUp(t, 1<<40)
	var blocks []*Block
	for range 4 {
		blocks = append(blocks, malloc(t, p, s, 400<<10))
	}
	require.EqualValues(t, 2<<20, p.Stats().Reserved)
	for _, i := range []int{0, 2, 1, 3} {
		require.NoError(t, p.Free(blocks[i], nil))
	}
	all := malloc(t, p, s, 1<<20-tail)
	assert.Equal(t, blocks[0].Address(), all.Address())
	assert.EqualValues(t, 2<<20, p.Stats().Reserved)
}

func TestForgottenStreamLeavesItsMemoryToAll(t *testing.T) {
	_, p, s, other := setUp(t, 1<<40)
	a, b := malloc(t, p, s, 1000), malloc(t, p, s, 1000)
	at := a.Address()
	require.NoError(t, p.Free(a, nil))
	s.gone = true
	p.Forget(s)
	assert.Equal(t, at, malloc(t, p, other, 1000).Address())
	at = b.Address()
	require.NoError(t, p.Free(b, []Stream{s}))
	assert.Equal(t, at, malloc(t, p, nil, 1000).Address(), "memory of a gone stream is unowned")
}

// TestFullDeviceAwaitsTrim: while a Trim has the cache set aside, the device is not out of memory.
func TestFullDeviceAwaitsTrim(t *testing.T) {
	for _, failure := range []error{nil, errors.New("interrupted")} {
		testFullDeviceAwaitsTrim(t, failure)
	}
}

func testFullDeviceAwaitsTrim(t *testing.T, failure error) {
	d, p, s, other := setUp(t, 40<<20)
	b := malloc(t, p, s, 30<<20)
	s.uses = append(s.uses, span{b.Address(), 30 << 20})
	require.NoError(t, p.Free(b, nil))
	waits, gate, trimmed, synced, got := make(chan struct{}), make(chan struct{}), make(chan error), make(chan struct{}), make(chan error)
	var once sync.Once
	d.during = func() { once.Do(func() { close(synced) }) }
	go func() { trimmed <- p.Trim(func() error { close(waits); <-gate; return failure }) }()
	<-waits
	go func() {
		_, err := p.Malloc(other, 38<<20)
		got <- err
	}()
	<-synced
	select {
	case err := <-got:
		require.Fail(t, "Malloc did not wait", "%v", err)
	case <-time.After(10 * time.Millisecond):
	}
	close(gate)
	require.Equal(t, failure, <-trimmed)
	require.NoError(t, <-got)
}

func TestFullDeviceGivesBackTheCache(t *testing.T) {
	d, p, s, other := setUp(t, 40<<20)
	b := malloc(t, p, s, 30<<20)
	_, err := p.Malloc(s, 30<<20)
	require.ErrorIs(t, err, ErrExhausted)
	require.NoError(t, p.Free(b, nil))
	t.Run("idle streams need no wait", func(t *testing.T) {
		d.syncs = 0
		b = malloc(t, p, other, 38<<20)
		assert.Zero(t, d.syncs)
		assert.EqualValues(t, 1, p.Stats().DeviceFrees)
	})
	t.Run("a busy one does", func(t *testing.T) {
		other.uses = append(other.uses, span{b.Address(), 38 << 20})
		require.NoError(t, p.Free(b, nil))
		b = malloc(t, p, s, 20<<20)
		assert.Equal(t, 1, d.syncs)
	})
	t.Run("the failure of the wait comes out", func(t *testing.T) {
		s.uses = append(s.uses, span{b.Address(), 20 << 20})
		require.NoError(t, p.Free(b, nil))
		d.syncErr = errors.New("kernel failed")
		_, err := p.Malloc(other, 39<<20)
		require.ErrorIs(t, err, d.syncErr)
		d.syncErr = nil
		malloc(t, p, other, 38<<20)
	})
}

func TestMediumBlockFitsTheLastMemory(t *testing.T) {
	d, p, s, _ := setUp(t, 4<<20)
	malloc(t, p, s, 3<<20)
	assert.EqualValues(t, 4<<20, d.out)
}

// TestFreedWhileWaiting: memory that is freed during the synchronise may have been used by
// work queued after it began.
func TestFreedWhileWaiting(t *testing.T) {
	d, p, s, other := setUp(t, 1<<30)
	early, late := malloc(t, p, s, 30<<20), malloc(t, p, s, 30<<20)
	at := late.Address()
	require.NoError(t, p.Free(early, nil))
	require.NoError(t, p.Trim(func() error {
		d.Synchronize()
		s.uses = append(s.uses, span{at, 30 << 20})
		return p.Free(late, nil)
	}))
	assert.EqualValues(t, 1, p.Stats().DeviceFrees)
	assert.NotEqual(t, at, malloc(t, p, other, 30<<20).Address())
	assert.Equal(t, at, malloc(t, p, s, 30<<20).Address())
}

func TestStreamThatCannotBeFenced(t *testing.T) {
	d, p, s, other := setUp(t, 1<<30)
	b := malloc(t, p, s, 1<<20)
	other.fails = errors.New("device lost")
	require.ErrorIs(t, p.Free(b, []Stream{other}), other.fails)
	assert.NotZero(t, p.Stats().Waiting)
	require.NoError(t, p.Trim(d.Synchronize))
	assert.Zero(t, p.Stats().Waiting)
	assert.Zero(t, d.out)
}

func TestTrimKeepsWhatIsInUse(t *testing.T) {
	d, p, s, other := setUp(t, 1<<30)
	keep, drop := malloc(t, p, s, 100), malloc(t, p, s, 30<<20)
	waiting := malloc(t, p, s, 50<<20)
	other.uses = append(other.uses, span{waiting.Address(), 50 << 20})
	require.NoError(t, p.Free(drop, nil))
	require.NoError(t, p.Free(waiting, []Stream{other}))
	require.NoError(t, p.Trim(d.Synchronize))
	assert.EqualValues(t, 2<<20, d.out)
	assert.Equal(t, 1, p.Stats().Segments)
	failed := errors.New("no")
	require.ErrorIs(t, p.Trim(func() error { return failed }), failed)
	require.NoError(t, p.Free(keep, nil))
	require.NoError(t, p.Trim(d.Synchronize))
	assert.Zero(t, d.out)
	peak := p.Stats().PeakReserved
	assert.NotZero(t, peak)
	p.ResetPeaks()
	assert.Zero(t, p.Stats().PeakReserved)
}

// TestTakePeak: each phase has a peak of its own, which begins with what is in use.
func TestTakePeak(t *testing.T) {
	_, p, s, _ := setUp(t, 1<<40)
	kept := malloc(t, p, s, 1<<20)
	alone := p.Stats().InUse
	first := malloc(t, p, s, 8<<20)
	both := p.Stats().InUse
	require.NoError(t, p.Free(first, nil))
	assert.Equal(t, both, p.TakePeak())
	assert.Equal(t, alone, p.TakePeak(), "nothing happened since")
	second := malloc(t, p, s, 4<<20)
	both = p.Stats().InUse
	require.NoError(t, p.Free(second, nil))
	p.ResetPeaks()
	assert.Equal(t, alone, p.Stats().PeakInUse)
	assert.Equal(t, both, p.TakePeak(), "ResetPeaks has no part in it")
	require.NoError(t, p.Free(kept, nil))
	assert.Equal(t, alone, p.TakePeak())
	assert.Zero(t, p.TakePeak())
}

// TestClass: a block of a class above that of a size is large enough for it, and a class
// holds sizes that differ by at most an eighth.
func TestClass(t *testing.T) {
	last, first := 0, uint64(unit)
	for n := uint64(unit); n < 1<<27; n += unit {
		c := class(n)
		require.GreaterOrEqual(t, c, last, "%d bytes", n)
		if c > last {
			last, first = c, n
		}
		require.LessOrEqual(t, n-first, first/8, "%d bytes", n)
	}
	require.Less(t, class(maxSize+unit), classes)
}

// TestSmallBlocksSpareLargeSegments: a block that lives on does not keep a segment from the next block of the segment's size, unless the device has no more memory.
func TestSmallBlocksSpareLargeSegments(t *testing.T) {
	_, p, s, _ := setUp(t, 1<<40)
	b := malloc(t, p, s, 100<<20)
	at := b.Address()
	require.NoError(t, p.Free(b, nil))
	malloc(t, p, s, 8<<20)
	assert.Equal(t, at, malloc(t, p, s, 100<<20).Address())
	assert.EqualValues(t, (102+20)<<20, p.Stats().Reserved)

	d, p, s, _ := setUp(t, 102<<20)
	require.NoError(t, p.Free(malloc(t, p, s, 100<<20), nil))
	malloc(t, p, s, 8<<20)
	malloc(t, p, s, 60<<20)
	assert.Zero(t, d.syncs)
	assert.Zero(t, p.Stats().DeviceFrees)
}
