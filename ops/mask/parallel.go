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

// Part is one call of attention of a rank: some of its queries attend to some of the keys that it, or another
// rank, holds.
type Part struct {
	// Queries and Keys are ranges of what the ranks hold: of their chunks, one after another.
	Queries, Keys Range
	Mask          Mask // of these queries and keys
}

// Parts divides attention into calls: of the queries that one rank holds to the keys that one rank holds, the same
// or another, both in chunks of the sequence that the shape describes. A pair of chunks in which no query
// sees a key has no part; chunks in which all queries see all keys are joined. Every query is in as many parts as needed, or in none.
func Parts(m Mask, s Shape, queries, keys []Range) ([]Part, error) {
	if _, err := Decide(m, s); err != nil {
		return nil, err
	}
	if m == nil {
		m = None{}
	}
	if s.Queries != s.Keys {
		return nil, refuse(m, s, "a sequence that is shared among ranks has as many queries as keys", "attend to a cache on one rank")
	}
	for _, c := range slices.Concat(queries, keys) {
		if c.From < 0 || c.To > s.Queries || c.From > c.To {
			return nil, refuse(m, s, fmt.Sprintf("positions %d to %d are not in the sequence", c.From, c.To), "take the chunks of Split.Chunks")
		}
	}
	c, err := newCut(m, s)
	if err != nil {
		return nil, err
	}
	for _, q := range queries {
		for _, k := range keys {
			if c.ends != nil && q != k && q.both(k).Len() > 0 {
				return nil, refuse(m, s, fmt.Sprintf("the queries at %d to %d and the keys at %d to %d are the same in part", q.From, q.To, k.From, k.To), "take the chunks of Split.Chunks")
			}
		}
	}
	if slices.Equal(queries, keys) && ascending(queries) {
		if p, ok := c.own(queries); ok {
			return []Part{p}, nil
		}
	}
	var parts []piece
	atQuery := int64(0)
	for _, q := range queries {
		atKey := int64(0)
		for _, k := range keys {
			if p, ok := c.pair(q, k); ok && q.Len() > 0 && k.Len() > 0 {
				p.Queries, p.Keys = p.Queries.move(atQuery-q.From), p.Keys.move(atKey-k.From)
				parts = append(parts, p)
			}
			atKey += k.Len()
		}
		atQuery += q.Len()
	}
	joined := c.join(parts)
	for _, p := range joined {
		s.Queries, s.Keys = p.Queries.Len(), p.Keys.Len()
		if _, err := Decide(p.Mask, s); err != nil {
			return nil, err
		}
	}
	return joined, nil
}

// move returns the range n positions further on.
func (r Range) move(n int64) Range { return Range{r.From + n, r.To + n} }

// both returns the positions in both ranges, an empty range if there are none.
func (r Range) both(o Range) Range {
	from := max(r.From, o.From)
	return Range{from, max(from, min(r.To, o.To))}
}

// ascending reports whether chunks are in the order of the sequence and do not overlap.
func ascending(chunks []Range) bool {
	for i := 1; i < len(chunks); i++ {
		if chunks[i].From < chunks[i-1].To {
			return false
		}
	}
	return true
}

// cut is a mask that is being cut by positions.
type cut struct {
	mask   Mask
	window bool  // whether it is a window
	pre    int64 // of the window
	next   int64
	ends   []int64 // of packed sequences
	width  int64   // positions of the sequence
}

// newCut refuses the masks that cannot be cut.
func newCut(m Mask, s Shape) (cut, error) {
	c := cut{mask: m, width: s.Keys}
	causal := func() { c.window, c.pre, c.next = true, unlimited, 0 }
	switch w := m.(type) {
	case None:
	case Causal:
		causal()
	case Band:
		c.window, c.pre, c.next = true, w.Pre, w.Next
	case Padding:
		_, right, err := w.check(s)
		switch {
		case err != nil:
			return c, err
		case w.Causal && right && !w.Exact:
			causal()
		case w.Causal:
			return c, refuse(m, s, "a causal rule with padding on the left or kept exact needs a mask of cells on each rank", "pad on the right, or use mask.Dense")
		}
	case Varlen:
		switch w.Within.(type) {
		case nil, None:
		case Causal:
			causal()
		default:
			return c, refuse(m, s, "it cannot be cut by positions", "use Causal or None inside of the sequences")
		}
		q, k, err := w.sequences(s)
		switch {
		case err != nil:
			return c, err
		case !slices.Equal(q, k):
			return c, refuse(m, s, "sequences that are shared among ranks have as many queries as keys", "attend to a cache on one rank")
		}
		c.ends = q
	case Dense:
		if w.CausalRightPadded {
			causal()
		}
	default:
		return c, refuse(m, s, "it cannot be cut by positions", "cut each sequence by itself, or use mask.Dense")
	}
	return c, nil
}

// own returns the part of queries and keys at the same positions, if one call computes them: chunks one after another
// keep the order of the sequence, which is all that a causal rule and packed sequences ask for.
func (c cut) own(chunks []Range) (Part, bool) {
	all := Range{}
	for _, r := range chunks {
		all.To += r.Len()
	}
	switch {
	case all.Len() == 0:
		return Part{}, false
	case c.ends != nil:
		return Part{all, all, c.sequences(chunks)}, true
	case c.window && c.pre == unlimited && c.next == 0:
		return Part{all, all, Causal{}}, true
	}
	return Part{}, false
}

// sequences returns the mask of packed sequences for the tokens of some chunks.
func (c cut) sequences(chunks []Range) Mask {
	m, held, from := Varlen{CuQueries: []int64{0}, Within: c.mask.(Varlen).Within}, int64(0), int64(0)
	for _, end := range c.ends {
		before := held
		for _, r := range chunks {
			held += r.both(Range{from, end}).Len()
		}
		if held > before {
			m.CuQueries = append(m.CuQueries, held)
		}
		from = end
	}
	return m
}

// piece is a part, in which all queries may see all keys.
type piece struct {
	Part
	full bool
}

// pair returns the part of one chunk of queries and one of keys, at positions of the sequence; false if no query sees a key.
func (c cut) pair(q, k Range) (piece, bool) {
	p := piece{Part: Part{Queries: q, Keys: k, Mask: c.mask}}
	if c.ends != nil {
		return c.between(q, k)
	}
	if c.window {
		ahead := q.From - k.From
		pre, next := c.pre-ahead, c.next+ahead
		p.Mask = Band{Pre: min(pre, unlimited), Next: min(next, unlimited), Anchor: TopLeft}
		p.full = pre >= q.Len()-1 && next >= k.Len()-1
		return p, pre >= 1-k.Len() && next >= 1-q.Len() && pre+next >= 0
	}
	switch w := c.mask.(type) {
	case None:
		p.full = true
	case Padding:
		return c.padded(w, p)
	case Dense:
		t := w.Tensor
		if t.Rank() == 2 || t.Dim(-2) != 1 {
			t = t.Narrow(-2, q.From, q.Len())
		}
		t = t.Narrow(-1, k.From, k.Len())
		if t.Rank() == 2 { // a part may be as long as the batch is large, and then look like padding
			t = t.Unsqueeze(0).Unsqueeze(0)
		}
		p.Mask = Dense{Tensor: t, Meaning: w.Meaning}
	}
	return p, true
}

// padded keeps of a padding mask what it says of the keys of a part.
func (c cut) padded(w Padding, p piece) (piece, bool) {
	k, m, some, all := p.Keys, Padding{Exact: w.Exact}, false, true
	for _, n := range w.Lengths {
		left := Range{0, n}.both(k).Len()
		m.Lengths = append(m.Lengths, left)
		some, all = some || left > 0, all && left == k.Len()
	}
	if w.Lengths == nil {
		for row := int64(0); row < int64(len(w.Valid)); row += c.width {
			m.Valid = append(m.Valid, w.Valid[row+k.From:row+k.To]...)
		}
		some, all = slices.Contains(m.Valid, true), !slices.Contains(m.Valid, false)
	}
	p.Mask, p.full = m, all
	return p, some
}

// between returns the part of packed sequences that a chunk of queries shares with a chunk of keys, which is the same
// or lies elsewhere. Then they share one sequence at most: that which is cut between them.
func (c cut) between(q, k Range) (piece, bool) {
	switch {
	case q == k:
		m := c.sequences([]Range{q})
		return piece{Part: Part{Queries: q, Keys: k, Mask: m}}, true
	case c.window && k.From > q.From:
		return piece{}, false
	}
	from := int64(0)
	for _, end := range c.ends {
		sequence := Range{from, end}
		from = end
		if mine, theirs := q.both(sequence), k.both(sequence); mine.Len() > 0 && theirs.Len() > 0 {
			return piece{Part{Queries: mine, Keys: theirs}, true}, true
		}
	}
	return piece{}, false
}

// join joins parts without hidden keys that have the same queries and keys one after another, or the other way round.
func (c cut) join(parts []piece) []Part {
	for i := 0; i < len(parts); i++ {
		for j := i + 1; j < len(parts); j++ {
			a, b := &parts[i], parts[j]
			switch {
			case !a.full || !b.full:
				continue
			case a.Queries == b.Queries && a.Keys.To == b.Keys.From:
				a.Keys.To = b.Keys.To
			case a.Keys == b.Keys && a.Queries.To == b.Queries.From:
				a.Queries.To = b.Queries.To
			default:
				continue
			}
			parts = slices.Delete(parts, j, j+1)
			i, j = 0, 0 // what was joined may be joined again
		}
	}
	out := make([]Part, len(parts))
	for i, p := range parts {
		switch {
		case p.full && c.ends != nil:
			p.Mask = Varlen{CuQueries: []int64{p.Queries.Len()}, CuKeys: []int64{p.Keys.Len()}}
		case p.full:
			p.Mask = None{}
		}
		out[i] = p.Part
	}
	return out
}
