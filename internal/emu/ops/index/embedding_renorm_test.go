package index

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestEmbeddingRenorm(t *testing.T) {
	weight := optest.Tensor(t, dtype.Float32, []int64{3, 2}, 3, 4, 3, 4, .3, .4)
	optest.Run(t, "EmbeddingRenorm", optest.Args{"selfRef": weight, "indices": optest.Tensor(t, dtype.Int64, []int64{2, 2}, 0, 2, 2, 0), "maxNorm": 1.0, "normType": 2.0})
	optest.CloseTo(t, "rows", []float64{.6, .8, 3, 4, .3, .4}, optest.Values(weight), 1e-6)
	err := optest.Execute(t, "EmbeddingRenorm", optest.Args{"selfRef": weight, "indices": optest.Tensor(t, dtype.Int32, []int64{1}, 3), "maxNorm": 1.0, "normType": 2.0})
	require.ErrorContains(t, err, "index 3 is out of range")
}
