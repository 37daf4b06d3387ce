package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/decode"
)

// Pages holds keys and values of attention and states of delta nets for many sequences of different
// lengths. Keys and values are in blocks of a fixed number of tokens, which the caller assigns to
// sequences; a block may belong to several sequences that begin with the same tokens. Close the pages
// before the model.
//
// A block has keys and values of all layers. Where every layer has a sliding window, the caller may use a block for something else when no later
// token sees it (Config.Reach). Where layers differ, as in gpt-oss and Gemma 3, those that see all tokens need every block, so that Reach is 0:
// the layers with a window read only the tokens in it, and their part of the older blocks is memory without use.
type Pages struct {
	// Adapters holds the adapters of the pieces; nil if none has one.
	Adapters *AdapterBank

	m      *Model
	sizes  PageSizes
	layers []*page
	memory aclnn.Scope
	ops    *decode.Operators
	steps  *Steps // graphs of passes, or nil
	kept   kept   // of the last pass, for Predict
}

// PageSizes are the sizes of Pages.
type PageSizes struct {
	Blocks int
	// Block is the number of tokens of a block. In 16 bits CANN's kernels take multiples of 128 up to
	// 512; blocks of other sizes are gathered first.
	Block int
	// States is the number of sequences that can have states of delta nets at the same time.
	States int
}

// page is the part of one layer. Row 0 of inputs and state remains zero: new sequences start from it. The blocks
// and the row after those of sequences are for rows of Steps that have none.
type page struct {
	cells                // of attention, a row for each block
	inputs *aclnn.Tensor // last inputs of a delta net's convolution, [1 + states + 1, channels, taps]
	state  *aclnn.Tensor // of its rule, [1 + states + 1, heads, key features, value features], float32
}

// allBlocks is the number of blocks with those of rows without a sequence.
func (s PageSizes) allBlocks() int { return s.Blocks + (s.States+s.Block-1)/s.Block }

// NewPages makes empty pages.
func (m *Model) NewPages(sizes PageSizes) (*Pages, error) {
	if err := m.together("NewPages"); err != nil {
		return nil, err
	}
	if m.Config.Encoder() {
		return nil, errEncoder
	}
	if m.Config.Score {
		return nil, errSequences
	}
	if sizes.Blocks <= 0 || sizes.Block <= 0 || sizes.States <= 0 || sizes.allBlocks() > math.MaxInt32/sizes.Block {
		return nil, fmt.Errorf("model: pages of %d blocks of %d tokens and %d states; all must be positive, and all tokens less than 2³¹", sizes.Blocks, sizes.Block, sizes.States)
	}
	if err := m.checkCells(); err != nil {
		return nil, err
	}
	dec, err := decode.New(m.reg)
	if err != nil {
		return nil, err
	}
	g := &Pages{m: m, sizes: sizes, memory: aclnn.Scope{Stream: m.st}, ops: dec}
	for i := range m.Config.Layers {
		g.layers = append(g.layers, g.layer(i))
	}
	if m.predictor != nil {
		g.layers = append(g.layers, g.layer(m.Config.Layers))
	}
	if err := g.memory.Err(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func (g *Pages) layer(index int) *page {
	cfg, dt, ranks := g.m.Config, g.m.dt, g.m.tp.Size()
	if !cfg.linear(index) {
		return &page{cells: g.m.newCells(&g.memory, int64(g.sizes.allBlocks()), int64(g.sizes.Block))}
	}
	hk, hv, dk, dv := int64(cfg.LinearKeyHeads)/ranks, int64(cfg.LinearValueHeads)/ranks, int64(cfg.LinearKeyDim), int64(cfg.LinearValueDim)
	rows := int64(1 + g.sizes.States + 1)
	return &page{
		inputs: zeros(&g.memory, dt, rows, 2*hk*dk+hv*dv, int64(cfg.LinearTaps)),
		state:  zeros(&g.memory, aclnn.Float32, rows, hv, dk, dv),
	}
}

// Close frees the pages.
func (g *Pages) Close() error {
	g.layers = nil
	return errors.Join(g.kept.memory.Close(), g.memory.Close())
}

// CopyBlock copies the keys and values of a block to another one, before the work of the next Advance.
func (g *Pages) CopyBlock(to, from int32) error {
	if n := int32(g.sizes.Blocks); g.layers == nil || to < 0 || from < 0 || to >= n || from >= n {
		return fmt.Errorf("model: copy of block %d to %d; the pages are closed or have only %d blocks", from, to, n)
	}
	return aclnn.Compose(g.m.st, func(s *aclnn.Scope) {
		for _, l := range g.layers {
			for _, cache := range []*aclnn.Tensor{l.keys, l.values, l.keyScales, l.valueScales} {
				if cache != nil {
					s.Copy(cache.Select(0, int64(to)), cache.Select(0, int64(from)))
				}
			}
		}
	})
}

// Piece holds the next tokens of a sequence.
type Piece struct {
	Tokens []int32
	From   int     // tokens of the sequence that were read before
	Blocks []int32 // blocks of the sequence in order, for From+len(Tokens) tokens at least
	State  int     // its place among the states, from 0; no two pieces have the same
	// Begin is, plus 1, the place of the states before its tokens; 0 stands for State. With another place these remain, for tokens that may
	// have to be taken back.
	Begin int
	// Long says that the sequence has, with tokens that other pieces read, more than Config.SwitchesAfter, which may be sooner than this piece says:
	// its tokens get the rotation of such sequences, as those of all its pieces must. A sequence that grows beyond is read again from 0.
	Long bool
	// Logits is the number of its last tokens after which logits are wanted; 0 stands for 1.
	Logits int
	// Adapter is the number of its adapter, or 0 for none: 1 is the first slot of the adapter bank.
	Adapter int
}

// before is the row of the states from which a piece goes on, 0 for a new sequence.
func (x Piece) before() int {
	if x.From == 0 {
		return 0
	}
	return cmp.Or(x.Begin, x.State+1)
}

// Advance reads the next tokens of some sequences in one pass, and returns the logits after the last
// tokens of each, those of the first piece first, [sum of Logits, vocabulary]. With tensor parallelism all ranks
// make the same calls, and the first rank gets the logits. After an error of the device the contents of the pieces' blocks
// and states are undefined; sequences that read their tokens again, from 0, are not affected.
func (m *Model) Advance(ctx context.Context, g *Pages, pieces []Piece) (logits []float32, err error) {
	if g.m != m || g.layers == nil {
		return nil, errors.New("model: the pages are closed, or of another model")
	}
	if r := g.Adapters; r != nil && (r.m != m || r.layers == nil || r.err != nil) {
		return nil, errors.Join(errors.New("model: the adapter bank cannot be used; it is closed, or of another model"), r.err)
	}
	if err := g.check(pieces); err != nil {
		return nil, err
	}
	if size, ok := g.steps.size(pieces); ok {
		return g.steps.advance(ctx, size, pieces)
	}
	p := m.pass(ctx, autograd.Options{NoGrad: true})
	defer func() { err = errors.Join(err, p.Close()) }()
	in, err := g.inputs(p, pieces)
	if err == nil {
		err = g.keep(in, pieces)
	}
	if err != nil {
		return nil, err
	}
	out := m.whole(p, m.forward(p, in, nil).Value)
	if m.tp.Rank() > 0 {
		p.do(func() error { return m.st.Synchronize(ctx) })
		return nil, p.Err()
	}
	return p.read(out), p.Err()
}

// whole joins the columns of the logits that the ranks have computed.
func (m *Model) whole(p *pass, logits *aclnn.Tensor) *aclnn.Tensor {
	n := m.tp.Size()
	if n == 1 || p.Err() != nil {
		return logits
	}
	rows, columns := logits.Dim(0), logits.Dim(1)
	var joined *aclnn.Tensor
	p.queue(func(s *aclnn.Scope) {
		all := s.Tensor(logits.DType(), n, rows, columns)
		s.Do(func() error { return m.par.Tensor.AllGather(m.st, logits, all) })
		if s.Err() == nil {
			joined = s.Contiguous(all.Transpose(0, 1)).Reshape(rows, n*columns)
		}
	})
	return joined
}

// check refuses pieces that the pages cannot take.
func (g *Pages) check(pieces []Piece) error {
	if len(pieces) == 0 {
		return errors.New("model: no pieces; give at least one")
	}
	taken := map[int]bool{}
	for i, x := range pieces {
		switch end := x.From + len(x.Tokens); {
		case len(x.Tokens) == 0 || x.From < 0:
			return fmt.Errorf("model: piece %d has %d tokens from %d on; it needs at least one", i, len(x.Tokens), x.From)
		case len(x.Blocks)*g.sizes.Block < end:
			return fmt.Errorf("model: piece %d ends at token %d; its %d blocks hold %d each", i, end, len(x.Blocks), g.sizes.Block)
		case x.Long && g.m.Config.SwitchesAfter() == 0:
			return fmt.Errorf("model: piece %d is Long; sequences of this model have one rotation, whatever their length", i)
		case !x.Long && g.m.Config.SwitchesAfter() > 0 && end > g.m.Config.SwitchesAfter():
			return fmt.Errorf("model: piece %d ends at token %d; sequences of more than %d have another rotation: read this one from 0 again, with Piece.Long", i, end, g.m.Config.SwitchesAfter())
		case x.State < 0 || x.State >= g.sizes.States || taken[x.State]:
			return fmt.Errorf("model: piece %d has state %d of %d; another has it, or there is no such state", i, x.State, g.sizes.States)
		case x.Begin < 0 || x.Begin > g.sizes.States:
			return fmt.Errorf("model: piece %d has Begin %d; it must be a number of the %d states, or 0", i, x.Begin, g.sizes.States)
		}
		if err := g.m.Config.fitsCache(x.From + len(x.Tokens)); err != nil {
			return fmt.Errorf("model: piece %d: %w", i, err)
		}
		for _, b := range x.Blocks {
			if b < 0 || int(b) >= g.sizes.Blocks {
				return fmt.Errorf("model: piece %d has block %d of %d", i, b, g.sizes.Blocks)
			}
		}
		if err := g.m.known(x.Tokens); err != nil {
			return fmt.Errorf("model: piece %d: %w", i, err)
		}
		if x.Logits < 0 || x.Logits > len(x.Tokens) {
			return fmt.Errorf("model: piece %d has %d tokens, and asks for logits after %d of them", i, len(x.Tokens), x.Logits)
		}
		if x.Adapter < 0 || x.Adapter > 0 && (g.Adapters == nil || x.Adapter > g.Adapters.slots) {
			return fmt.Errorf("model: piece %d has adapter %d, which is not a slot of the adapter bank", i, x.Adapter)
		}
		taken[x.State] = true
	}
	return nil
}
