package matmul

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestGroupedMatmulInt4(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	sizes := []int64{2, 0, 3}
	const e, rows, k, n = 3, 5, 32, 64
	for _, x4 := range []bool{false, true} {
		for _, blocks := range []int64{1, 4} {
			for _, nz := range []bool{false, true} {
				for _, packed := range []bool{false, true} {
					t.Run(fmt.Sprintf("x int4 %t/blocks %d/NZ %t/in int32 %t", x4, blocks, nz, packed), func(t *testing.T) {
						limit := 100
						if x4 {
							limit = 8
						}
						xv, wv := whole(r, rows*k, limit), whole(r, e*k*n, 8)
						shape := []int64{e, blocks, n}
						if x4 && blocks == 1 {
							shape = []int64{e, n}
						}
						scale, tokens := powers(r, int(e*blocks*n)), powers(r, rows)
						restored, bias := make([]float64, len(wv)), make([]float64, e*n)
						for at := range int64(len(wv)) {
							g, i, j := at/(k*n), at/n%k, at%n
							restored[at] = wv[at] * scale[(g*blocks+i/(k/blocks))*n+j]
							bias[g*n+j] += 8 * restored[at]
						}
						want := reference(xv, restored, k, n, nil, sizes...)
						for i := range want {
							want[i] *= tokens[i/n]
						}
						w := int4Tensor(t, []int64{e, k, n}, wv)
						if nz {
							w = int4Nz(t, []int64{e, k, n}, wv)
						}
						if packed {
							asInt32(w)
						}
						y := optest.Tensor(t, dtype.BFloat16, []int64{rows, n})
						a := optest.Args{
							"weight": single(w), "scaleOptional": single(packedScales(t, dtype.Uint64, shape, scale)),
							"perTokenScaleOptional": single(optest.Tensor(t, dtype.Float32, []int64{rows}, tokens...)),
							"groupListOptional":     listed(t, 1, sizes...), "groupListType": 1, "splitItem": 2, "out": single(y),
						}
						if x4 {
							x := int4Tensor(t, []int64{rows, k}, xv)
							if packed && nz {
								asInt32(x)
							}
							a["x"] = single(x)
						} else {
							a["x"] = single(optest.Tensor(t, dtype.Int8, []int64{rows, k}, xv...))
							a["biasOptional"] = single(optest.Tensor(t, dtype.Float32, []int64{e, n}, bias...))
						}
						optest.Run(t, "GroupedMatmulV5", a)
						near(t, dtype.BFloat16, want, optest.Values(y))
						if !x4 && blocks == 1 { // offsets of the weight
							offset, half := whole(r, e*n, 9), optest.Tensor(t, dtype.Float16, []int64{rows, n})
							for i := range offset {
								offset[i] /= 64
							}
							name := "GroupedMatmulV5"
							if nz {
								name = "GroupedMatmulWeightNz"
							}
							optest.Run(t, name, a.With(optest.Args{
								"offsetOptional":        single(optest.Tensor(t, dtype.Float32, shape, offset...)),
								"perTokenScaleOptional": single(optest.Tensor(t, dtype.Float32, []int64{rows, 1}, tokens...)), "out": single(half),
							}))
							shifted, row := slices.Clone(want), 0
							for g, size := range sizes {
								for range size {
									sum := 0.0
									for _, v := range xv[row*k : (row+1)*k] {
										sum += v
									}
									for j := range n {
										shifted[row*n+j] += sum * offset[g*n+j] * tokens[row]
									}
									row++
								}
							}
							near(t, dtype.Float16, shifted, optest.Values(half))
						}
						for name, has := range map[string]bool{"GroupedMatmulV4": x4 || !nz, "GroupedMatmulWeightNz": nz} {
							if has {
								again := optest.Tensor(t, dtype.BFloat16, []int64{rows, n})
								optest.Run(t, name, a.With(optest.Args{"out": single(again)}))
								near(t, dtype.BFloat16, want, optest.Values(again))
							}
						}
					})
				}
			}
		}
	}
}
