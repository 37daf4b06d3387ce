package engine

import (
	"context"

	"github.com/goascend/cann/examples/sampling"
)

// sequence is a request on its way through the engine.
type sequence struct {
	ctx     context.Context
	request Request
	out     *Generation
	sampler *sampling.Sampler
	adapter *adapter // nil for none
	guide   *guide   // of a grammar, or nil

	tokens   []int32 // the prompt, then what was generated
	scored   int     // tokens of the prompt whose probabilities are known
	computed int     // tokens whose keys and values are in the blocks
	next     int     // tokens of the current step
	draft    []int32 // tokens that may follow them, read in the same step
	// predicted is a token that the model's own layer expects after them, if it has one.
	predicted []int32
	blocks    []*block // nil for the first ones, if no later token sees them
	gone      int      // of these
	place     int      // first of its places for states of delta nets
	state     int      // the one that has them: with drafts there are two
	long      bool     // its keys have the rotation of long sequences, see model.Piece.Long
	admitted  bool
	ended     bool
	faults    int // failures of the device in steps that it was part of
}

func newSequence(ctx context.Context, r Request) *sequence {
	s := &sequence{
		ctx: ctx, request: r, out: newGeneration(ctx), sampler: sampling.New(r.Sampling, r.Prompt),
		tokens: append(append(make([]int32, 0, len(r.Prompt)+len(r.Done)+16), r.Prompt...), r.Done...),
	}
	if r.Grammar != nil {
		s.guide = &guide{found: make(chan found, 1)}
	}
	if r.PromptLogProbs {
		s.out.prompt = []Token{{ID: r.Prompt[0]}}
	}
	for _, id := range r.Done {
		s.sampler.Skip(id)
	}
	return s
}

// left returns the number of tokens to read before the next one can be drawn.
func (s *sequence) left() int { return len(s.tokens) - s.computed }

// scoring reports whether probabilities of the prompt are missing. Those of its first token are never known.
func (s *sequence) scoring() bool {
	return s.request.PromptLogProbs && s.scored < len(s.request.Prompt)-1
}

// scoreRows is the most tokens of a prompt after which logits are computed in a step: they take much memory.
const scoreRows = 64

// readable returns the number of tokens that a step may read. The last one waits until it is known how the text goes on.
func (s *sequence) readable() int {
	left := s.left()
	if s.guide != nil && len(s.guide.next) == 0 {
		left--
	}
	if s.scoring() {
		left = min(left, scoreRows)
	}
	return left
}

// full reports whether the answer has all the tokens that it may have.
func (s *sequence) full() bool { return len(s.tokens)-len(s.request.Prompt) == s.request.MaxTokens }

// reading reports whether the sequence has more to read than the token it has drawn last.
func (s *sequence) reading() bool { return s.left() > 1 || s.computed == 0 }

// adopt gives the sequence the blocks that hold its first tokens already. If a part of another block does,
// it returns this block and the one to copy it to.
func (c *blocks) adopt(s *sequence) (from, to *block) {
	if !c.share || s.scoring() {
		return nil, nil
	}
	full, partial, common := c.match(s)
	for _, b := range full {
		c.retain(b)
	}
	s.blocks, s.computed = append(s.blocks, full...), len(full)*c.size
	if common*4 < c.size || common == 0 { // reading a few tokens costs less than a copy
		return nil, nil
	}
	c.retain(partial)
	defer c.release(partial)
	if to = c.take(); to == nil {
		return nil, nil
	}
	to.tokens = append(to.tokens, partial.tokens[:common]...)
	c.attach(s, to)
	s.blocks, s.computed = append(s.blocks, to), s.computed+common
	return partial, to
}

// attach puts a block into the tree, after the blocks that the sequence has.
func (c *blocks) attach(s *sequence, b *block) {
	b.parent = c.rootOf(s)
	for _, before := range s.blocks {
		if before == b {
			break
		}
		b.parent = before
	}
	b.parent.children = append(b.parent.children, b)
}

// extend gives the sequence blocks for so many tokens. It reports whether there are enough.
func (c *blocks) extend(s *sequence, tokens int) bool {
	more := c.count(tokens) - len(s.blocks)
	if more > c.available() {
		return false
	}
	for range more {
		s.blocks = append(s.blocks, c.take())
	}
	return true
}

// fill notes that the blocks of the sequence hold its computed tokens.
func (c *blocks) fill(s *sequence) {
	if !c.share {
		return
	}
	for i := max(s.computed-s.next, 0) / c.size; i*c.size < s.computed; i++ {
		b, start := s.blocks[i], i*c.size
		b.tokens = append(b.tokens, s.tokens[start+len(b.tokens):min(start+c.size, s.computed)]...)
		if b.parent == nil && (i == 0 || s.blocks[i-1] != nil && s.blocks[i-1].parent != nil) {
			c.attach(s, b)
		}
	}
}

// pass lets the blocks go that no later token of the sequence sees.
func (c *blocks) pass(s *sequence) {
	for c.reach > 0 && (s.gone+1)*c.size <= s.computed-c.reach+1 {
		c.release(s.blocks[s.gone])
		s.blocks[s.gone] = nil
		s.gone++
	}
}

// drop takes all blocks from the sequence, the last first, so that starts of texts are kept longest.
func (c *blocks) drop(s *sequence) {
	for i := len(s.blocks) - 1; i >= s.gone; i-- {
		c.release(s.blocks[i])
	}
	s.blocks, s.gone, s.computed, s.next = nil, 0, 0, 0
}
