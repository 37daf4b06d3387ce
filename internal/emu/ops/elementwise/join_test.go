package elementwise

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestListsOfTensors(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int64} {
		for _, l := range kerneltest.Layouts {
			list := []*op.Tensor{optest.TensorIn(t, d, l, []int64{2, 2}, 1, 5, 3, 0), optest.TensorIn(t, d, l, []int64{2, 2}, 4, 2, 3, 1), optest.Tensor(t, d, []int64{2}, 2, 3)}
			out := optest.TensorIn(t, d, l, []int64{2, 2})
			for name, want := range map[string][]float64{"AddN": {7, 10, 8, 4}, "Sum": {7, 10, 8, 4}, "SumV2": {7, 10, 8, 4}, "MaxN": {4, 5, 3, 3}, "MinN": {1, 2, 2, 0}} {
				tensors := list
				if name == "AddN" { // of one shape
					tensors = []*op.Tensor{list[0], list[1], optest.TensorIn(t, d, l, []int64{2, 2}, 2, 3, 2, 3)}
					optest.Refused(t, op.InvalidParam, "AddN", optest.Args{"tensors": list, "out": out})
				}
				if a := (optest.Args{"tensors": tensors, "out": out}); name == "Sum" && (d == dtype.BFloat16 || d == dtype.Int64) {
					optest.Refused(t, op.InvalidParam, name, a)
					continue
				}
				optest.Run(t, name, optest.Args{"tensors": tensors, "out": out})
				require.Equal(t, want, optest.Values(out), "%s %v %v", name, d, l)
			}
		}
	}
	half := func(v float64) *op.Tensor { return optest.Tensor(t, dtype.BFloat16, []int64{1}, v) }
	out := half(0)
	optest.Run(t, "AddN", optest.Args{"tensors": []*op.Tensor{half(256), half(1), half(1)}, "out": out})
	require.Equal(t, []float64{258}, optest.Values(out), "rounded once")
	optest.Refused(t, op.NullPointer, "AddN", optest.Args{"out": out}, "tensors")
	optest.Refused(t, op.InvalidParam, "MaxN", optest.Args{"tensors": []*op.Tensor{optest.Tensor(t, dtype.BFloat16, []int64{2}, 1)}, "out": out}, "broadcast")
}

func TestAddRelu(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int32, dtype.Int64} {
		sum := optest.Tensor(t, d, []int64{3})
		optest.Run(t, "AddRelu", optest.Args{"self": optest.Tensor(t, d, []int64{3}, 1, 2, 3), "other": optest.Tensor(t, d, []int64{3}, 0, -2, -1), "alpha": optest.Scalar(2), "out": sum})
		require.Equal(t, []float64{1, 0, 1}, optest.Values(sum), "%v", d)
		optest.Run(t, "InplaceAddRelu", optest.Args{"selfRef": sum, "other": optest.Tensor(t, d, []int64{1}, -1), "alpha": optest.Scalar(1)})
		require.Equal(t, []float64{0, 0, 0}, optest.Values(sum), "%v", d)
	}
}
