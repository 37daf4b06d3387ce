package attention

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// decoding are the operators that advance the state of a language model server by one step.
var decoding = op.Table{"AdvanceStep": advanceStep, "AdvanceStepV2": advanceSpeculation}.Selects()

// advanceStep makes the sampled tokens the next input: every sequence becomes one token longer, and
// its new token gets a slot in the blocks that the block table lists for the sequence.
func advanceStep(c *op.Call) (op.Run, error) {
	tokens, drawn, positions, lengths := c.Tensor("inputTokens"), c.Tensor("sampledTokenIds"), c.Tensor("inputPositions"), c.Tensor("seqLens")
	slots, blocks, sequences, queries, size := c.Tensor("slotMapping"), c.Tensor("blockTables"), c.Int("numSeqs"), c.Int("numQueries"), c.Int("blockSize")
	for _, t := range []*op.Tensor{tokens, drawn, positions, lengths, slots, blocks} {
		c.Plain(t)
		c.DType(t, dtype.Int64)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if queries < 1 || sequences <= queries || size < 1 {
		c.Unfit("numQueries %d and blockSize %d must be above 0, and numSeqs %d above numQueries", queries, size, sequences)
	}
	c.Fits(drawn, []int64{queries, 1}, "a token for each query")
	for _, t := range []*op.Tensor{tokens, positions, lengths, slots} {
		if t.Len() != sequences || t.Shape[0] != sequences {
			c.Unfit("%v must have an element for each of numSeqs %d", t, sequences)
		}
	}
	if blocks.Rank() != 2 || blocks.Shape[0] != sequences {
		c.Unfit("%v must have a row of blocks for each of numSeqs %d", blocks, sequences)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		read := make([][]int64, 6)
		for i, t := range []*op.Tensor{tokens, drawn, positions, lengths, slots, blocks} {
			var err error
			if read[i], err = elementwise.Indices(t.View()); err != nil {
				return err
			}
		}
		width := blocks.Shape[1]
		for i := range queries {
			at := read[3][i]
			if at < 0 || at/size >= width {
				return fmt.Errorf("sequence %d has %d tokens; its %d blocks of %d have no slot for the next", i, at, width, size)
			}
			read[0][i], read[2][i], read[3][i] = read[1][i], at, at+1
			read[4][i] = read[5][i*width+at/size]*size + at%size
		}
		for i, t := range []*op.Tensor{tokens, nil, positions, lengths, slots} {
			if t == nil {
				continue
			}
			if err := indexing.SetInts(t.View(), read[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// advanceSpeculation makes the last sampled token of each sequence the next input, followed by the
// tokens that are speculated after it. The sampled tokens end before the first -1.
func advanceSpeculation(c *op.Call) (op.Run, error) {
	tokens, drawn, positions, lengths, slots := c.Tensor("inputTokens"), c.Tensor("sampledTokenIds"), c.Tensor("inputPositions"), c.Tensor("seqLens"), c.Tensor("slotMapping")
	blocks, drafts, accepted, sequences, size := c.Tensor("blockTables"), c.Tensor("specToken"), c.Tensor("acceptedNum"), c.Int("numSeqs"), c.Int("blockSize")
	for _, t := range []*op.Tensor{tokens, drawn, positions, lengths, slots, blocks, drafts, accepted} {
		c.Plain(t)
		c.DType(t, dtype.Int64)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if sequences < 1 || sequences != c.Int("numQueries") || size < 1 {
		c.Unfit("numSeqs is %d, numQueries %d and blockSize %d; they must be above 0, and the first two equal", sequences, c.Int("numQueries"), size)
	}
	c.Matrix(drawn, blocks, drafts)
	if c.Err() != nil {
		return nil, c.Err()
	}
	each := 1 + drafts.Shape[1]
	for _, t := range []*op.Tensor{drawn, blocks, drafts} {
		if t.Shape[0] != sequences || t.Shape[1] == 0 && t != drafts {
			c.Unfit("%v must have a row for each of numSeqs %d", t, sequences)
		}
	}
	c.Fits(accepted, []int64{sequences}, "one for each sequence")
	for _, t := range []*op.Tensor{tokens, positions, lengths, slots} {
		if t.Len() != sequences*each {
			c.Unfit("%v must have %d elements for each of numSeqs %d, the last token and those speculated", t, each, sequences)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		read := make([][]int64, 5)
		for i, t := range []*op.Tensor{drawn, positions, blocks, drafts, accepted} {
			var err error
			if read[i], err = elementwise.Indices(t.View()); err != nil {
				return err
			}
		}
		width, pages := drawn.Shape[1], blocks.Shape[1]
		token, at, length, slot := make([]int64, sequences*each), read[1], make([]int64, sequences*each), make([]int64, sequences*each)
		for i := range sequences {
			row := read[0][i*width:][:width]
			last := row[width-1]
			if end := slices.Index(row, -1); end > 0 {
				last = row[end-1]
			}
			for j := range each {
				k := i*each + j
				token[k] = last
				if j > 0 {
					token[k] = read[3][i*(each-1)+j-1]
				}
				at[k] += read[4][i] + 1
				length[k] = at[k] + 1
				if at[k] < 0 || at[k]/size >= pages {
					return fmt.Errorf("sequence %d has %d tokens; its %d blocks of %d have no slot for the next", i, at[k], pages, size)
				}
				slot[k] = read[2][i*pages+at[k]/size]*size + at[k]%size
			}
		}
		for i, t := range []*op.Tensor{tokens, positions, lengths, slots} {
			if err := indexing.SetInts(t.View(), [][]int64{token, at, length, slot}[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
