package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// decoding are steps of programs that serve language models.
var decoding = table{"AdvanceStep": advanceStep, "AdvanceStepV2": advanceSpeculation, "AddLora": addLora}

// advanceStep feeds the tokens drawn last back as input: the sequences are a token longer,
// and every token gets a slot of the blocks that the table gives its sequence.
func advanceStep(c *Call) (Run, error) {
	tokens, drawn, positions, lengths := c.Tensor("inputTokens"), c.Tensor("sampledTokenIds"), c.Tensor("inputPositions"), c.Tensor("seqLens")
	slots, blocks, sequences, queries, size := c.Tensor("slotMapping"), c.Tensor("blockTables"), c.Int("numSeqs"), c.Int("numQueries"), c.Int("blockSize")
	for _, t := range []*Tensor{tokens, drawn, positions, lengths, slots, blocks} {
		c.plain(t)
		c.DType(t, dtype.Int64)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if queries < 1 || sequences <= queries || size < 1 {
		c.Unfit("numQueries %d and blockSize %d must be above 0, and numSeqs %d above numQueries", queries, size, sequences)
	}
	c.fits(drawn, []int64{queries, 1}, "a token for each query")
	for _, t := range []*Tensor{tokens, positions, lengths, slots} {
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
	return func(*Exec) error {
		read := make([][]int64, 6)
		for i, t := range []*Tensor{tokens, drawn, positions, lengths, slots, blocks} {
			var err error
			if read[i], err = kernel.Indices(t.View()); err != nil {
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
		for i, t := range []*Tensor{tokens, nil, positions, lengths, slots} {
			if t == nil {
				continue
			}
			if err := kernel.SetInts(t.View(), read[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// advanceSpeculation feeds back, for each sequence, the last token that was drawn and those
// that are speculated to come after it. What was drawn ends before the first -1.
func advanceSpeculation(c *Call) (Run, error) {
	tokens, drawn, positions, lengths, slots := c.Tensor("inputTokens"), c.Tensor("sampledTokenIds"), c.Tensor("inputPositions"), c.Tensor("seqLens"), c.Tensor("slotMapping")
	blocks, guesses, accepted, sequences, size := c.Tensor("blockTables"), c.Tensor("specToken"), c.Tensor("acceptedNum"), c.Int("numSeqs"), c.Int("blockSize")
	for _, t := range []*Tensor{tokens, drawn, positions, lengths, slots, blocks, guesses, accepted} {
		c.plain(t)
		c.DType(t, dtype.Int64)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if sequences < 1 || sequences != c.Int("numQueries") || size < 1 {
		c.Unfit("numSeqs is %d, numQueries %d and blockSize %d; they must be above 0, and the first two equal", sequences, c.Int("numQueries"), size)
	}
	c.matrix(drawn, blocks, guesses)
	if c.Err() != nil {
		return nil, c.Err()
	}
	each := 1 + guesses.Shape[1]
	for _, t := range []*Tensor{drawn, blocks, guesses} {
		if t.Shape[0] != sequences || t.Shape[1] == 0 && t != guesses {
			c.Unfit("%v must have a row for each of numSeqs %d", t, sequences)
		}
	}
	c.fits(accepted, []int64{sequences}, "one for each sequence")
	for _, t := range []*Tensor{tokens, positions, lengths, slots} {
		if t.Len() != sequences*each {
			c.Unfit("%v must have %d elements for each of numSeqs %d, the last token and those speculated", t, each, sequences)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		read := make([][]int64, 5)
		for i, t := range []*Tensor{drawn, positions, blocks, guesses, accepted} {
			var err error
			if read[i], err = kernel.Indices(t.View()); err != nil {
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
		for i, t := range []*Tensor{tokens, positions, lengths, slots} {
			if err := kernel.SetInts(t.View(), [][]int64{token, at, length, slot}[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// addLora adds the product with two thin matrices, which every row of x chooses, to some
// columns of y.
func addLora(c *Call) (Run, error) {
	y, x, b, indices, a, out := c.Tensor("y"), c.Tensor("x"), c.Tensor("weightB"), c.Tensor("indices"), c.Optional("weightAOptional"), c.Tensor("out")
	layer, first, width, scale := c.Int("layerIdx"), c.Int("yOffset"), c.Int("ySliceSize"), c.Float("scale")
	c.plain(y, x, b, indices, out)
	c.DType(y, dtype.Float16)
	c.SameDType(y, x, b, out)
	c.DType(indices, dtype.Int32)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if y.Rank() != 2 || x.Rank() != 2 || b.Rank() != 4 {
		c.Unfit("%v and %v must have 2 dimensions, and %v four", y, x, b)
		return nil, c.Err()
	}
	rows, columns, sets, layers, rank := y.Shape[0], y.Shape[1], b.Shape[0], b.Shape[1], b.Shape[3]
	c.fits(out, y.Shape, "as y")
	c.fits(indices, []int64{rows}, "a set of weights for each row of y")
	c.fits(b, []int64{sets, layers, width, rank}, "ySliceSize rows for each set and layer")
	if a != nil {
		c.plain(a)
		c.SameDType(y, a)
		c.fits(a, []int64{sets, layers, rank, x.Shape[1]}, "the rank of weightB and the columns of x")
		c.fits(x, []int64{rows, x.Shape[1]}, "as many rows as y")
	} else {
		c.fits(x, []int64{rows, rank}, "the rank of weightB, as weightA is null")
	}
	if layer < 0 || layer >= layers || first < 0 || width < 1 || first+width > columns {
		c.Unfit("layerIdx %d is not among %d layers, or the columns from %d on, %d of them, are not in %v", layer, layers, first, width, y)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := kernel.Copy(out.View(), y.View()); err != nil {
			return err
		}
		sets, err := kernel.Indices(indices.View())
		if err != nil {
			return err
		}
		thin, release := kernel.Temporary(1, rank)
		defer release()
		for i, set := range sets {
			if set < 0 || set >= b.Shape[0] {
				return fmt.Errorf("index %d of row %d is out of range for %d sets of weights", set, i, b.Shape[0])
			}
			row := x.View().Narrow(0, int64(i), 1)
			if a != nil {
				part := a.View().Select(0, set).Select(0, layer)
				if err := kernel.Gemm(kernel.Product{Out: thin, A: row, B: permuted(part, []int64{1, 0}), Alpha: 1}); err != nil {
					return err
				}
				row = thin
			}
			into, part := out.View().Narrow(0, int64(i), 1).Narrow(1, first, width), b.View().Select(0, set).Select(0, layer)
			if err := kernel.Gemm(kernel.Product{Out: into, A: row, B: permuted(part, []int64{1, 0}), Add: &into, Alpha: scale, Beta: 1}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
