package ccl

import (
	"sync/atomic"
	"unsafe"

	"github.com/goascend/cann/internal/emu/rt"
)

// ring carries records from one process to another. A record is a header, followed by the
// bytes of a small message. One side only writes and the other only reads.
type ring struct{ bytes []byte }

// ringState is the start of a ring. The fields are grouped into cache lines by their writer.
type ringState struct {
	written atomic.Uint64 // number of bytes that the sender has written
	_       [56]byte
	read    atomic.Uint64 // number of bytes that the receiver has released
	_       [56]byte
	arrived atomic.Uint32 // number of records written
	idle    atomic.Uint32 // the receiver sleeps on arrived
	revoked atomic.Uint32 // the sender has withdrawn its memory
	_       [52]byte
	done    atomic.Uint32 // number of records that the receiver has released
	held    atomic.Uint32 // the sender sleeps on done
}

func (r *ring) state() *ringState { return (*ringState)(unsafe.Pointer(&r.bytes[0])) }
func (r *ring) head() []byte      { return r.bytes[:ringHead] }
func (r *ring) data() []byte      { return r.bytes[ringHead:] }

// record precedes a message in a ring.
type record struct {
	Length  uint32 // bytes of the record, including those that follow the header
	Kind    uint32
	Header  header
	Size    uint64 // bytes of the message
	Address uint64 // address in the sender's process, or offset in its device memory, unless inline
}

// Kinds of records.
const (
	recordSkip   = iota + 1 // the rest of the ring is unused
	recordInline            // the bytes follow
	recordRemote            // the bytes are in the sender's memory
	recordWindow            // the bytes are in the sender's mapped device memory
)

// recordSize is the space of a header in bytes. The length of a record is a multiple of it.
const recordSize = 128

// Messages up to these sizes in bytes are copied through the ring, so that the sender need not
// wait for the reader. inlineWindow is for memory that the receiver has mapped, inlineRemote
// for other memory.
const (
	inlineWindow = 4 << 10
	inlineRemote = 32 << 10
)

func (r *ring) record(at uint64) *record {
	return (*record)(unsafe.Pointer(&r.data()[at%ringBytes]))
}

// put writes a message. ok is false if there is no room for even a header. Once the ring is
// half full, small messages are no longer copied into it, and their sender waits for the reader.
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

// release reports to the sender that everything before position at has been read.
func (r *ring) release(at uint64) {
	s := r.state()
	s.read.Store(at)
	s.done.Add(1)
	if s.held.Load() != 0 {
		wake(&s.done)
	}
}
