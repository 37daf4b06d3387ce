package checkpoint

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/goascend/cann/aclnn/safetensors"
)

// Read returns the elements of a part, which need not be one that was written.
func (s *Set) Read(p Part) ([]float32, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return s.Range(p, 0, count(p.Local()))
}

// Range returns the elements [lo, hi) of a part. It reads the segments of the files that have them,
// and checks every bit of these.
func (s *Set) Range(p Part, lo, hi int64) ([]float32, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if lo < 0 || lo > hi || hi > count(p.Local()) {
		return nil, fmt.Errorf("checkpoint: %v has no elements [%d, %d)", p, lo, hi)
	}
	places := s.places[p.Name]
	for _, at := range places {
		if !slices.Equal(at.Shape, p.Shape) {
			return nil, fmt.Errorf("checkpoint: %s: %v is needed, the set has %v: %w", s.path, p, at.Part, ErrShape)
		}
	}
	if i := slices.IndexFunc(places, func(at place) bool { return at.alike(p) && at.number() == p.number() }); i >= 0 {
		places = places[i : i+1]
	} else if err := complete(places); err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %s: %w", s.path, p.Name, err)
	}
	values := make([]float32, hi-lo)
	runs := p.runs()
	for _, at := range places {
		if err := s.readPlace(at, shared(runs, at.runs(), lo, hi), values); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// move is a range of elements that go from a part in a file to the values that are read.
type move struct{ from, to, n int64 }

// shared lists the moves from a stored part to the elements [lo, hi) of another part of the tensor.
func shared(wanted, have []run, lo, hi int64) (moves []move) {
	for len(wanted) > 0 && len(have) > 0 {
		w, h := wanted[0], have[0]
		a, b := max(w.whole, h.whole), min(w.whole+w.n, h.whole+h.n)
		// In the numbers of the wanted part, and within the range.
		from, to := max(w.own+a-w.whole, lo), min(w.own+b-w.whole, hi)
		if from < to {
			moves = append(moves, move{from: h.own + from - w.own + w.whole - h.whole, to: from - lo, n: to - from})
		}
		if w.whole+w.n <= h.whole+h.n {
			wanted = wanted[1:]
		} else {
			have = have[1:]
		}
	}
	return moves
}

// readPlace reads the segments of a stored part that the moves need, and makes the moves.
func (s *Set) readPlace(at place, moves []move, values []float32) error {
	if len(moves) == 0 {
		return nil
	}
	r, err := s.reader(at)
	if err != nil {
		return err
	}
	for len(moves) > 0 {
		first, last := r.span(moves[0])
		n := 1
		for ; n < len(moves); n++ { // those whose segments follow are read with them
			from, to := r.span(moves[n])
			if from > last {
				break
			}
			last = to
		}
		begin, end := first*at.Segment, min(last*at.Segment, r.size)
		one := moves[0]
		if n == 1 && one.from == begin && one.n == end-begin {
			err = r.read(first, values[one.to:one.to+one.n])
		} else {
			some := make([]float32, end-begin)
			err = r.read(first, some)
			for _, m := range moves[:n] {
				copy(values[m.to:m.to+m.n], some[m.from-begin:])
			}
		}
		if err != nil {
			return err
		}
		moves = moves[n:]
	}
	return nil
}

// reader reads segments of a stored part.
type reader struct {
	place
	path           string
	elements, sums safetensors.Tensor
	size           int64 // elements of the part
}

func (s *Set) reader(at place) (r *reader, err error) {
	f, err := s.file(at.file)
	if err != nil {
		return nil, err
	}
	r = &reader{place: at, path: filepath.Join(s.path, at.file.Name), size: count(at.Local())}
	if r.elements, err = f.Tensor(at.Name); err != nil {
		return nil, err
	}
	if r.sums, err = f.Tensor(at.Name + sumsSuffix); err != nil {
		return nil, err
	}
	if r.elements.Size() != 4*r.size || r.sums.Size() != 4*segments(at.Part, at.Segment) {
		return nil, fmt.Errorf("checkpoint: %s: tensor %s: %w: %v and %v are not %v", r.path, at.Name, ErrCorrupt, r.elements.Info, r.sums.Info, at.Part)
	}
	return r, nil
}

// span is the first segment of a move, and the one after its last.
func (r *reader) span(m move) (first, last int64) {
	return m.from / r.Segment, (m.from + m.n + r.Segment - 1) / r.Segment
}

// read fills values with segments from the given one on, and checks them.
func (r *reader) read(first int64, values []float32) error {
	want := make([]byte, 4*((int64(len(values))+r.Segment-1)/r.Segment))
	if _, err := r.elements.ReadAt(bytesOf(values), 4*first*r.Segment); err != nil {
		return err
	}
	if _, err := r.sums.ReadAt(want, 4*first); err != nil {
		return err
	}
	if !bytes.Equal(sums(values, r.Segment), want) {
		return fmt.Errorf("checkpoint: %s: tensor %s: %w: a checksum of elements %d to %d is another; resume from another checkpoint by its folder",
			r.path, r.Name, ErrCorrupt, first*r.Segment, first*r.Segment+int64(len(values)))
	}
	return nil
}

// BytesRead is how many bytes of elements and their checksums were read since the set was opened.
func (s *Set) BytesRead() (n int64) {
	for _, f := range s.open {
		n += f.BytesRead()
	}
	return n
}
