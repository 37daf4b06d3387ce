package convolution

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// cubeMathType rounds the float32 factors of convolutions and of their gradients.
func TestCubeMathType(t *testing.T) {
	const fine = 1 + 1.0/(1<<11) + 1.0/(1<<13)
	one := func(value float64) any { return optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1}, value) }
	for mode, want := range map[int][2]float64{0: {fine, 1e5}, 1: {1 + 1.0/(1<<11), 1e5}, 2: {1 + 1.0/(1<<10), math.Inf(1)}, 3: {1 + 1.0/(1<<11), 1e5}} {
		for i, value := range []float64{fine, 1e5} {
			geometry := optest.Args{"stride": []int64{1, 1}, "padding": []int64{0, 0}, "dilation": []int64{1, 1}, "groups": 1, "outputPadding": []int64{0, 0}, "cubeMathType": mode}
			out := optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1})
			optest.Run(t, "Convolution", geometry.With(optest.Args{"input": one(value), "weight": one(1), "output": out}))
			assert.Equal(t, []float64{want[i]}, optest.Values(out), "mode %d of %v", mode, value)

			dx, dw, db := optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1}), optest.Tensor(t, dtype.Float32, []int64{1, 1, 1, 1}), optest.Tensor(t, dtype.Float32, []int64{1})
			optest.Run(t, "ConvolutionBackward", geometry.With(optest.Args{
				"gradOutput": one(1), "input": one(value), "weight": one(value), "biasSizes": []int64{1}, "outputMask": []bool{true, true, true},
				"gradInput": dx, "gradWeight": dw, "gradBias": db,
			}))
			assert.Equal(t, []float64{want[i]}, optest.Values(dx), "dx, mode %d of %v", mode, value)
			assert.Equal(t, []float64{want[i]}, optest.Values(dw), "dw, mode %d of %v", mode, value)
		}
	}
}

// cubeMathType rounds the float32 factors of every form of convolution.
func TestCubeMathTypeOfEachForm(t *testing.T) {
	const fine = 1 + 1.0/(1<<11) + 1.0/(1<<13)
	hf32, halved := 1+1.0/(1<<11), 1+1.0/(1<<10)
	ones := func(n int, value int64) []int64 { return slices.Repeat([]int64{value}, n) }
	type form struct {
		name, result string
		args         optest.Args
	}
	of := func(rank int, value float64) *op.Tensor { return optest.Tensor(t, dtype.Float32, ones(rank, 1), value) }
	formed := func(x *op.Tensor, format dtype.Format) *op.Tensor { x.Format = format; return x }
	forms := func() (all []form) {
		for n, format := range map[int]dtype.Format{1: dtype.NCL, 2: dtype.NCHW, 3: dtype.NCDHW} {
			for _, transposed := range []bool{false, true} {
				all = append(all, form{fmt.Sprintf("Convolution of %d, transposed %v", n, transposed), "output", optest.Args{
					"input": formed(of(n+2, fine), format), "weight": formed(of(n+2, 1), format), "stride": ones(n, 1), "padding": ones(n, 0), "dilation": ones(n, 1),
					"outputPadding": ones(n, 0), "groups": 1, "transposed": transposed, "output": formed(of(n+2, 0), format),
				}})
			}
		}
		all = append(all, form{"ConvDepthwise2d", "out", optest.Args{
			"self": formed(of(4, fine), dtype.NCHW), "weight": formed(of(4, 1), dtype.NCHW), "kernelSize": ones(2, 1), "stride": ones(2, 1), "padding": ones(2, 0), "dilation": ones(2, 1),
			"out": formed(of(4, 0), dtype.NCHW),
		}})
		all = append(all, form{"ConvTbc", "output", optest.Args{"self": of(3, fine), "weight": of(3, 1), "bias": of(1, 0), "output": of(3, 0)}})
		for _, result := range []string{"gradInput", "gradWeight"} {
			all = append(all, form{"ConvTbcBackward", result, optest.Args{
				"self": of(3, fine), "input": of(3, 1), "weight": of(3, 1), "bias": of(1, 0), "gradInput": of(3, 0), "gradWeight": of(3, 0), "gradBias": of(1, 0),
			}})
		}
		return all
	}
	for chip, wants := range map[acceptance.Chip]map[int]float64{
		acceptance.Ascend910B: {0: fine, 1: hf32, 2: halved, 3: hf32}, acceptance.Ascend310P: {1: halved, 2: halved},
	} {
		for mode, want := range wants {
			for _, f := range forms() {
				name, _, _ := strings.Cut(f.name, " ")
				if acceptance.Lacks(name, chip) {
					continue
				}
				optest.RunOn(t, chip, name, f.args.With(optest.Args{"cubeMathType": mode}))
				assert.Equal(t, []float64{want}, optest.Values(f.args[f.result].(*op.Tensor)), "%v mode %d: %s %s", chip, mode, f.name, f.result)
			}
		}
	}
}
