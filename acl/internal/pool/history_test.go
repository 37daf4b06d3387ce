package pool

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// taken is a block that the history holds, and the streams that have used it.
type taken struct {
	b     *Block
	owner *stream // nil for none
	users map[*stream]bool
}

// TestHistories runs random histories of allocations, uses, frees and progress of streams
// against the rules: blocks do not overlap, no stream gets memory that work of another stream
// may still use, the figures add up, and all memory comes back in the end.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDevice(uint64(rapid.IntRange(30, 200).Draw(t, "capacity")) << 20)
		p := New(d)
		fences := new(int)
		streams := []*stream{d.newStream(fences), d.newStream(fences), d.newStream(fences)}
		var held []taken
		drawStream := func() *stream { return streams[rapid.IntRange(0, len(streams)-1).Draw(t, "stream")] }
		use := func(x taken, s *stream) {
			s.uses = append(s.uses, span{x.b.Address(), x.b.Size()})
			x.users[s] = true
		}
		drawHeld := func() int {
			if len(held) == 0 {
				t.Skip("nothing is held")
			}
			return rapid.IntRange(0, len(held)-1).Draw(t, "block")
		}
		t.Repeat(map[string]func(*rapid.T){
			"malloc": func(t *rapid.T) {
				var s *stream
				var key Stream
				if rapid.IntRange(0, 4).Draw(t, "unowned") > 0 {
					s = drawStream()
					key = s
				}
				size := rapid.OneOf(rapid.Uint64Range(1, 4096), rapid.Uint64Range(1, 2<<20), rapid.Uint64Range(1, 40<<20)).Draw(t, "size")
				b, err := p.Malloc(key, size)
				if err != nil {
					require.ErrorIs(t, err, ErrExhausted)
					return
				}
				x := taken{b, s, make(map[*stream]bool)}
				for _, h := range held {
					require.False(t, overlap(span{h.b.Address(), h.b.Size()}, span{b.Address(), b.Size()}), "blocks overlap")
				}
				for _, o := range streams {
					if o == s {
						continue
					}
					for _, u := range o.uses[o.done:] {
						require.False(t, overlap(u, span{b.Address(), b.Size() + tail}), "%v may still be using the block given to %v", o, s)
					}
				}
				require.True(t, inside(d, b), "the block is in no segment")
				held = append(held, x)
			},
			"use": func(t *rapid.T) { use(held[drawHeld()], drawStream()) },
			"progress": func(t *rapid.T) {
				s := drawStream()
				s.done = rapid.IntRange(s.done, len(s.uses)).Draw(t, "done")
			},
			"free": func(t *rapid.T) {
				i := drawHeld()
				x := held[i]
				held = append(held[:i], held[i+1:]...)
				var users []Stream
				for _, s := range streams {
					if x.users[s] {
						users = append(users, s)
					}
				}
				require.NoError(t, p.Free(x.b, users))
			},
			"trim": func(t *rapid.T) { require.NoError(t, p.Trim(d.Synchronize)) },
			"end of a stream": func(t *rapid.T) {
				i := rapid.IntRange(0, len(streams)-1).Draw(t, "stream")
				s := streams[i]
				s.done = len(s.uses)
				s.gone = true
				p.Forget(s)
				streams[i] = d.newStream(fences)
			},
			"": func(t *rapid.T) { check(t, d, p, held) },
		})
		for _, x := range held {
			require.NoError(t, p.Free(x.b, nil))
		}
		require.NoError(t, p.Trim(d.Synchronize))
		require.Zero(t, d.out)
		require.Zero(t, p.Stats().InUse)
		require.Zero(t, *fences, "fences not released")
	})
}

func overlap(a, b span) bool { return a.addr < b.addr+b.size && b.addr < a.addr+a.size }

func inside(d *device, b *Block) bool {
	for addr, n := range d.segments {
		if b.Address() >= addr && b.Address()+b.Size()+tail <= addr+n {
			return true
		}
	}
	return false
}

// check compares the figures with the blocks.
func check(t *rapid.T, d *device, p *Pool, held []taken) {
	var inUse, waiting, cached uint64
	for _, x := range held {
		inUse += x.b.size
	}
	for _, w := range p.pending {
		waiting += w.block.size
	}
	lists := []*lists{&p.unowned}
	for _, l := range p.streams {
		lists = append(lists, l)
	}
	for _, l := range lists {
		for _, f := range []*bins{&l.small, &l.large} {
			for c, b := range f.heads {
				if filled := f.filled[c/64]>>(c%64)&1 != 0; filled != (b != nil) {
					t.Fatalf("class %d: marked %v, head %v", c, filled, b)
				}
				for ; b != nil; b = b.right {
					require.True(t, b.free)
					require.Equal(t, c, class(b.size))
					require.Same(t, l, b.owner)
					if n := b.next; n != nil {
						require.False(t, n.free && n.owner == b.owner, "free neighbours are not joined")
						require.Equal(t, b.addr+b.size, n.addr)
					}
					cached += b.size
				}
			}
		}
	}
	s := p.Stats()
	want := fmt.Sprint(inUse, waiting, cached, d.out, len(d.segments))
	require.Equal(t, want, fmt.Sprint(s.InUse, s.Waiting, s.Cached(), s.Reserved, s.Segments))
}
