package mask

import "math"

// Pattern describes the visible keys in closed form: query i sees key j of batch item b if
// Hidden[b][j] is not set and either First ≤ j − i ≤ Last or j < Prefix[b].
type Pattern struct {
	First, Last int64   // diagonals; the extremes of int64 where there is no limit
	Prefix      []int64 // per batch item; nil if there is no prefix
	Hidden      []byte  // [Batch, Keys], 1 hides the key from all queries; may be nil
	Keys        int64
}

// Visible reports whether query i of batch item b sees key j.
func (p Pattern) Visible(b, i, j int64) bool {
	if p.Hidden != nil && p.Hidden[b*p.Keys+j] != 0 {
		return false
	}
	d := j - i
	return p.First <= d && d <= p.Last || p.Prefix != nil && j < p.Prefix[b]
}

// Banded reports whether the diagonals hide anything.
func (p Pattern) Banded() bool { return p.First != math.MinInt64 || p.Last != math.MaxInt64 }

// all returns the pattern that hides nothing.
func all(s Shape) Pattern {
	return Pattern{First: math.MinInt64, Last: math.MaxInt64, Keys: s.Keys}
}

// Pattern returns the visible keys of a decision: in layout TND those of the given sequence,
// otherwise those of the batch, for every index. It is meaningless for a Dense mask that is passed
// on unchanged.
func (d Decision) Pattern(sequence int) Pattern {
	m, packed := d.mask.(Varlen)
	if !packed {
		if _, padded := d.mask.(Padding); padded && d.Source == Triangle {
			return Causal{}.pattern(d.shape) // the rows of padding queries follow it too
		}
		return d.mask.pattern(d.shape)
	}
	s := d.shape
	s.Queries, s.Keys = d.SeqQueries[sequence], d.SeqKeys[sequence]
	if sequence > 0 {
		s.Queries -= d.SeqQueries[sequence-1]
		s.Keys -= d.SeqKeys[sequence-1]
	}
	if m.Within == nil {
		return all(s)
	}
	if w, ok := m.Within.(Prefix); ok {
		return Prefix{Lengths: w.Lengths[sequence : sequence+1]}.pattern(s)
	}
	return m.Within.pattern(s)
}

func (None) pattern(s Shape) Pattern { return all(s) }

func (m Causal) pattern(s Shape) Pattern {
	p := all(s)
	p.Last = 0
	if m.Anchor == BottomRight {
		p.Last = s.Keys - s.Queries
	}
	return p
}

func (m Band) pattern(s Shape) Pattern {
	p := all(s)
	p.First, p.Last = -m.Pre, m.Next
	if m.Anchor == BottomRight {
		p.First += s.Keys - s.Queries
		p.Last += s.Keys - s.Queries
	}
	return p
}

func (m Prefix) pattern(s Shape) Pattern {
	p := Causal{BottomRight}.pattern(s)
	p.Prefix = m.Lengths
	return p
}

func (m Padding) pattern(s Shape) Pattern {
	p := all(s)
	if m.Causal {
		p.Last = 0
	}
	p.Hidden = make([]byte, s.Batch*s.Keys)
	for b := range s.Batch {
		for j := range s.Keys {
			if !m.valid(b, j, s.Keys) {
				p.Hidden[b*s.Keys+j] = 1
			}
		}
	}
	return p
}

// pattern returns the pattern of the compressed causal mask where that replaces the dense one; the
// host does not know the cells of other dense masks.
func (m Dense) pattern(s Shape) Pattern {
	if m.CausalRightPadded {
		return Causal{}.pattern(s)
	}
	return all(s)
}

// pattern shows every column to every row of s. Kernels read the pattern of each packed sequence from
// Decision.Pattern instead.
func (m Varlen) pattern(s Shape) Pattern { return all(s) }
