package mask

import (
	"fmt"

	"github.com/goascend/cann/aclnn"
)

func (m Varlen) decide(s Shape) (Decision, error) {
	q, k, err := m.sequences(s)
	if err != nil {
		return Decision{}, err
	}
	within := m.Within
	if within == nil {
		within = None{}
	}
	var d Decision
	switch w := within.(type) {
	case None:
		d = open(aclnn.SparseDense, Absent, "full attention in each sequence")
	case Causal:
		d, err = m.causal(w, s, q, k)
	case Band:
		d, err = m.band(w, s, q, k)
	case Prefix:
		d, err = m.prefix(w, s, q, k)
	case Dense:
		longest := s
		longest.Queries, longest.Keys = longestOf(q), longestOf(k)
		d, err = w.decide(longest)
		if err == nil && w.CausalRightPadded {
			err = refuse(m, s, "packed sequences have no padding", "use Causal instead of a dense mask")
		}
	default:
		err = refuse(m, s, fmt.Sprintf("%v inside of sequences is not possible", within), "use None, Causal, Band, Prefix or Dense")
	}
	d.SeqQueries, d.SeqKeys = q, k
	return d, err
}

// sequences returns the ends of the sequences after checking them against the tensors.
func (m Varlen) sequences(s Shape) (q, k []int64, err error) {
	q, k = ends(m.CuQueries), ends(m.CuKeys)
	if m.CuKeys == nil {
		k = q
	}
	if len(q) == 0 || len(q) != len(k) {
		return nil, nil, refuse(m, s, fmt.Sprintf("there are %d query sequences and %d key sequences", len(q), len(k)), "give equally many, at least one")
	}
	for _, side := range []struct {
		name   string
		ends   []int64
		tokens int64
	}{{"CuQueries", q, s.Queries}, {"CuKeys", k, s.Keys}} {
		last := int64(0)
		for i, end := range side.ends {
			if end < last {
				return nil, nil, refuse(m, s, fmt.Sprintf("%s falls from %d to %d at sequence %d", side.name, last, end, i), "give cumulative lengths")
			}
			last = end
		}
		if last != side.tokens {
			return nil, nil, refuse(m, s, fmt.Sprintf("%s ends at %d for %d tokens, and rows beyond it would be left unwritten", side.name, last, side.tokens),
				"narrow the tensors to the last end, or add a sequence of the rest")
		}
	}
	return q, k, nil
}

// each calls f with the lengths of every sequence that has queries, until f fails.
func each(q, k []int64, f func(i int, queries, keys int64) error) error {
	q0, k0 := int64(0), int64(0)
	for i := range q {
		if queries := q[i] - q0; queries > 0 {
			if err := f(i, queries, k[i]-k0); err != nil {
				return err
			}
		}
		q0, k0 = q[i], k[i]
	}
	return nil
}

func longestOf(ends []int64) (n int64) {
	last := int64(0)
	for _, end := range ends {
		n, last = max(n, end-last), end
	}
	return n
}

// anchored checks the anchor within every sequence.
func (m Varlen) anchored(a Anchor, s Shape, q, k []int64) error {
	return each(q, k, func(_ int, queries, keys int64) error { return a.check(m, s, queries, keys) })
}

func (m Varlen) causal(w Causal, s Shape, q, k []int64) (Decision, error) {
	if err := m.anchored(w.Anchor, s, q, k); err != nil {
		return Decision{}, err
	}
	if w.Anchor != BottomRight {
		return open(aclnn.SparseCausal, Triangle, "causal in each sequence, from its top-left corner"), nil
	}
	err := each(q, k, func(i int, queries, keys int64) error {
		if queries > keys {
			return refuse(m, s, fmt.Sprintf("sequence %d has %d queries and %d keys, and its first queries would see none", i, queries, keys),
				"use the top-left anchor, or give it as many keys")
		}
		return nil
	})
	return open(aclnn.SparseCausalEnd, Triangle, "causal in each sequence, from its bottom-right corner"), err
}

func (m Varlen) band(w Band, s Shape, q, k []int64) (Decision, error) {
	if err := m.anchored(w.Anchor, s, q, k); err != nil {
		return Decision{}, err
	}
	pre, next := w.Pre, w.Next
	if w.Anchor != BottomRight {
		// Mode 4 counts from the bottom right; one window serves only if all sequences need the
		// same shift.
		shift, first := int64(0), true
		err := each(q, k, func(i int, queries, keys int64) error {
			if !first && keys-queries != shift {
				return refuse(m, s, fmt.Sprintf("sequence %d has another difference of keys and queries than those before it", i), "use the bottom-right anchor")
			}
			shift, first = keys-queries, false
			return nil
		})
		if err != nil {
			return Decision{}, err
		}
		pre, next = pre+shift, next-shift
	}
	if pre < 0 || pre+next <= 0 {
		return Decision{}, refuse(m, s, fmt.Sprintf("the window -%d..+%d of packed sequences must hold the position itself and more", pre, next),
			"widen Pre or Next")
	}
	err := each(q, k, func(i int, queries, keys int64) error {
		if queries-next > keys {
			return refuse(m, s, fmt.Sprintf("the first queries of sequence %d (%d queries, %d keys) would see no key", i, queries, keys), "widen Next")
		}
		return nil
	})
	return Decision{SparseMode: aclnn.SparseBand, Source: Triangle, Pre: pre, Next: next, Reason: "window in each sequence"}, err
}

func (m Varlen) prefix(w Prefix, s Shape, q, k []int64) (Decision, error) {
	if len(w.Lengths) != len(q) {
		return Decision{}, refuse(m, s, fmt.Sprintf("there are %d prefix lengths for %d sequences", len(w.Lengths), len(q)), "give one per sequence")
	}
	err := each(q, k, func(i int, queries, keys int64) error {
		one := s
		one.Queries, one.Keys = queries, keys
		return w.check(one, i, w.Lengths[i])
	})
	d := open(aclnn.SparsePrefixCompressed, PrefixTriangle, "causal with a prefix in each sequence")
	d.Prefix = w.Lengths
	return d, err
}
