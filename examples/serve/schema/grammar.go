package schema

import (
	"math"
	"sync"

	"github.com/goascend/cann/examples/serve/engine"
)

// Grammar describes the texts that follow a schema. It is safe for concurrent use.
type Grammar struct {
	v    *Vocabulary
	root *node

	mu    sync.Mutex
	masks map[string]mask // by what is left to read
}

// mostMasks is the number of masks that a grammar keeps: 20 kB each with 150,000 tokens.
const mostMasks = 512

// mask has a bit for each token.
type mask []uint64

func (m mask) set(id int32)    { m[id/64] |= 1 << (id % 64) }
func (m mask) has(id int) bool { return m[id/64]>>(id%64)&1 == 1 }

// Begin begins a text.
func (g *Grammar) Begin() engine.Text { return &Text{g, []*part{{kind: value, node: g.root}}} }

// allowed returns the tokens after which some stacks go on.
func (g *Grammar) allowed(stacks []*part) mask {
	k := key(stacks)
	g.mu.Lock()
	defer g.mu.Unlock()
	if m, ok := g.masks[k]; ok {
		return m
	}
	m := make(mask, (g.v.size+63)/64)
	var strings, others []*part
	for _, p := range stacks {
		if p != nil && p.kind == inside && p.n == between {
			strings = append(strings, p)
		} else {
			others = append(others, p)
		}
	}
	g.v.walk(g.v.all, 0, others, m)
	if strings != nil {
		for _, id := range g.v.plain {
			m.set(id)
		}
		g.v.walk(g.v.others, 0, strings, m)
	}
	if len(g.masks) == mostMasks {
		clear(g.masks)
	}
	g.masks[k] = m
	return m
}

// Text is a text of a grammar.
type Text struct {
	g    *Grammar
	left []*part // of which one must be read
}

// Allow sets the logits of tokens that may not come next to −∞; ends are tokens that end a text.
func (t *Text) Allow(logits []float32, ends []int32) (some bool) {
	m := t.g.allowed(t.left)
	keep := map[int32]float32{}
	for _, p := range t.left {
		if p.ends() {
			for _, id := range ends {
				if id >= 0 && int(id) < len(logits) { // a folder may name others
					keep[id] = logits[id]
				}
			}
		}
	}
	for id := range logits {
		if id < t.g.v.size && m.has(id) {
			some = true
		} else {
			logits[id] = float32(math.Inf(-1))
		}
	}
	for id, l := range keep {
		logits[id], some = l, true
	}
	return some
}

// Add adds a token that Allow has left, and reports whether the text is complete: nothing can follow.
func (t *Text) Add(id int32) (complete bool) {
	for _, b := range t.g.v.bytes[id] {
		t.left = read(t.left, b, nil)
	}
	for _, p := range t.left {
		if p != nil {
			return false
		}
	}
	return true
}
