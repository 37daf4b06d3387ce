package index

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestOneHot(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int32, dtype.Int64} {
		one, none := optest.Tensor(t, d, []int64{1}, 5), optest.Tensor(t, d, []int64{1}, 2)
		self := optest.Tensor(t, dtype.Int64, []int64{3}, 1, -1, 0)
		out := optest.Tensor(t, d, []int64{3, 2})
		optest.Run(t, "OneHot", optest.Args{"self": self, "numClasses": 2, "onValue": one, "offValue": none, "axis": -1, "out": out})
		require.Equal(t, []float64{2, 5, 2, 2, 5, 2}, optest.Values(out), "%v", d)
		out = optest.Tensor(t, d, []int64{2, 3})
		optest.Run(t, "OneHot", optest.Args{"self": self, "numClasses": 2, "onValue": one, "offValue": none, "axis": 0, "out": out})
		require.Equal(t, []float64{2, 2, 5, 5, 2, 2}, optest.Values(out), "%v", d)
		optest.Refused(t, op.InvalidParam, "OneHot", optest.Args{"self": self, "numClasses": 2, "onValue": one, "offValue": none, "axis": 2, "out": out}, "axis 2")
	}
}
