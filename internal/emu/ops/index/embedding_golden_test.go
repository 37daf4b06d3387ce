package index

import (
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

func TestGoldenEmbedding(t *testing.T) {
	for _, c := range golden.Cases(t, "embedding") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			w, dy := optest.GoldenTensor(t, c, c.DType, "w"), optest.GoldenTensor(t, c, c.DType, "dy")
			ids := c.Int64("ids")
			indices := optest.Tensor(t, dtype.Int64, []int64{int64(len(ids))}, optest.Floats(ids)...)
			y, dw := optest.Tensor(t, c.DType, dy.Shape), optest.Tensor(t, c.DType, w.Shape)
			optest.Run(t, "Embedding", optest.Args{"weight": w, "indices": indices, "out": y})
			optest.Run(t, "EmbeddingDenseBackward", optest.Args{"grad": dy, "indices": indices, "numWeights": w.Dim(0), "paddingIdx": -1, "out": dw})
			optest.RequireRMS(t, c, "y", y, 0)
			optest.RequireRMS(t, c, "dw", dw, optest.GoldenLimit(c.DType))
		})
	}
}
