package ccl

import (
	"sync/atomic"
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt"
)

// ring carries records from one process to another: a header each, and small messages' bytes.
// One side writes and one reads.
type ring struct{ bytes []byte }

// ringState is at the start of a ring, a cache line for each writer.
type ringState struct {
	written atomic.Uint64 // bytes, by the sender
	_       [56]byte
	read    atomic.Uint64 // bytes that the receiver is done with
	_       [56]byte
	arrived atomic.Uint32 // records written
	idle    atomic.Uint32 // the receiver sleeps on arrived
	revoked atomic.Uint32 // the sender has withdrawn its memory
	_       [52]byte
	done    atomic.Uint32 // records that the receiver is done with
	held    atomic.Uint32 // the sender sleeps on done
}

func (r *ring) state() *ringState { return (*ringState)(unsafe.Pointer(&r.bytes[0])) }
func (r *ring) head() []byte      { return r.bytes[:ringHead] }
func (r *ring) data() []byte      { return r.bytes[ringHead:] }

// record precedes a message in a ring.
type record struct {
	Length  uint32 // of the record, with what follows the header
	Kind    uint32
	Header  header
	Size    uint64 // bytes of the message
	Address uint64 // of the bytes in the sender's memory, or in that of its device, when they do not follow
}

// Kinds of records.
const (
	recordSkip   = iota + 1 // nothing more before the end of the ring
	recordInline            // the bytes follow
	recordRemote            // the bytes are in the sender's memory
	recordWindow            // the bytes are in the memory of the sender's device, which the receiver has mapped
)

// recordSize is the room of a header; records are a multiple of it.
const recordSize = 128

// The longest messages that go through the ring, so that the sender need not wait until they
// are read: of memory that the receiver has mapped, and of other memory.
const (
	inlineWindow = 4 << 10
	inlineRemote = 32 << 10
)

func (r *ring) record(at uint64) *record {
	return (*record)(unsafe.Pointer(&r.data()[at%ringBytes]))
}

// put writes a message; it reports false when there is no room for even a header. Small
// messages stop going through the ring when it is half full, and then wait for their reader.
func (r *ring) put(m message, memory *rt.Memory) (inline, ok bool) {
	kind, address, longest := uint32(recordRemote), addressOf(m.bytes), inlineRemote
	if m.memory == memory {
		if offset, ok := memory.Offset(m.bytes); ok {
			kind, address, longest = recordWindow, offset, inlineWindow
		}
	}
	s := r.state()
	at := s.written.Load()
	room := ringBytes - (at - s.read.Load())
	length := recordSize * (1 + (uint64(len(m.bytes))+recordSize-1)/recordSize)
	inline = len(m.bytes) <= longest && room >= length+ringBytes/2
	if !inline {
		length = recordSize
	}
	if rest := ringBytes - at%ringBytes; rest < length {
		if room < rest+length {
			return false, false
		}
		*r.record(at) = record{Length: uint32(rest), Kind: recordSkip}
		at += rest
		room -= rest
	}
	if room < length {
		return false, false
	}
	x := record{Length: uint32(length), Kind: kind, Header: m.header, Size: uint64(len(m.bytes)), Address: address}
	if inline {
		x.Kind = recordInline
		copy(r.data()[at%ringBytes+recordSize:], m.bytes)
	}
	*r.record(at) = x
	s.written.Store(at + length)
	s.arrived.Add(1)
	if s.idle.Load() != 0 {
		wake(&s.arrived)
	}
	return inline, true
}

// release tells the sender that the reader is done with everything before a place.
func (r *ring) release(at uint64) {
	s := r.state()
	s.read.Store(at)
	s.done.Add(1)
	if s.held.Load() != 0 {
		wake(&s.done)
	}
}
