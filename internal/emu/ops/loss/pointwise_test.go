package loss

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// errorOf is a loss of one difference and its derivative.
type errorOf struct{ value, gradient func(d float64) float64 }

var errorsOf = map[string]errorOf{
	"MseLoss": {func(d float64) float64 { return d * d }, func(d float64) float64 { return 2 * d }},
	"L1Loss":  {math.Abs, sign},
	"SmoothL1Loss": {
		func(d float64) float64 {
			if math.Abs(d) < 1 {
				return d * d / 2
			}
			return math.Abs(d) - .5
		},
		func(d float64) float64 { return max(-1, min(d, 1)) },
	},
}

func sign(d float64) float64 {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

func TestPointwiseLosses(t *testing.T) {
	x, y, dy := []float64{-2, .5, 1, 3, .25, -1}, []float64{.5, .25, 1, -1, 0, 1.5}, []float64{1, -2, .5, 3, 2, 1}
	for name, e := range errorsOf {
		for reduction := range 3 {
			for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
				all, gradients, sum := make([]float64, len(x)), make([]float64, len(x)), 0.0
				for i := range x {
					all[i] = e.value(x[i] - y[i])
					sum += all[i]
					if gradients[i] = dy[i] * e.gradient(x[i]-y[i]); reduction == 1 {
						gradients[i] /= float64(len(x))
					}
				}
				shape, want := []int64{}, []float64{sum}
				switch reduction {
				case 0:
					shape, want = []int64{2, 3}, all
				case 1:
					want = []float64{sum / float64(len(x))}
				}
				tensor := func(v ...float64) any { return optest.Tensor(t, d, []int64{2, 3}, v...) }
				forward := optest.Args{"self": tensor(x...), "target": tensor(y...), "reduction": reduction}
				backward, out, into, grad := forward, "out", "gradInput", "gradOutput"
				switch name {
				case "SmoothL1Loss":
					out, grad = "result", "gradOut"
					forward["beta"] = 1.0
				case "MseLoss":
					into = "out"
				}
				got, back := optest.Tensor(t, d, shape), optest.Tensor(t, d, []int64{2, 3})
				optest.Run(t, name, forward.With(optest.Args{out: got}))
				optest.Run(t, name+"Backward", backward.With(optest.Args{grad: tensor(dy...), into: back}))
				optest.CloseTo(t, name, want, optest.Values(got), optest.ResultLimit(d))
				optest.CloseTo(t, name+"Backward", gradients, optest.Values(back), optest.ResultLimit(d))
				mixed := backward.With(optest.Args{grad: tensor(dy...), "self": optest.Tensor(t, dtype.Float32, []int64{2, 3}, x...), into: back})
				if name == "MseLoss" && d != dtype.Float32 {
					optest.Refused(t, op.InvalidParam, name+"Backward", mixed, "dtype")
				} else { // CANN promotes the types
					optest.Run(t, name+"Backward", mixed)
					optest.CloseTo(t, name+"Backward of two types", gradients, optest.Values(back), optest.ResultLimit(d))
				}
				if name == "MseLoss" {
					again := optest.Tensor(t, d, shape)
					if reduction > 0 { // along the first dimension
						again, want = optest.Tensor(t, d, []int64{3}), []float64{all[0] + all[3], all[1] + all[4], all[2] + all[5]}
						for i := range want {
							want[i] /= float64(3 - reduction)
						}
						optest.Refused(t, op.InvalidParam, "MseLossOut", forward.With(optest.Args{out: optest.Tensor(t, d, shape)}), "must have shape [3]")
					}
					optest.Run(t, "MseLossOut", forward.With(optest.Args{out: again}))
					optest.CloseTo(t, "MseLossOut", want, optest.Values(again), optest.ResultLimit(d))
				}
			}
		}
	}
}

func TestNegativeLogLikelihood(t *testing.T) {
	x, weight := []float64{-1, -2, -.5, -3, -.25, -4, -1.5, -1, -2}, []float64{1, .5, 2}
	classes := []float64{2, 1, 0} // the last one is ignored
	for reduction := range 3 {
		for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
			losses, total := []float64{-weight[2] * x[2], -weight[1] * x[4], 0}, weight[2]+weight[1]
			sum := losses[0] + losses[1]
			gradients := []float64{0, 0, -weight[2], 0, -weight[1], 0, 0, 0, 0}
			shape, want, dy := []int64{}, []float64{sum}, []float64{1.5}
			switch reduction {
			case 0:
				shape, want, dy, total = []int64{3}, losses, []float64{1.5, 1.5, 1.5}, 0
			case 1:
				want[0] /= total
				for i := range gradients {
					gradients[i] /= total
				}
			}
			for i := range gradients {
				gradients[i] *= 1.5
			}
			target := optest.Tensor(t, dtype.Int64, []int64{3}, classes...)
			out, sums, back := optest.Tensor(t, d, shape), optest.Tensor(t, d, []int64{}), optest.Tensor(t, d, []int64{3, 3})
			a := optest.Args{
				"self": optest.Tensor(t, d, []int64{3, 3}, x...), "target": target, "weight": optest.Tensor(t, d, []int64{3}, weight...),
				"reduction": reduction, "ignoreIndex": 0,
			}
			optest.Run(t, "NLLLoss", a.With(optest.Args{"out": out, "totalWeightOut": sums}))
			optest.CloseTo(t, "NLLLoss", want, optest.Values(out), optest.ResultLimit(d))
			if reduction > 0 {
				optest.CloseTo(t, "the total weight", []float64{total}, optest.Values(sums), optest.ResultLimit(d))
			}
			grad := optest.Tensor(t, d, shape, dy...)
			optest.Run(t, "NLLLossBackward", a.With(optest.Args{"gradOutput": grad, "totalWeight": sums, "out": back}))
			optest.CloseTo(t, "NLLLossBackward", gradients, optest.Values(back), optest.ResultLimit(d))

			// Images have the classes in their second dimension.
			if reduction == 0 {
				out, grad = optest.Tensor(t, d, []int64{3, 1, 1}), optest.Tensor(t, d, []int64{3, 1, 1}, dy...)
			}
			back = optest.Tensor(t, d, []int64{3, 3, 1, 1})
			a["self"], a["target"] = optest.Tensor(t, d, []int64{3, 3, 1, 1}, x...), optest.Tensor(t, dtype.Int64, []int64{3, 1, 1}, classes...)
			optest.Run(t, "NLLLoss2d", a.With(optest.Args{"out": out, "totalWeightOut": sums}))
			optest.CloseTo(t, "NLLLoss2d", want, optest.Values(out), optest.ResultLimit(d))
			optest.Run(t, "NLLLoss2dBackward", a.With(optest.Args{"gradOutput": grad, "totalWeight": sums, "out": back}))
			optest.CloseTo(t, "NLLLoss2dBackward", gradients, optest.Values(back), optest.ResultLimit(d))
		}
	}
}

// Distances of integers are exact. Integers have no mean.
func TestL1LossOfIntegers(t *testing.T) {
	x, y := optest.Tensor(t, dtype.Int64, []int64{2, 2}, 1<<40, -3, 5, 0), optest.Tensor(t, dtype.Int64, []int64{2}, -1, 4)
	out, sum := optest.Tensor(t, dtype.Int64, []int64{2, 2}), optest.Tensor(t, dtype.Int64, []int64{})
	optest.Run(t, "L1Loss", optest.Args{"self": x, "target": y, "reduction": 0, "out": out})
	assert.Equal(t, []float64{1<<40 + 1, 7, 6, 4}, optest.Values(out))
	optest.Run(t, "L1Loss", optest.Args{"self": x, "target": y, "reduction": 2, "out": sum})
	assert.Equal(t, []float64{1<<40 + 18}, optest.Values(sum))
	optest.Refused(t, op.InvalidParam, "L1Loss", optest.Args{"self": x, "target": y, "reduction": 1, "out": sum})
}
