package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestListsOfTensors(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32, dtype.Int64} {
		for _, l := range kerneltest.Layouts {
			list := []*Tensor{tensorIn(t, d, l, []int64{2, 2}, 1, 5, 3, 0), tensorIn(t, d, l, []int64{2, 2}, 4, 2, 3, 1), tensor(t, d, []int64{2}, 2, 3)}
			out := tensorIn(t, d, l, []int64{2, 2})
			for name, want := range map[string][]float64{"AddN": {7, 10, 8, 4}, "Sum": {7, 10, 8, 4}, "SumV2": {7, 10, 8, 4}, "MaxN": {4, 5, 3, 3}, "MinN": {1, 2, 2, 0}} {
				run(t, name, args{"tensors": list, "out": out})
				require.Equal(t, want, values(out), "%s %v %v", name, d, l)
			}
		}
	}
	half := func(v float64) *Tensor { return tensor(t, dtype.BFloat16, []int64{1}, v) }
	out := half(0)
	run(t, "AddN", args{"tensors": []*Tensor{half(256), half(1), half(1)}, "out": out})
	require.Equal(t, []float64{258}, values(out), "rounded once")
	refused(t, nullPointer, "AddN", args{"out": out}, "tensors")
	refused(t, invalidParam, "MaxN", args{"tensors": []*Tensor{tensor(t, dtype.BFloat16, []int64{2}, 1)}, "out": out}, "broadcast")
}

func TestOneHotAndAddRelu(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int32, dtype.Int64} {
		one, none := tensor(t, d, []int64{1}, 5), tensor(t, d, []int64{1}, 2)
		self := tensor(t, dtype.Int64, []int64{3}, 1, -1, 0)
		out := tensor(t, d, []int64{3, 2})
		run(t, "OneHot", args{"self": self, "numClasses": 2, "onValue": one, "offValue": none, "axis": -1, "out": out})
		require.Equal(t, []float64{2, 5, 2, 2, 5, 2}, values(out), "%v", d)
		out = tensor(t, d, []int64{2, 3})
		run(t, "OneHot", args{"self": self, "numClasses": 2, "onValue": one, "offValue": none, "axis": 0, "out": out})
		require.Equal(t, []float64{2, 2, 5, 5, 2, 2}, values(out), "%v", d)
		refused(t, invalidParam, "OneHot", args{"self": self, "numClasses": 2, "onValue": one, "offValue": none, "axis": 2, "out": out}, "axis 2")

		sum := tensor(t, d, []int64{3})
		run(t, "AddRelu", args{"self": tensor(t, d, []int64{3}, 1, 2, 3), "other": tensor(t, d, []int64{3}, 0, -2, -1), "alpha": scalar(2), "out": sum})
		require.Equal(t, []float64{1, 0, 1}, values(sum), "%v", d)
		run(t, "InplaceAddRelu", args{"selfRef": sum, "other": tensor(t, d, []int64{1}, -1), "alpha": scalar(1)})
		require.Equal(t, []float64{0, 0, 0}, values(sum), "%v", d)
	}
}
