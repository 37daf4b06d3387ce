package schema

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/serve/engine"
)

// Grammar describes the texts of a request that follow a schema. It is safe for concurrent use.
type Grammar struct {
	v      *Vocabulary
	root   *node
	budget *budget.Budget // of all texts

	mu    sync.Mutex
	known map[uint64]*state // whose masks are known, by the hash of the stacks
}

// Limits of the work for the texts of a request, and for a token of one. See package budget.
const textSteps, tokenSteps = 64_000_000, 1_000_000

// mostKnown is the number of masks that a grammar keeps: 20 kB each with 150,000 tokens.
const mostKnown = 512

// mask has a bit for each token.
type mask []uint64

func (m mask) set(id int32) { m[id/64] |= 1 << (id % 64) }

// state is where a text is: stacks of which one must be read.
type state struct {
	left []*part // in the order of their hashes, each once
	hash uint64
	next engine.Next
}

func newState(left []*part) *state {
	s := &state{left: slices.SortedFunc(slices.Values(left), func(p, q *part) int { return cmp.Compare(hashOf(p), hashOf(q)) })}
	for _, p := range s.left {
		s.hash = s.hash*0x9e3779b97f4a7c15 + hashOf(p)
	}
	return s
}

// Begin begins a text.
func (g *Grammar) Begin() engine.Text {
	return &Text{g, newState([]*part{part{kind: value, node: g.root}.with(nil)})}
}

// find returns a state whose mask is known, or nil.
func (g *Grammar) find(s *state) *state {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.known[s.hash]
	if known == nil || !slices.EqualFunc(known.left, s.left, equal) {
		return nil
	}
	return known
}

// keep notes the mask of a state.
func (g *Grammar) keep(s *state) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= mostKnown {
		clear(g.known)
	}
	g.known[s.hash] = s
}

// Text is a text of a grammar. It does not change.
type Text struct {
	g  *Grammar
	at *state
}

// Next returns the tokens that may come next, and whether the text may end. The error matches budget.ErrLimit if a schema that leaves very
// much open makes too much work, or is the cause of the request's context.
func (t *Text) Next() (engine.Next, error) {
	if known := t.g.find(t.at); known != nil {
		return known.next, nil
	}
	s := &state{left: t.at.left, hash: t.at.hash}
	r := reader{budget: t.g.budget.Part("finding the tokens that may come next by the schema", tokenSteps)}
	var strings, others []*part
	for _, p := range s.left {
		switch {
		case p == nil:
		case p.kind == inside && p.n == between:
			strings = append(strings, p.next)
		default:
			others = append(others, p)
		}
		s.next.End = s.next.End || p.ends()
	}
	v := t.g.v
	if len(strings)+len(others) > 0 {
		s.next.Tokens = make(mask, len(v.plain))
	}
	if strings != nil {
		copy(s.next.Tokens, v.plain)
		// They are the same until they end.
		one := part{kind: inside}.with(part{kind: fork, fork: strings}.with(nil))
		v.walk(&r, v.others, 0, []*part{one}, s.next.Tokens)
	}
	if others != nil {
		v.walk(&r, v.all, 0, others, s.next.Tokens)
	}
	if r.err != nil {
		return engine.Next{}, fmt.Errorf("%w: %w", ErrSchema, r.err)
	}
	t.g.keep(s)
	return s.next, nil
}

// Add returns the text with another token, of those that may come next. The errors are those of Next.
func (t *Text) Add(id int32) (engine.Text, error) {
	r := reader{budget: t.g.budget.Part("adding a token by the schema", tokenSteps)}
	left := t.at.left
	for _, b := range t.g.v.bytes[id] {
		left = r.all(left, b, nil)
	}
	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, r.err)
	}
	return &Text{t.g, newState(left)}, nil
}
