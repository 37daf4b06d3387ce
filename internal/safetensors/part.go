package safetensors

import (
	"io"
	"slices"
)

// Narrow is the part of the tensor that has length indices of an axis, from start on; a
// negative axis counts from the end. Reading it reads nothing else of the file, or little: a
// rank that needs a part of each weight takes it by rows or by columns. What is outside of
// the tensor is ErrRange.
func (t Tensor) Narrow(axis, start, length int) (Tensor, error) {
	i := axis
	if i < 0 {
		i += len(t.Shape)
	}
	if i < 0 || i >= len(t.Shape) {
		return Tensor{}, t.fail(ErrRange, "%v has no axis %d", t.Info, axis)
	}
	if start < 0 || length < 0 || start > t.Shape[i] || length > t.Shape[i]-start {
		return Tensor{}, t.fail(ErrRange, "%d indices from %d on of axis %d of %v", length, start, axis, t.Info)
	}
	inner := int64(t.DType.Size())
	for _, d := range t.Shape[i+1:] {
		inner *= int64(d)
	}
	s := &strip{from: t.data, start: int64(start) * inner, length: int64(length) * inner, period: int64(t.Shape[i]) * inner}
	t.Shape = slices.Clone(t.Shape)
	t.Shape[i] = length
	s.size = t.Size()
	t.data = s
	return t, nil
}

// Range is length elements from start on, in row-major order, as a tensor of one dimension:
// what is left of a weight's shape when flat shards of it are spread over ranks. What is
// outside of the tensor is ErrRange.
func (t Tensor) Range(start, length int) (Tensor, error) {
	if start < 0 || length < 0 || start > t.Len() || length > t.Len()-start {
		return Tensor{}, t.fail(ErrRange, "%d elements from %d on of %v, which has %d", length, start, t.Info, t.Len())
	}
	size := int64(t.DType.Size())
	t.data = io.NewSectionReader(t.data, int64(start)*size, int64(length)*size)
	t.Shape = []int{length}
	return t, nil
}

// strip is a part of each period of other bytes: length bytes from start on. It has size bytes.
type strip struct {
	from                        io.ReaderAt
	start, length, period, size int64
}

const (
	readAlong = 1 << 10   // the longest period of parts that are read together whatever is between them
	readBlock = 256 << 10 // how much is read at a time then
)

// along reports whether the parts are read together with what is between them, which is cheaper than one
// by one if they are close: a short period, or gaps of at most a sixteenth of a part.
func (s *strip) along() bool {
	return s.length < readBlock && (s.period <= readAlong || 16*(s.period-s.length) <= s.length)
}

// ReadAt reads the parts one after the other, or several with what is between them.
func (s *strip) ReadAt(p []byte, off int64) (done int, err error) {
	var block []byte
	for done < len(p) && off < s.size {
		within := off % s.length
		at := off/s.length*s.period + s.start + within
		n := min(int64(len(p)-done), s.length-within)
		to := p[done : done+int(n)]
		along := n < int64(len(p)-done) && s.along()
		if along {
			if block == nil {
				block = make([]byte, min(readBlock, (int64(len(p)-done)/s.length+2)*s.period))
			}
			last := (s.size/s.length-1)*s.period + s.start + s.length
			to = block[:min(last-at, int64(len(block)))]
		}
		if got, err := s.from.ReadAt(to, at); got < len(to) {
			return done, err
		}
		if along {
			n = int64(s.gather(p[done:], to, within))
		}
		done, off = done+int(n), off+n
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// gather copies the parts in b, which starts within one, to p.
func (s *strip) gather(p, b []byte, within int64) (n int) {
	for len(p) > n && len(b) > 0 {
		n += copy(p[n:], b[:min(int64(len(b)), s.length-within)])
		b = b[min(int64(len(b)), s.period-within):]
		within = 0
	}
	return n
}
