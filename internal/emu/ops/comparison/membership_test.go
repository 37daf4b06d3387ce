package comparison

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMembership(t *testing.T) {
	self := optest.Tensor(t, dtype.Int32, []int64{5}, 1, 3, 1, 0, 1)
	truth := optest.Tensor(t, dtype.Bool, []int64{5})
	optest.Run(t, "IsInTensorScalar", optest.Args{"element": self, "testElement": optest.Scalar(1), "invert": true, "out": truth})
	require.Equal(t, []float64{0, 1, 0, 1, 0}, optest.Values(truth))
	one := optest.Tensor(t, dtype.Bool, []int64{})
	for v, want := range map[int]float64{3: 1, 4: 0} {
		optest.Run(t, "IsInScalarTensor", optest.Args{"element": optest.Scalar(v), "testElements": self, "out": one})
		require.Equal(t, []float64{want}, optest.Values(one))
		optest.Run(t, "IsInScalarTensor", optest.Args{"element": optest.Scalar(v), "testElements": self, "invert": true, "out": one})
		require.Equal(t, []float64{1 - want}, optest.Values(one))
	}
}
