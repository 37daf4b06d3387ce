package matmul

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestAddLora(t *testing.T) {
	d := dtype.Float16
	for _, l := range kerneltest.Layouts {
		for _, s := range []struct{ rows, in, rank, columns, first, width int64 }{{1, 1, 1, 1, 0, 1}, {5, 7, 3, 9, 2, 4}, {3, 16, 2, 8, 0, 8}} {
			for _, withA := range []bool{true, false} {
				what := fmt.Sprintf("%v %+v A %v", l, s, withA)
				const sets, layers, layer, scale = 3, 2, 1, 0.5
				in := s.in
				if !withA {
					in = s.rank
				}
				y, x := optest.Filled(t, 1, d, l, []int64{s.rows, s.columns}), optest.Filled(t, 2, d, l, []int64{s.rows, in})
				a, b := optest.Filled(t, 3, d, l, []int64{sets, layers, s.rank, s.in}), optest.Filled(t, 4, d, l, []int64{sets, layers, s.width, s.rank})
				var which []float64
				for r := range s.rows {
					which = append(which, float64((2*r+1)%sets))
				}
				out := optest.TensorIn(t, d, l, y.Shape)
				set := optest.Args{
					"y": y, "x": x, "weightB": b, "indices": optest.TensorIn(t, dtype.Int32, l, []int64{s.rows}, which...), "layerIdx": layer, "scale": scale,
					"yOffset": s.first, "ySliceSize": s.width, "out": out,
				}
				if withA {
					set["weightAOptional"] = a
				}
				optest.Run(t, "AddLora", set)
				want := optest.Values(y)
				for r := range s.rows {
					at := int64(which[r])*layers + layer
					row := optest.Values(x)[r*in:][:in]
					if withA {
						row = optest.Times(row, optest.Transposed(optest.Values(a)[at*s.rank*s.in:][:s.rank*s.in], int(s.in)), int(s.in))
					}
					for j, v := range optest.Times(row, optest.Transposed(optest.Values(b)[at*s.width*s.rank:][:s.width*s.rank], int(s.rank)), int(s.rank)) {
						want[r*s.columns+s.first+int64(j)] += scale * v
					}
				}
				optest.CloseTo(t, what, want, optest.Values(out), 4*optest.ResultLimit(d))
				set["yOffset"] = s.columns
				optest.Refused(t, op.TilingRefused, "AddLora", set, "layerIdx 1")
				set["yOffset"], set["indices"] = s.first, optest.Tensor(t, dtype.Int32, []int64{s.rows}, 9)
				assert.ErrorContains(t, optest.Execute(t, "AddLora", set), "index 9 of row 0")
			}
		}
	}
}
