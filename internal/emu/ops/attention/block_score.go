package attention

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// blockScores lists the scores of blocks of keys from which MiniMax's sparse attention chooses.
var blockScores = op.Table{"MsaIndexScore": msaIndexScore}.Selects()

const (
	scoredBlock    = 128  // tokens of a block
	firstBlocks    = 1e30 // the score of the first blocks, above every other
	nearestBlocks  = 1e29 // the score of the blocks next to the query, above all products
	scoredMaskSize = 2048
)

// scoredBlocks holds the arguments of msaIndexScore.
type scoredBlocks struct {
	query, key, table, scale, lengths, keyLengths, start, score *op.Tensor
	layout                                                      string
	batch, heads, keyHeads, width, most                         int64 // most blocks of a sequence
	first, nearest                                              int64 // numbers of blocks that get a high score
	causal                                                      bool
}

// msaIndexScore computes the largest product of each query with a key of each block, of the keys that the query sees. Blocks at the
// beginning and next to the query get a high score instead; blocks without a visible key get the lowest number.
func msaIndexScore(c *op.Call) (op.Run, error) {
	s := &scoredBlocks{
		query: c.Tensor("query"), key: c.Tensor("key"), table: c.Optional("blockTableOptional"), scale: c.Optional("scaleOptional"), lengths: c.Optional("actualSeqQlenOptional"),
		keyLengths: c.Optional("actualSeqKlenOptional"), start: c.Tensor("startLoc"), score: c.Tensor("score"), layout: cmp.Or(c.Text("layoutKeyOptional"), "BBND"),
		first: c.Int("initBlocks"), nearest: c.Int("localBlocks"),
	}
	mask, mode := c.Optional("attenMaskOptional"), c.Int("sparseMode")
	if c.Err() != nil {
		return nil, c.Err()
	}
	s.checkTypes(c)
	if c.Err() != nil {
		return nil, c.Err()
	}
	switch mode {
	case 0:
		if mask != nil {
			c.Unfit("%v is given with sparseMode 0, which has no mask", mask)
		}
	case 3: // the lengths say all that the mask does, and the kernel does not read it
		if s.causal = true; mask == nil {
			c.Unfit("attenMask is null; sparseMode 3 needs a mask [%d,%d] with ones above the diagonal", scoredMaskSize, scoredMaskSize)
			break
		}
		c.Plain(mask)
		c.DType(mask, dtype.Int8)
		c.Fits(mask, []int64{scoredMaskSize, scoredMaskSize}, "a causal mask")
	default:
		c.Unfit("sparseMode is %d; use 0, or 3 for a causal mask that ends at the lower right corner", mode)
	}
	s.checkShapes(c)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error { return s.run(c.Name()) }, nil
}

func (s *scoredBlocks) checkTypes(c *op.Call) {
	c.Plain(s.query, s.key, s.start, s.score)
	c.DType(s.query, op.HalfTypes...)
	c.DType(s.score, dtype.Float32)
	if s.key.DType == dtype.Int8 {
		c.DType(s.query, dtype.Float16)
	} else {
		c.SameDType(s.query, s.key)
	}
	if s.scale != nil {
		c.Plain(s.scale)
		c.DType(s.scale, dtype.Float32)
	}
	for _, t := range []*op.Tensor{s.table, s.lengths, s.keyLengths, s.start} {
		if t != nil {
			c.Plain(t)
			c.DType(t, dtype.Int32)
		}
	}
}

func (s *scoredBlocks) checkShapes(c *op.Call) {
	packed := s.layout == "TND"
	if !slices.Contains([]string{"TND", "BBND", "BNBD"}, s.layout) {
		c.Unfit("layoutKey is %q; use TND, BBND or BNBD", s.layout)
	}
	if s.lengths == nil || s.keyLengths == nil {
		c.Unfit("actualSeqQlen is %v and actualSeqKlen %v; both must be given", s.lengths, s.keyLengths)
	}
	if s.query.Rank() != 3 || packed && s.key.Rank() != 3 || !packed && s.key.Rank() != 4 {
		c.Unfit("%v must be [tokens,heads,width], and %v have 3 dimensions in layout TND and 4 in BBND and BNBD", s.query, s.key)
	}
	if packed != (s.table == nil) {
		c.Unfit("blockTable is %v; layout TND has none, and BBND and BNBD need it", s.table)
	}
	if c.Err() == nil && (s.lengths.Rank() != 1 || s.lengths.Len() < 2) {
		c.Unfit("%v must hold a 0 and a sum for each sequence", s.lengths)
	}
	if c.Err() != nil {
		return
	}
	s.heads, s.width, s.batch = s.query.Dim(1), s.query.Dim(2), s.lengths.Dim(0)-1
	block, scales := int64(scoredBlock), []int64(nil)
	switch s.layout {
	case "TND":
		s.keyHeads = s.key.Dim(1)
		c.Fits(s.keyLengths, []int64{s.batch + 1}, "a 0 and a sum for each sequence")
		if scales = []int64{s.key.Dim(0), s.keyHeads}; s.scale != nil && s.keyHeads == 1 && s.scale.Rank() == 1 {
			scales = scales[:1]
		}
		if s.score.Rank() == 3 {
			s.most = s.score.Dim(2)
		}
		if s.most < 1 || s.most%16 != 0 {
			c.Unfit("%v must have a multiple of 16 columns, with one for each block of the longest sequence", s.score)
		}
	case "BBND":
		block, s.keyHeads = s.key.Dim(1), s.key.Dim(2)
	default:
		s.keyHeads, block = s.key.Dim(1), s.key.Dim(2)
	}
	if s.table != nil {
		c.Fits(s.keyLengths, []int64{s.batch}, "one for each sequence")
		if s.table.Rank() != 2 || s.table.Dim(0) != s.batch || s.table.Dim(1) < 1 {
			c.Unfit("%v must have a row of blocks for each of %d sequences", s.table, s.batch)
			return
		}
		s.most, scales = s.table.Dim(1), []int64{s.key.Dim(0), s.keyHeads, block}
	}
	if block != scoredBlock {
		c.Unfit("%v has blocks of %d tokens; use %d", s.key, block, scoredBlock)
	}
	if s.width < 1 || s.width%16 != 0 || s.width > 128 || s.key.Dim(-1) != s.width {
		c.Unfit("%v and %v must be as wide, a multiple of 16 up to 128", s.query, s.key)
	}
	if s.keyHeads < 1 || s.heads%s.keyHeads != 0 {
		c.Unfit("%v and %v: the heads of the keys must divide those of the queries", s.query, s.key)
	}
	if s.query.Dim(0) == 0 || s.table != nil && s.key.Dim(0) == 0 {
		c.Unfit("%v and %v must not be empty", s.query, s.key)
	}
	c.Fits(s.start, []int64{s.batch}, "the block of the query of each sequence")
	if quantised := s.key.DType == dtype.Int8; quantised != (s.scale != nil) {
		c.Unfit("scale is %v and %v; keys of int8 have a scale, and others none", s.scale, s.key)
	} else if quantised {
		c.Fits(s.scale, scales, "one for each head of each key")
	}
	if s.first < 0 || s.first > s.most || s.nearest < 0 || s.nearest > s.most {
		c.Unfit("initBlocks is %d and localBlocks %d; they must be 0 to %d, as many as a sequence has blocks", s.first, s.nearest, s.most)
	}
	c.Fits(s.score, []int64{s.heads, s.query.Dim(0), (s.most + 15) / 16 * 16}, "a number for each block, padded to sixteen")
}

func (s *scoredBlocks) run(name string) error {
	v, err := read(s.query, s.key, s.scale)
	if err != nil {
		return err
	}
	query, key, scale := v[0], v[1], v[2]
	var lists [4][]int64
	for i, t := range []*op.Tensor{s.lengths, s.keyLengths, s.start, s.table} {
		if t == nil {
			continue
		}
		if lists[i], err = elementwise.Indices(t.View()); err != nil {
			return err
		}
	}
	ends, keyEnds, start, table := lists[0], lists[1], lists[2], lists[3]
	columns := s.score.Dim(2)
	out := slices.Repeat([]float64{-math.MaxFloat32}, int(s.score.Len()))
	for b := range s.batch {
		from, n, keyFrom, keys := ends[b], ends[b+1]-ends[b], int64(0), keyEnds[b]
		most := s.most * scoredBlock
		if s.table == nil {
			keyFrom, keys = keyEnds[b], keyEnds[b+1]-keyEnds[b]
			most = min(most, s.key.Dim(0)-keyFrom)
		}
		if from < 0 || n < 0 || ends[b+1] > s.query.Dim(0) || keyFrom < 0 || keys < 0 || keys > most {
			return fmt.Errorf("%s: sequence %d has %d queries from %d on and %d keys, for %v, %v and %d blocks", name, b, n, from, keys, s.query, s.key, s.most)
		}
		for i := range n {
			visible := keys
			if s.causal {
				visible = max(0, min(keys, keys-n+i+1))
			}
			for block := range (keys + scoredBlock - 1) / scoredBlock {
				for h := range s.heads {
					to := &out[(h*s.query.Dim(0)+from+i)*columns+block]
					switch {
					case max(0, start[b]+1-s.nearest) <= block && block <= start[b]:
						*to = nearestBlocks
						continue
					case block < s.first:
						*to = firstBlocks
						continue
					}
					for j := block * scoredBlock; j < min((block+1)*scoredBlock, visible); j++ {
						row, err := s.keyRow(name, table, b, keyFrom, j, h/(s.heads/s.keyHeads))
						if err != nil {
							return err
						}
						product := dotted(query[((from+i)*s.heads+h)*s.width:][:s.width], key[row.key*s.width:][:s.width])
						if scale != nil {
							product *= scale[row.scale]
						}
						*to = max(*to, product)
					}
				}
			}
		}
	}
	return write([][]float64{out}, s.score)
}

// scoredKey is the place of a key, and of its scale.
type scoredKey struct{ key, scale int64 }

// keyRow returns the place of token j of a sequence of keys.
func (s *scoredBlocks) keyRow(name string, table []int64, b, from, j, head int64) (scoredKey, error) {
	if table == nil {
		at := (from+j)*s.keyHeads + head
		return scoredKey{at, at}, nil
	}
	page, token := table[b*s.most+j/scoredBlock], j%scoredBlock
	if page < 0 || page >= s.key.Dim(0) {
		return scoredKey{}, fmt.Errorf("%s: blockTable has %d for %v", name, page, s.key)
	}
	at := scoredKey{scale: (page*s.keyHeads+head)*scoredBlock + token}
	if at.key = at.scale; s.layout == "BBND" {
		at.key = (page*scoredBlock+token)*s.keyHeads + head
	}
	return at, nil
}
