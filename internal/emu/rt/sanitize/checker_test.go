package sanitize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// program is a device with two streams and an event under a sanitizer.
type program struct {
	*rttest.Process
	tb    testing.TB
	th    *rt.Thread
	a, b  uint64
	event uint64
}

func newProgram(t *testing.T, s sanitize.Config) *program {
	p := &program{Process: rttest.NewMachine(t, rt.Config{Devices: 4, Memory: 16 << 20, SoC: "Ascend910B1", Sanitize: s}), tb: t}
	p.th = p.Thread(0)
	p.a, p.b, p.event = p.Stream(p.th), p.Stream(p.th), p.Event(p.th)
	return p
}

func (p *program) malloc(n uint64) uint64 { return p.Out(p.th, "aclrtMalloc", 0, n, 0) }

// set fills n bytes on a stream, and copy copies them.
func (p *program) set(stream, addr, n uint64) {
	p.Must(p.th, "aclrtMemsetAsync", addr, n, 7, n, stream)
}

func (p *program) copy(stream, dst, src, n uint64) {
	p.Must(p.th, "aclrtMemcpyAsync", dst, n, src, n, 3, stream)
}

// touch queues a task with the given accesses on a stream.
func (p *program) touch(stream uint64, name string, accesses ...sanitize.Access) {
	s, code := p.Runtime.Stream(p.th, stream)
	require.Zero(p.tb, code)
	require.Zero(p.tb, p.Runtime.Submit(p.th, s, rt.Task{Name: name, Run: func() error { return nil }, Accesses: func() []sanitize.Access { return accesses }}))
}

// sync synchronises and returns the message of the first fault of either stream.
func (p *program) sync() (text string) {
	for _, s := range []uint64{p.a, p.b} {
		switch code := p.Call(p.th, "aclrtSynchronizeStream", s); code {
		case 0:
		case rt.VectorException:
			text += rttest.Text(p.th)
		default:
			require.Fail(p.tb, "synchronise", "code %d: %s", code, rttest.Text(p.th))
		}
	}
	return text
}

func (p *program) order(from, to uint64) {
	p.Must(p.th, "aclrtRecordEvent", p.event, from)
	p.Must(p.th, "aclrtStreamWaitEvent", to, p.event)
}

func TestRaces(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(p *program, x, y uint64)
		want []string // parts of the message; empty for a correct program
	}{
		"write and write": {func(p *program, x, _ uint64) { p.set(p.a, x, 64); p.set(p.b, x+32, 64) },
			[]string{"race: aclrtMemsetAsync on stream", "writes devPtr", "both touch bytes 32 to 63", "aclrtStreamWaitEvent", "of 1056 bytes"}},
		"write and read": {func(p *program, x, y uint64) { p.set(p.a, x, 64); p.copy(p.b, y, x, 8) },
			[]string{"race:", "reads src", "writes devPtr", "bytes 0 to 7"}},
		"wait for an old record": {func(p *program, x, _ uint64) { p.order(p.a, p.b); p.set(p.a, x, 64); p.set(p.b, x, 64) }, []string{"race:"}},
		"event the wrong way":    {func(p *program, x, _ uint64) { p.set(p.a, x, 64); p.order(p.b, p.a); p.set(p.b, x, 64) }, []string{"race:"}},
		"a write behind the read that was waited for": {func(p *program, x, y uint64) {
			p.copy(p.a, y, x, 64)
			p.order(p.a, p.b)
			p.copy(p.a, y, x, 64)
			p.set(p.b, x, 64)
		}, []string{"race:", "src"}},
		"strided over a whole": {func(p *program, x, _ uint64) {
			p.touch(p.a, "column", sanitize.Access{Name: "out", Touch: sanitize.Writes, Addr: x + 4, Item: 4, Shape: []int64{8}, Strides: []int64{16}})
			p.set(p.b, x+64, 8)
		}, []string{"race:", "both touch bytes 68 to 71", "column on stream"}},

		"reads":      {func(p *program, x, y uint64) { p.copy(p.a, y, x, 64); p.copy(p.b, y+64, x, 64) }, nil},
		"neighbours": {func(p *program, x, _ uint64) { p.set(p.a, x, 64); p.set(p.b, x+64, 64) }, nil},
		"one stream": {func(p *program, x, y uint64) { p.set(p.a, x, 64); p.copy(p.a, y, x, 64); p.set(p.a, x, 64) }, nil},
		"event":      {func(p *program, x, _ uint64) { p.set(p.a, x, 64); p.order(p.a, p.b); p.set(p.b, x, 64) }, nil},
		"event both ways": {func(p *program, x, _ uint64) {
			p.set(p.a, x, 64)
			p.order(p.a, p.b)
			p.set(p.b, x, 64)
			p.order(p.b, p.a)
			p.set(p.a, x, 64)
		}, nil},
		"synchronise": {func(p *program, x, _ uint64) {
			p.set(p.a, x, 64)
			p.Must(p.th, "aclrtSynchronizeStream", p.a)
			p.set(p.b, x, 64)
		}, nil},
		"device": {func(p *program, x, _ uint64) {
			p.set(p.a, x, 64)
			p.Must(p.th, "aclrtSynchronizeDevice")
			p.set(p.b, x, 64)
		}, nil},
		"event on the host": {func(p *program, x, _ uint64) {
			p.set(p.a, x, 64)
			p.Must(p.th, "aclrtRecordEvent", p.event, p.a)
			p.Must(p.th, "aclrtSynchronizeEvent", p.event)
			p.set(p.b, x, 64)
		}, nil},
		"notify": {func(p *program, x, _ uint64) {
			n := p.Out(p.th, "aclrtCreateNotify", 0, 0)
			p.set(p.a, x, 64)
			p.Must(p.th, "aclrtRecordNotify", n, p.a)
			p.Must(p.th, "aclrtWaitAndResetNotify", n, p.b, 0)
			p.set(p.b, x, 64)
		}, nil},
		"freed and allocated again": {func(p *program, x, _ uint64) {
			z := p.malloc(4096)
			p.set(p.a, z, 64)
			p.Must(p.th, "aclrtSynchronizeStream", p.a)
			p.Must(p.th, "aclrtFree", z)
			p.set(p.b, p.malloc(4096), 64)
		}, nil},
		"columns": {func(p *program, x, _ uint64) {
			for i, s := range []uint64{p.a, p.b} {
				p.touch(s, "column", sanitize.Access{Name: "out", Touch: sanitize.Writes, Addr: x + uint64(i)*4, Item: 4, Shape: []int64{8}, Strides: []int64{2}})
			}
		}, nil},
		"rows of indices": {func(p *program, x, _ uint64) {
			p.touch(p.a, "scatter", sanitize.Bytes("cache", sanitize.WritesSome, x, 64))
			p.touch(p.b, "gather", sanitize.Bytes("cache", sanitize.ReadsSome, x, 64))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t, sanitize.Config{Race: true})
			x, y := p.malloc(1000), p.malloc(1000)
			c.run(p, x, y)
			text := p.sync()
			if c.want == nil {
				require.Empty(t, text)
			}
			for _, part := range c.want {
				assert.Contains(t, text, part)
			}
		})
	}
}

// TestHostRace checks that a copy by the host is reported as a race when it does not wait for the
// stream.
func TestHostRace(t *testing.T) {
	p := newProgram(t, sanitize.Config{Race: true})
	x, host := p.malloc(64), p.Out(p.th, "aclrtMallocHost", 0, 64)
	release := make(chan struct{})
	p.Submit(p.th, p.b, func() error { <-release; return nil })
	p.set(p.a, x, 64)
	p.Must(p.th, "aclrtRecordEvent", p.event, p.a)
	done := make(chan struct{})
	p.Submit(p.th, p.a, func() error { close(done); return nil })
	<-done // the fill is done, but the program has not synchronised with the stream
	require.Equal(t, rt.VectorException, p.Call(p.th, "aclrtMemcpy", host, 64, x, 64, 2))
	text := rttest.Text(p.th)
	assert.Contains(t, text, "aclrtMemcpy on the host reads src")
	assert.Contains(t, text, "aclrtSynchronizeStream")
	close(release)
	require.Empty(t, p.sync())
	p.Must(p.th, "aclrtMemcpy", host, 64, x, 64, 2)
	p.Must(p.th, "aclrtFreeHost", host)
}

func TestUninitialisedReads(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(p *program, x, y, host uint64)
		want []string
	}{
		"copy to the host": {func(p *program, x, _, host uint64) {
			p.set(p.a, x, 60)
			p.Must(p.th, "aclrtMemcpyAsync", host, 64, x, 64, 2, p.a)
		}, []string{"uninitialised read: aclrtMemcpyAsync reads src", "byte 60 of it was never written", "offset 60 in allocation", "of 1056 bytes"}},
		"a copy takes what is missing along": {func(p *program, x, y, host uint64) {
			p.set(p.a, x, 60)
			p.copy(p.a, y+8, x, 64)
			p.Must(p.th, "aclrtMemcpyAsync", host, 64, y+8, 64, 2, p.a)
		}, []string{"byte 60 of it", "offset 68 in allocation"}},
		"operator": {func(p *program, x, _, _ uint64) {
			p.set(p.a, x, 8)
			p.touch(p.a, "aclnnAbs", sanitize.Access{Name: "self", Touch: sanitize.Reads, Addr: x, Item: 4, Shape: []int64{3}, Strides: []int64{1}})
		}, []string{"aclnnAbs reads self", "byte 8 of it"}},
		"nothing of a cache": {func(p *program, x, _, _ uint64) {
			p.touch(p.a, "gather", sanitize.Bytes("cache", sanitize.ReadsSome, x, 64))
		},
			[]string{"gather reads cache", "no byte was ever written"}},
		"reused": {func(p *program, _, _, _ uint64) {
			z := p.malloc(8192)
			p.set(p.a, z, 64)
			p.Must(p.th, "aclrtSynchronizeStream", p.a)
			p.Must(p.th, "aclrtFree", z)
			p.touch(p.a, "aclnnAbs", sanitize.Bytes("self", sanitize.Reads, p.malloc(8192), 64))
		}, []string{"byte 0 of it"}},

		"all written": {func(p *program, x, _, host uint64) {
			p.set(p.a, x, 64)
			p.Must(p.th, "aclrtMemcpyAsync", host, 64, x, 64, 2, p.a)
		}, nil},
		"host to device": {func(p *program, x, _, host uint64) {
			p.Must(p.th, "aclrtMemcpy", x, 64, host, 64, 1)
			p.Must(p.th, "aclrtMemcpy", host, 64, x, 64, 2)
		}, nil},
		"copied unwritten": {func(p *program, x, y, _ uint64) { p.copy(p.a, y, x, 64) }, nil},
		"part of a cache": {func(p *program, x, _, _ uint64) {
			p.set(p.a, x+16, 1)
			p.touch(p.a, "gather", sanitize.Bytes("cache", sanitize.ReadsSome, x, 64))
		}, nil},
		"every other row": {func(p *program, x, _, _ uint64) {
			rows := sanitize.Access{Name: "x", Touch: sanitize.Writes, Addr: x, Item: 2, Shape: []int64{4, 3}, Strides: []int64{8, 1}}
			p.touch(p.a, "write", rows)
			rows.Touch = sanitize.Reads
			p.touch(p.a, "read", rows)
		}, nil},
		"backwards": {func(p *program, x, _, _ uint64) {
			p.set(p.a, x, 16)
			p.touch(p.a, "flip", sanitize.Access{Name: "x", Touch: sanitize.Reads, Addr: x + 12, Item: 4, Shape: []int64{4}, Strides: []int64{-1}})
		}, nil},
		"broadcast": {func(p *program, x, _, _ uint64) {
			p.set(p.a, x, 4)
			p.touch(p.a, "add", sanitize.Access{Name: "x", Touch: sanitize.Reads, Addr: x, Item: 4, Shape: []int64{5, 1}, Strides: []int64{0, 9}})
		}, nil},
		"empty": {func(p *program, x, _, _ uint64) {
			p.touch(p.a, "add", sanitize.Access{Name: "x", Touch: sanitize.Reads, Addr: x, Item: 4, Shape: []int64{0}, Strides: []int64{1}})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t, sanitize.Config{Memory: true})
			x, y, host := p.malloc(1000), p.malloc(1000), p.Out(p.th, "aclrtMallocHost", 0, 64)
			c.run(p, x, y, host)
			text := p.sync()
			if c.want == nil {
				require.Empty(t, text)
			}
			for _, part := range c.want {
				assert.Contains(t, text, part)
			}
			p.Must(p.th, "aclrtFreeHost", host)
		})
	}
}

func TestParseSanitize(t *testing.T) {
	for text, want := range map[string]sanitize.Config{
		"": {}, "memory": {Memory: true}, "race": {Race: true}, " race , memory": {Memory: true, Race: true},
	} {
		s, err := sanitize.Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, s, text)
	}
	_, err := sanitize.Parse("races")
	require.ErrorContains(t, err, `CANN_EMU_SANITIZE="races"`)
	require.False(t, rttest.New(t).Runtime.Sanitizes(), "nothing is watched unless that is asked for")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
