package attention

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestAdvanceStep(t *testing.T) {
	i := dtype.Int64
	for _, l := range kerneltest.Layouts {
		vector := func(v ...float64) *op.Tensor { return optest.TensorIn(t, i, l, []int64{3}, v...) }
		tokens, positions, lengths, slots := vector(1, 2, 3), vector(0, 0, 9), vector(4, 7, 8), vector(-1, -1, -1)
		set := optest.Args{
			"inputTokens": tokens, "sampledTokenIds": optest.TensorIn(t, i, l, []int64{2, 1}, 50, 60), "inputPositions": positions, "seqLens": lengths, "slotMapping": slots,
			"blockTables": optest.TensorIn(t, i, l, []int64{3, 2}, 10, 11, 20, 21, 30, 31), "numSeqs": 3, "numQueries": 2, "blockSize": 4,
		}
		optest.Run(t, "AdvanceStep", set)
		assert.Equal(t, []float64{50, 60, 3}, optest.Values(tokens), "%v", l)
		assert.Equal(t, []float64{4, 7, 9}, optest.Values(positions), "%v", l)
		assert.Equal(t, []float64{5, 8, 8}, optest.Values(lengths), "%v", l)
		assert.Equal(t, []float64{11 * 4, 21*4 + 3, -1}, optest.Values(slots), "%v", l)
		assert.ErrorContains(t, optest.Execute(t, "AdvanceStep", set), "sequence 1 has 8 tokens")
		set["numSeqs"] = 2
		optest.Refused(t, op.TilingRefused, "AdvanceStep", set, "numSeqs 2")
		set["numSeqs"], set["seqLens"] = 3, nil
		optest.Refused(t, op.NullPointer, "AdvanceStep", set, "seqLens is null")
		set["seqLens"] = optest.Tensor(t, dtype.Int32, []int64{3}, 1)
		optest.Refused(t, op.InvalidParam, "AdvanceStep", set, "seqLens int32")
	}
}

func TestAdvanceStepV2(t *testing.T) {
	i := dtype.Int64
	for _, l := range kerneltest.Layouts {
		tokens, positions, lengths, slots := optest.TensorIn(t, i, l, []int64{6}, 0), optest.TensorIn(t, i, l, []int64{6}, 4, 5, 1, 2, 7, 8), optest.TensorIn(t, i, l, []int64{6}, 0), optest.TensorIn(t, i, l, []int64{6}, 0)
		a := optest.Args{
			"inputTokens": tokens, "sampledTokenIds": optest.TensorIn(t, i, l, []int64{3, 2}, 50, -1, 60, 61, 70, 71), "inputPositions": positions, "seqLens": lengths, "slotMapping": slots,
			"blockTables": optest.TensorIn(t, i, l, []int64{3, 4}, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33), "specToken": optest.TensorIn(t, i, l, []int64{3, 1}, 5, 6, 7),
			"acceptedNum": optest.Tensor(t, i, []int64{3}, 0, 1, 1), "numSeqs": 3, "numQueries": 3, "blockSize": 4,
		}
		optest.Run(t, "AdvanceStepV2", a)
		assert.Equal(t, []float64{50, 5, 61, 6, 71, 7}, optest.Values(tokens), "%v", l)
		assert.Equal(t, []float64{5, 6, 3, 4, 9, 10}, optest.Values(positions), "%v", l)
		assert.Equal(t, []float64{6, 7, 4, 5, 10, 11}, optest.Values(lengths), "%v", l)
		assert.Equal(t, []float64{11*4 + 1, 11*4 + 2, 20*4 + 3, 21 * 4, 32*4 + 1, 32*4 + 2}, optest.Values(slots), "%v", l)
		far := a.With(optest.Args{"acceptedNum": optest.Tensor(t, i, []int64{3}, 0, 9, 9)})
		assert.ErrorContains(t, optest.Execute(t, "AdvanceStepV2", far), "sequence 2 has 19 tokens")
		optest.Refused(t, op.TilingRefused, "AdvanceStepV2", a.With(optest.Args{"numQueries": 2}), "numQueries 2")
		optest.Refused(t, op.TilingRefused, "AdvanceStepV2", a.With(optest.Args{"acceptedNum": optest.Tensor(t, i, []int64{2}, 0)}), "one for each sequence")
		optest.Refused(t, op.TilingRefused, "AdvanceStepV2", a.With(optest.Args{"inputTokens": optest.Tensor(t, i, []int64{3}, 0)}), "2 elements for each")
		optest.Refused(t, op.TilingRefused, "AdvanceStepV2", a.With(optest.Args{"specToken": optest.Tensor(t, i, []int64{3}, 0)}), "2 dimensions")
		optest.Refused(t, op.InvalidParam, "AdvanceStepV2", a.With(optest.Args{"seqLens": optest.Tensor(t, dtype.Int32, []int64{6}, 0)}), "dtype")
		optest.Refused(t, op.NullPointer, "AdvanceStepV2", a.With(optest.Args{"specToken": nil}), "specToken is null")
	}
}
