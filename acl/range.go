package acl

import (
	"runtime"
)

// Range is a named part of a stream's work, for profilers. The zero value is a range that no profiler
// sees.
type Range struct{ id uint64 }

// Range begins a named range (mstxRangeStartA) that tools such as msprof show on the host's row from
// this call to End, and on the stream's row from the work queued before to the work queued until End.
// Use a range for each step and each layer of a model:
//
//	r := st.Range("layer 3")
//	defer r.End()
//
// A profile records ranges with ProfileRanges; the emulator's trace (CANN_EMU_TRACE) has them too. In a
// capture a range is on the host's row alone: a graph has none.
// Where CANN's library for them, libms_tools_ext.so, is missing, nothing happens, and a name that is
// empty or has a NUL begins no range. Ranges may overlap.
func (s *Stream) Range(name string) Range {
	text := s.label(name)
	if text == nil {
		return Range{}
	}
	defer runtime.KeepAlive(s)
	id, err := mstxRangeStartA(s.q.scope.handle, &text[0], s.seen())
	if err != nil {
		return Range{}
	}
	return Range{uint64(id)}
}

// End ends the range (mstxRangeEnd). Ending the zero Range does nothing.
func (r Range) End() {
	if r.id != 0 {
		_ = mstxRangeEnd(0, mstxRangeId(r.id)) // there is no result, and the library was found
	}
}

// Mark names a point of the stream's work for profilers (mstxMarkA), as Range does a part.
func (s *Stream) Mark(name string) {
	if text := s.label(name); text != nil {
		defer runtime.KeepAlive(s)
		_ = mstxMarkA(s.q.scope.handle, &text[0], s.seen()) // there is no result, and the library was found
	}
}

// seen returns the stream that a mark belongs to, or 0 during a capture, which records no marks.
func (s *Stream) seen() aclrtStream {
	if s.Capturing() {
		return 0
	}
	return s.q.handle
}

// label returns the text of a mark for C, or nil if no profiler would see it.
func (s *Stream) label(name string) []byte {
	if fnMstxRangeStartA.Available() != nil || fnMstxMarkA.Available() != nil || name == "" || s.usable("Stream.Range") != nil {
		return nil
	}
	text := make([]byte, len(name)+1)
	copy(text, name)
	for _, c := range text[:len(name)] {
		if c == 0 {
			return nil
		}
	}
	return text
}
