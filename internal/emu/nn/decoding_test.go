package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestAdvanceStep(t *testing.T) {
	i := dtype.Int64
	for _, l := range kerneltest.Layouts {
		vector := func(v ...float64) *Tensor { return tensorIn(t, i, l, []int64{3}, v...) }
		tokens, positions, lengths, slots := vector(1, 2, 3), vector(0, 0, 9), vector(4, 7, 8), vector(-1, -1, -1)
		set := args{
			"inputTokens": tokens, "sampledTokenIds": tensorIn(t, i, l, []int64{2, 1}, 50, 60), "inputPositions": positions, "seqLens": lengths, "slotMapping": slots,
			"blockTables": tensorIn(t, i, l, []int64{3, 2}, 10, 11, 20, 21, 30, 31), "numSeqs": 3, "numQueries": 2, "blockSize": 4,
		}
		run(t, "AdvanceStep", set)
		assert.Equal(t, []float64{50, 60, 3}, values(tokens), "%v", l)
		assert.Equal(t, []float64{4, 7, 9}, values(positions), "%v", l)
		assert.Equal(t, []float64{5, 8, 8}, values(lengths), "%v", l)
		assert.Equal(t, []float64{11 * 4, 21*4 + 3, -1}, values(slots), "%v", l)
		assert.ErrorContains(t, execute(t, "AdvanceStep", set), "sequence 1 has 8 tokens")
		set["numSeqs"] = 2
		refused(t, tilingRefused, "AdvanceStep", set, "numSeqs 2")
		set["numSeqs"], set["seqLens"] = 3, nil
		refused(t, nullPointer, "AdvanceStep", set, "seqLens is null")
		set["seqLens"] = tensor(t, dtype.Int32, []int64{3}, 1)
		refused(t, invalidParam, "AdvanceStep", set, "seqLens int32")
	}
}

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
				y, x := filled(t, 1, d, l, []int64{s.rows, s.columns}), filled(t, 2, d, l, []int64{s.rows, in})
				a, b := filled(t, 3, d, l, []int64{sets, layers, s.rank, s.in}), filled(t, 4, d, l, []int64{sets, layers, s.width, s.rank})
				var which []float64
				for r := range s.rows {
					which = append(which, float64((2*r+1)%sets))
				}
				out := tensorIn(t, d, l, y.Shape)
				set := args{
					"y": y, "x": x, "weightB": b, "indices": tensorIn(t, dtype.Int32, l, []int64{s.rows}, which...), "layerIdx": layer, "scale": scale,
					"yOffset": s.first, "ySliceSize": s.width, "out": out,
				}
				if withA {
					set["weightAOptional"] = a
				}
				run(t, "AddLora", set)
				want := values(y)
				for r := range s.rows {
					at := int64(which[r])*layers + layer
					row := values(x)[r*in:][:in]
					if withA {
						row = timesOf(row, turned(values(a)[at*s.rank*s.in:][:s.rank*s.in], int(s.in)), int(s.in))
					}
					for j, v := range timesOf(row, turned(values(b)[at*s.width*s.rank:][:s.width*s.rank], int(s.rank)), int(s.rank)) {
						want[r*s.columns+s.first+int64(j)] += scale * v
					}
				}
				closeTo(t, what, want, values(out), 4*resultLimit(d))
				set["yOffset"] = s.columns
				refused(t, tilingRefused, "AddLora", set, "layerIdx 1")
				set["yOffset"], set["indices"] = s.first, tensor(t, dtype.Int32, []int64{s.rows}, 9)
				assert.ErrorContains(t, execute(t, "AddLora", set), "index 9 of row 0")
			}
		}
	}
}
