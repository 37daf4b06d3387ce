package mask

import (
	"fmt"
	"slices"
)

// Range is a half-open range of positions in a sequence: To is excluded.
type Range struct{ From, To int64 }

// Len returns the number of positions.
func (r Range) Len() int64 { return r.To - r.From }

// Split says how a sequence is shared among the ranks of context parallelism.
type Split int

const (
	// Contiguous gives rank r the r-th of equally long parts.
	Contiguous Split = iota
	// ZigZag cuts the sequence into 2·ranks parts and gives rank r the parts r and 2·ranks − 1 − r,
	// which balances the work of the ranks under a causal mask.
	ZigZag
)

// Chunks returns the positions that a rank holds, in the order in which it holds them.
func (p Split) Chunks(length int64, rank, ranks int) ([]Range, error) {
	parts := int64(ranks)
	if p == ZigZag {
		parts *= 2
	}
	switch {
	case ranks < 1 || rank < 0 || rank >= ranks:
		return nil, fmt.Errorf("%w: rank %d of %d does not exist", ErrRefused, rank, ranks)
	case length%parts != 0:
		return nil, fmt.Errorf("%w: %d positions do not divide into %d parts; pad the sequences", ErrRefused, length, parts)
	}
	n := length / parts
	part := func(i int64) Range { return Range{i * n, (i + 1) * n} }
	if p == ZigZag && ranks > 1 {
		return []Range{part(int64(rank)), part(parts - 1 - int64(rank))}, nil
	}
	return []Range{{int64(rank) * length / int64(ranks), int64(rank+1) * length / int64(ranks)}}, nil
}

// Gather selects the chunks of every row of values, a row-major matrix [rows, length]: the token
// ids, labels, positions or masks of the tokens that a rank holds.
func Gather[T any](values []T, length int64, chunks []Range) []T {
	var out []T
	for at := int64(0); at < int64(len(values)); at += length {
		for _, c := range chunks {
			out = append(out, values[at+c.From:at+c.To]...)
		}
	}
	return out
}

// Part is one call of attention on a rank: queries at a range of positions attend to a range of keys
// of the gathered sequence.
type Part struct {
	Queries Range
	Keys    Range
	Mask    Mask
}

// Parts divides the attention of a rank's queries into calls. Keys and values are gathered from all
// ranks in the order of the sequence, and the shape is that of the whole sequence. Keys that no
// query of a part can see are left out if the mask allows it.
func Parts(m Mask, s Shape, chunks []Range) ([]Part, error) {
	if _, err := Decide(m, s); err != nil {
		return nil, err
	}
	if m == nil {
		m = None{}
	}
	if s.Queries != s.Keys {
		return nil, refuse(m, s, "a sequence that is shared among ranks has as many queries as keys", "attend to a cache on one rank")
	}
	parts := make([]Part, len(chunks))
	for i, c := range chunks {
		if c.From < 0 || c.To > s.Queries || c.From > c.To {
			return nil, refuse(m, s, fmt.Sprintf("positions %d to %d are not in the sequence", c.From, c.To), "take the chunks of Split.Chunks")
		}
		p := Part{Queries: c, Keys: Range{0, s.Keys}, Mask: m}
		switch w := m.(type) {
		case None:
		case Causal:
			p.Keys.To, p.Mask = c.To, Causal{BottomRight}
		case Band:
			p.Keys.To = min(s.Keys, c.To+max(w.Next, 0))
			beyond := p.Keys.To - c.To
			p.Mask = Band{Pre: w.Pre + beyond, Next: w.Next - beyond, Anchor: BottomRight}
			part := s
			part.Queries, part.Keys = c.Len(), p.Keys.Len()
			if _, err := p.Mask.decide(part); err != nil { // no query of the part sees a key
				p.Keys, p.Mask = Range{}, None{}
			}
		case Padding:
			_, right, err := w.check(s)
			switch {
			case err != nil:
				return nil, err
			case w.Causal && right && !w.Exact:
				p.Keys.To, p.Mask = c.To, Causal{BottomRight}
			case w.Causal:
				return nil, refuse(m, s, "a causal rule with padding on the left or kept exact needs a mask of cells on each rank", "pad on the right, or use mask.Dense")
			}
		case Varlen:
			var err error
			if p, err = w.part(s, c); err != nil {
				return nil, err
			}
		case Dense:
			t := w.Tensor
			if w.CausalRightPadded {
				p.Keys.To, p.Mask = c.To, Causal{BottomRight}
			} else if t.Rank() == 2 || t.Dim(-2) != 1 {
				t = t.Narrow(-2, c.From, c.Len())
				if t.Rank() == 2 { // a part may be as long as the batch is large, and then look like padding
					t = t.Unsqueeze(0).Unsqueeze(0)
				}
				p.Mask = Dense{Tensor: t, Meaning: w.Meaning}
			}
		default:
			return nil, refuse(m, s, "it cannot be cut by positions", "cut each sequence by itself, or use mask.Dense")
		}
		parts[i] = p
	}
	return parts, nil
}

// part divides packed sequences: the queries are pieces of some of them, and see the keys of these
// from the beginning of the first one on.
func (m Varlen) part(s Shape, c Range) (Part, error) {
	causal := false
	switch m.Within.(type) {
	case nil, None:
	case Causal:
		causal = true
	default:
		return Part{}, refuse(m, s, "it cannot be cut by positions", "use Causal or None inside of the sequences")
	}
	q, k, err := m.sequences(s)
	switch {
	case err != nil:
		return Part{}, err
	case !slices.Equal(q, k):
		return Part{}, refuse(m, s, "sequences that are shared among ranks have as many queries as keys", "attend to a cache on one rank")
	}
	p, cut, first := Part{Queries: c}, Varlen{CuQueries: []int64{0}, CuKeys: []int64{0}, Within: m.Within}, true
	if causal {
		cut.Within = Causal{BottomRight}
	}
	from := int64(0)
	for _, end := range q {
		start := from
		if from = end; start == end || end <= c.From || start >= c.To {
			continue
		}
		if first {
			p.Keys.From, first = start, false
		}
		last := min(end, c.To)
		cut.CuQueries = append(cut.CuQueries, last-c.From)
		if !causal {
			last = end
		}
		p.Keys.To = last
		cut.CuKeys = append(cut.CuKeys, last-p.Keys.From)
	}
	p.Mask = cut
	return p, nil
}
