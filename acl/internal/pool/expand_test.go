package pool

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// ranges is a device that gives addresses and memory apart. It checks that pages are mapped once, inside
// a range, and that no stream uses what is unmapped.
type ranges struct {
	*device
	reserved map[uint64]uint64
	mapped   map[uint64]uint64
	refuse   error // of Reserve
}

func newRanges(capacity uint64) *ranges {
	return &ranges{device: newDevice(capacity), reserved: map[uint64]uint64{}, mapped: map[uint64]uint64{}}
}

func (r *ranges) Reserve(n uint64) (uint64, error) {
	if r.refuse != nil {
		return 0, r.refuse
	}
	addr := r.next
	r.next += n + 1<<30
	r.reserved[addr] = n
	return addr, nil
}

func (r *ranges) Map(addr, n uint64) error {
	inside := false
	for at, size := range r.reserved {
		inside = inside || addr >= at && addr+n <= at+size
	}
	for at, size := range r.mapped {
		if addr < at+size && at < addr+n {
			return fmt.Errorf("fake: %#x is mapped already", addr)
		}
	}
	switch {
	case !inside:
		return fmt.Errorf("fake: %#x was not reserved", addr)
	case r.out+n > r.capacity:
		return fmt.Errorf("fake: %w", ErrExhausted)
	}
	r.out += n
	r.mapped[addr] = n
	return nil
}

func (r *ranges) Unmap(addr uint64) error {
	n, ok := r.mapped[addr]
	if !ok {
		return fmt.Errorf("fake: nothing was mapped at %#x", addr)
	}
	for _, s := range r.streams {
		for _, u := range s.uses[s.done:] {
			if u.addr < addr+n && addr < u.addr+u.size {
				return fmt.Errorf("fake: %#x is unmapped while %v uses it", addr, s)
			}
		}
	}
	delete(r.mapped, addr)
	r.out -= n
	return nil
}

func (r *ranges) Release(addr uint64) error {
	n, ok := r.reserved[addr]
	if !ok {
		return fmt.Errorf("fake: %#x was not reserved", addr)
	}
	for at := range r.mapped {
		if at >= addr && at < addr+n {
			return fmt.Errorf("fake: memory is mapped at %#x", at)
		}
	}
	delete(r.reserved, addr)
	return nil
}

// has reports whether all bytes of a block have memory.
func (r *ranges) has(b *Block) bool {
	for at := b.addr; at < b.addr+b.size; {
		end := uint64(0)
		for m, n := range r.mapped {
			if at >= m && at < m+n {
				end = m + n
			}
		}
		for m, n := range r.segments {
			if at >= m && at < m+n {
				end = m + n
			}
		}
		if end == 0 {
			return false
		}
		at = end
	}
	return true
}

const mib = 1 << 20

// TestFragmentation: blocks of growing sizes take little more than the largest of them where a range
// grows, and the sum of all without.
func TestFragmentation(t *testing.T) {
	for _, expandable := range []bool{false, true} {
		d := newRanges(8 << 30)
		p := New(d)
		if expandable {
			p.Expandable(d, 8<<30)
		}
		for size := uint64(100); size <= 200; size += 10 {
			b, err := p.Malloc(nil, size*mib)
			require.NoError(t, err)
			require.NoError(t, p.Free(b, nil))
		}
		if expandable {
			require.LessOrEqual(t, p.Stats().Reserved, uint64(220*mib))
			require.Equal(t, 1, p.Stats().Segments)
		} else {
			require.Greater(t, p.Stats().Reserved, uint64(1500*mib))
		}
		require.NoError(t, p.Trim(d.Synchronize))
		require.Zero(t, p.Stats().Reserved)
		require.Zero(t, p.Stats().Segments)
		require.Empty(t, d.reserved)
		require.Empty(t, d.mapped)
	}
}

// TestHoles: pages between blocks in use go back to the device, and are mapped again for a block that
// fits there.
func TestHoles(t *testing.T) {
	d := newRanges(400 * mib)
	p := New(d)
	p.Expandable(d, 400*mib)
	var blocks []*Block
	for range 3 {
		b, err := p.Malloc(nil, 100*mib-64)
		require.NoError(t, err)
		blocks = append(blocks, b)
	}
	middle := blocks[1].Address()
	require.NoError(t, p.Free(blocks[1], nil))
	require.NoError(t, p.Trim(d.Synchronize))
	require.Equal(t, uint64(200*mib), p.Stats().Reserved)
	layout := p.Layout()
	require.Len(t, layout, 1)
	var states []State
	for _, b := range layout[0].Blocks {
		states = append(states, b.State)
	}
	require.Contains(t, states, Unmapped)
	b, err := p.Malloc(nil, 100*mib-64)
	require.NoError(t, err)
	require.Equal(t, middle, b.Address())
	require.Equal(t, uint64(300*mib), p.Stats().Reserved)
	_, err = p.Malloc(nil, 150*mib)
	require.ErrorIs(t, err, ErrExhausted)
	require.Equal(t, d.out, p.Stats().Reserved, "what was mapped before the device was full is counted")
	for _, b := range []*Block{blocks[0], b, blocks[2]} {
		require.NoError(t, p.Free(b, nil))
	}
	all, err := p.Malloc(nil, 390*mib)
	require.NoError(t, err, "the whole range is one block now")
	require.NoError(t, p.Free(all, nil))
	require.NoError(t, p.Trim(d.Synchronize))
	require.Zero(t, d.out)

	d.refuse = fmt.Errorf("no addresses")
	_, err = p.Malloc(nil, 100*mib)
	require.ErrorIs(t, err, d.refuse)
	small, err := p.Malloc(nil, 100)
	require.NoError(t, err, "small blocks are not in the range")
	require.NoError(t, p.Free(small, nil))
}

// TestExpandableHistory allocates and frees at random, on several streams.
func TestExpandableHistory(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := newRanges(1 << 30)
		p := New(d)
		p.Expandable(d, 300*mib) // several ranges
		out := 0
		streams := []*stream{d.newStream(&out), d.newStream(&out)}
		var held []*Block
		for range 400 {
			switch s := streams[rng.IntN(2)]; rng.IntN(5) {
			case 0, 1:
				n := rng.Uint64N(60*mib) + 1
				if rng.IntN(3) == 0 {
					n = rng.Uint64N(2*mib) + 1
				}
				b, err := p.Malloc(s, n)
				if err != nil {
					require.ErrorIs(t, err, ErrExhausted)
					continue
				}
				require.True(t, d.has(b), "the block has memory")
				for _, other := range held {
					require.False(t, b.addr < other.addr+other.size && other.addr < b.addr+b.size, "blocks overlap")
				}
				s.uses = append(s.uses, span{b.addr, b.size})
				held = append(held, b)
			case 2, 3:
				if len(held) == 0 {
					continue
				}
				i := rng.IntN(len(held))
				var users []Stream
				if rng.IntN(2) == 0 {
					users = append(users, s)
				}
				require.NoError(t, p.Free(held[i], users))
				held = append(held[:i], held[i+1:]...)
			default:
				if rng.IntN(4) == 0 {
					require.NoError(t, p.Trim(d.Synchronize))
				}
			}
			stats, counted := p.Stats(), uint64(0)
			for _, segment := range p.Layout() {
				at := segment.Address
				for _, b := range segment.Blocks {
					require.Equal(t, at, b.Address)
					at += b.Size
					if b.State != Unmapped {
						counted += b.Size
					}
				}
				require.Equal(t, segment.Address+segment.Size, at)
			}
			require.Equal(t, d.out, stats.Reserved)
			require.Equal(t, d.out, counted)
		}
		for _, b := range held {
			require.NoError(t, p.Free(b, nil))
		}
		require.NoError(t, p.Trim(d.Synchronize))
		require.Zero(t, d.out)
		require.Empty(t, d.reserved)
	}
}
