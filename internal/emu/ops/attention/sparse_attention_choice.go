package attention

import (
	"cmp"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// blockChoice has the parameters by which the probabilities of compressed blocks select longer
// blocks.
type blockChoice struct {
	block, stride, long int64 // in tokens: size and distance of compressed blocks, size of longer ones
	perBlock, span      int64 // sizes of a longer and of a compressed block in strides
	count               int64 // number of selected blocks
}

// newBlockChoice reads the parameters from the arguments.
func newBlockChoice(c *op.Call, stride int64) blockChoice {
	b := blockChoice{block: c.Int("compressBlockSize"), stride: stride, long: c.Int("selectBlockSize"), count: c.Int("selectBlockCount")}
	if stride <= 0 || b.block < stride || b.long < b.block || b.block%16 != 0 || stride%16 != 0 || b.long%stride != 0 {
		c.Invalid("compressBlockSize %d, the stride %d and selectBlockSize %d do not fit: multiples of 16 that do not fall from the stride to the selection, which is a multiple of the stride", b.block, stride, b.long)
		return b
	}
	b.perBlock, b.span = b.long/stride, b.block/stride
	return b
}

// best returns the selected blocks of each row of probabilities [rows, columns], best first. Blocks
// with a nonzero entry in always come before the others; always may be nil.
func (b blockChoice) best(probabilities []float64, rows, columns, blocks int64, always []int64) []int64 {
	best, score, order := make([]int64, 0, rows*b.count), make([]float64, blocks), make([]int64, blocks)
	for row := range rows {
		of := probabilities[row*columns : (row+1)*columns]
		for j := range blocks {
			order[j], score[j] = j, 0
			for m := range b.perBlock {
				for n := range b.span {
					if k := b.perBlock*j - m - n; k >= 0 && k < columns {
						score[j] += of[k]
					}
				}
			}
			if always != nil && always[row*blocks+j] != 0 {
				score[j] = math.MaxFloat32
			}
		}
		slices.SortStableFunc(order, func(a, b int64) int { return cmp.Compare(score[b], score[a]) })
		best = append(best, order[:b.count]...)
	}
	return best
}

// groupProbabilities returns the probabilities [rows, columns] of an attention whose query heads
// share their keys, summed over the heads.
func groupProbabilities(item attentionkernel.Attention) ([]float64, error) {
	group, rows, columns := item.Query.Shape[0], item.Query.Shape[1], item.Key.Shape[1]
	scores, releaseScores := kernel.Temporary(group, rows, columns)
	defer releaseScores()
	key := item.Key
	key.Shape, key.Strides = []int64{group, key.Shape[2], columns}, []int64{0, key.Strides[2], key.Strides[1]}
	if err := gemm.Gemm(gemm.Product{Out: scores, A: item.Query, B: key, Alpha: float64(item.Scale)}); err != nil {
		return nil, err
	}
	if item.Mask.Data != nil {
		lowest := elementwise.Const(elementwise.Real(-math.MaxFloat32))
		if err := elementwise.Map(elementwise.Where, dtype.Float32, scores, []elementwise.Input{elementwise.Of(item.Mask), lowest, elementwise.Of(scores)}); err != nil {
			return nil, err
		}
	}
	if err := rowwise.Softmax(scores, scores, 2); err != nil {
		return nil, err
	}
	sums, releaseSums := kernel.Temporary(rows, columns)
	defer releaseSums()
	if err := rowwise.Reduce(rowwise.ReduceSum, sums, scores, []int{0}, 0); err != nil {
		return nil, err
	}
	return elementwise.Doubles(sums)
}
