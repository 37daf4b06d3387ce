package index

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestComplexScatterAndSelect(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Complex64, dtype.Complex128} {
		of := func(shape []int64, values ...complex128) *op.Tensor {
			x := optest.Tensor(t, d, shape)
			require.NoError(t, x.SetNumbers(values))
			return x
		}
		holds := func(x *op.Tensor, want ...complex128) {
			t.Helper()
			got, err := x.Numbers(x.Shape)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		self, src := of([]int64{2, 3}, 1, 2i, 3, 4, 5i, 6), of([]int64{2, 3}, 1i, 2, 3, 4i, 5, 6)
		index, out := optest.Tensor(t, dtype.Int64, []int64{2, 2}, 0, 2, 1, 1), of([]int64{2, 3}, 0, 0, 0, 0, 0, 0)
		a := optest.Args{"self": self, "dim": 1, "index": index, "src": src, "out": out}
		optest.Run(t, "ScatterAdd", a)
		holds(out, 1+1i, 2i, 5, 4, 5+9i, 6)
		optest.Run(t, "Scatter", a.With(optest.Args{"reduce": 1}))
		holds(out, 1+1i, 2i, 5, 4, 5+9i, 6)
		optest.Run(t, "Scatter", a.With(optest.Args{"reduce": 2}))
		holds(out, 1i, 2i, 6, 4, -100, 6)
		optest.Run(t, "ScatterValue", optest.Args{"self": self, "dim": 1, "index": index, "value": optest.Scalar(7.0), "reduce": 0, "out": out})
		holds(out, 7, 2i, 7, 4, 7, 6)
		rows := optest.Tensor(t, dtype.Int32, []int64{1, 2}, 1, 0)
		optest.Run(t, "ScatterAdd", optest.Args{"self": self, "dim": 0, "index": rows, "src": src, "out": out})
		holds(out, 1, 2+2i, 3, 4+1i, 5i, 6)

		optest.Run(t, "InplacePut", optest.Args{"selfRef": out, "index": optest.Tensor(t, dtype.Int64, []int64{3}, 5, 0, 5), "source": of([]int64{3}, 1, 1i, 1i), "accumulate": true})
		holds(out, 1+1i, 2+2i, 3, 4+1i, 5i, 7+1i)

		condition := optest.Tensor(t, dtype.Bool, []int64{2, 1}, 1, 0)
		optest.Run(t, "SWhere", optest.Args{"condition": condition, "self": self, "other": of([]int64{3}, 7i, 8, 9), "out": out})
		holds(out, 1, 2i, 3, 7i, 8, 9)
	}
}
