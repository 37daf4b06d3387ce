package optimizer

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/emu/rt"
)

// silentCall has thresholds of 100 and 10, and change limits of 8 and 4 ranges from check 3 on.
func silentCall(t *testing.T, d, gradType dtype.Type, l kerneltest.Layout, val float64, step int, mode int) optest.Args {
	return optest.Args{
		"val": optest.Tensor(t, d, []int64{}, val), "inputGradRef": optest.TensorIn(t, gradType, l, []int64{3, 2}, 1, 2, 3, 4, 5, 6),
		"sfdaRef": optest.Tensor(t, dtype.Float32, []int64{3}, 6, 5, 6), "stepRef": optest.Tensor(t, dtype.Int64, []int64{1}, float64(step)), "cMinSteps": 3,
		"cThreshL1": 100.0, "cCoeffL1": 8.0, "cThreshL2": 50.0, "cCoeffL2": 4.0, "npuAsdDetect": mode, "result": optest.Tensor(t, dtype.Int32, []int64{1}, -1),
	}
}

// averageCall has thresholds of 100 and 10 times the mean.
func averageCall(t *testing.T, d, gradType dtype.Type, l kerneltest.Layout, val float64, step int, mode int) optest.Args {
	grad := optest.TensorIn(t, gradType, l, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	return optest.Args{
		"val": optest.Tensor(t, d, []int64{1}, val), "max": optest.Tensor(t, d, []int64{1}, val), "avgRef": optest.Tensor(t, d, []int64{1}, 0.5),
		"inputGradRef": grad, "stepRef": optest.Tensor(t, dtype.Int64, []int64{1}, float64(step)), "dstSize": grad.Shape, "dstStride": grad.Strides, "dstOffset": []int64{0},
		"cThreshL1": 100.0, "cThreshL2": 10.0, "beta1": 0.75, "npuAsdDetect": mode, "result": optest.Tensor(t, dtype.Int32, []int64{1}, -1),
	}
}

// state returns what a check writes: result, step, history, and the gradients.
func state(a optest.Args, history string) (all []float64) {
	for _, name := range []string{"result", "stepRef", history, "inputGradRef"} {
		all = append(all, optest.Values(a[name].(*op.Tensor))...)
	}
	return all
}

// stops asserts that a call fails with a fault of an AI-CPU task.
func stops(t *testing.T, name string, a optest.Args, texts ...string) {
	t.Helper()
	var f *rt.Fault
	require.ErrorAs(t, optest.Execute(t, name, a), &f)
	require.Equal(t, int32(abi.ACL_ERROR_RT_AICPU_EXCEPTION), f.Code)
	for _, s := range append(texts, "aclnn"+name) {
		require.Contains(t, f.Text, s)
	}
}

var silentGrads = []float64{1, 2, 3, 4, 5, 6}

func TestSilentCheck(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		val     float64
		step    int
		level   float64
		history []float64 // after the check
	}{
		{7, 0, 0, []float64{7, 7, 7}}, // the first value defines the range
		{5.5, 2, 0, []float64{5.5, 5, 6}},
		{7, 3, 0, []float64{7, 5, 7}},
		{4, 3, 0, []float64{4, 4, 6}},
		{50, 2, 0, []float64{50, 5, 50}}, // equal to the threshold does not exceed it
		{51, 2, 2, []float64{51, 5, 51}},
		{-51, 2, 2, []float64{-51, -51, 6}},
		{100, 2, 2, []float64{100, 5, 100}},
		{101, 2, 1, []float64{101, 5, 101}},
		{-101, 0, 1, []float64{-101, -101, -101}},
		{10, 3, 0, []float64{10, 5, 10}}, // a change of 4 ranges
		{11, 2, 0, []float64{11, 5, 11}}, // too early for change limits
		{11, 3, 2, []float64{11, 5, 11}},
		{1, 3, 2, []float64{1, 1, 6}}, // a change downwards
		{14, 3, 2, []float64{14, 5, 14}},
		{15, 3, 1, []float64{15, 5, 15}},
		{-3, 9, 1, []float64{-3, -3, 6}},
		{inf, 2, 1, []float64{inf, 5, inf}},
		{-inf, 2, 1, []float64{-inf, -inf, 6}},
		{nan, 2, 1, []float64{nan, 5, 6}},
	} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				for i, mode := range []int{1, 2, 3} {
					a := silentCall(t, d, op.FloatTypes[i], l, c.val, c.step, mode)
					if mode > 1 && c.level == faultyValue {
						stops(t, "SilentCheck", a, "silent fault", "checkpoint")
						assert.Empty(t, cmp.Diff(append([]float64{1, float64(c.step), 6, 5, 6}, silentGrads...), state(a, "sfdaRef"), cmpopts.EquateNaNs()), "%v %v %d %v", d, l, mode, c)
						continue
					}
					optest.Run(t, "SilentCheck", a)
					want := append([]float64{c.level, float64(c.step + 1)}, c.history...)
					assert.Empty(t, cmp.Diff(append(want, silentGrads...), state(a, "sfdaRef"), cmpopts.EquateNaNs()), "%v %v %d %v", d, l, mode, c)
				}
			}
		}
	}
}

// The first value is never a change, even if change limits apply from the start.
func TestSilentCheckFirst(t *testing.T) {
	a := silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 2, 0, 2).With(optest.Args{"sfdaRef": optest.Tensor(t, dtype.Float32, []int64{3}, 0), "cMinSteps": 0})
	optest.Run(t, "SilentCheck", a)
	assert.Equal(t, []float64{0, 1, 2, 2, 2}, state(a, "sfdaRef")[:5])
}

// With an empty range every nonzero change exceeds the limit.
func TestSilentCheckConstantHistory(t *testing.T) {
	for val, level := range map[float64]float64{2: 0, 2.5: 1} {
		a := silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, val, 3, 1).With(optest.Args{"sfdaRef": optest.Tensor(t, dtype.Float32, []int64{3}, 2, 2, 2)})
		optest.Run(t, "SilentCheck", a)
		assert.Equal(t, level, optest.Values(a["result"].(*op.Tensor))[0], "%g", val)
	}
}

func TestSilentCheckV2(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	cleared := make([]float64, len(silentGrads))
	for _, c := range []struct {
		val   float64
		step  int
		level float64
		avg   float64 // after the check
	}{
		{0, 0, 0, 0.375},
		{5, 0, 0, 1.625}, // the mean is 0.5
		{6, 0, 2, 1.875},
		{50, 0, 2, 12.875},
		{52, 0, 1, 13.375},
		{-400, 0, 0, -99.625}, // values are norms, so a negative one never exceeds a threshold
		{20, 1, 0, 5.375},     // the mean is 0.5 / (1 - 0.75) = 2
		{22, 1, 2, 5.875},
		{200, 1, 2, 50.375},
		{208, 1, 1, 52.375},
		{11, 2, 0, 3.125}, // the mean is 0.5 / (1 - 0.75²) = 8/7
		{12, 2, 2, 3.375},
		{116, 2, 1, 29.375},
		{5, 100, 0, 1.625},
		{6, 100, 2, 1.875},
		{inf, 3, 1, inf},
		{-inf, 0, 1, -inf},
		{nan, 0, 1, nan},
		{nan, 3, 1, nan},
	} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				for i, mode := range []int{1, 2, 3} {
					a := averageCall(t, d, op.FloatTypes[i], l, c.val, c.step, mode)
					if mode > 1 && c.level == faultyValue {
						stops(t, "SilentCheckV2", a, "silent fault", "checkpoint")
						assert.Empty(t, cmp.Diff(append([]float64{1, float64(c.step), 0.5}, cleared...), state(a, "avgRef"), cmpopts.EquateNaNs()), "%v %v %d %v", d, l, mode, c)
						continue
					}
					optest.Run(t, "SilentCheckV2", a)
					want := []float64{c.level, float64(c.step + 1), kerneltest.Round(d, c.avg)}
					assert.Empty(t, cmp.Diff(append(want, silentGrads...), state(a, "avgRef"), cmpopts.EquateNaNs()), "%v %v %d %v", d, l, mode, c)
				}
			}
		}
	}
}

// In consecutive steps, constant values are normal whatever the initial average was, and a
// growing value is detected at every step.
func TestSilentCheckV2History(t *testing.T) {
	a := averageCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 1, 0, 2).With(optest.Args{"cThreshL2": 2.0, "beta1": 0.99})
	for step := range 50 {
		optest.Run(t, "SilentCheckV2", a)
		require.Equal(t, []float64{0, float64(step + 1)}, state(a, "avgRef")[:2])
	}
	high := a.With(optest.Args{"val": optest.Tensor(t, dtype.Float32, []int64{1}, 4)})
	optest.Run(t, "SilentCheckV2", high)
	assert.Equal(t, []float64{2, 51}, state(high, "avgRef")[:2])
	// Comparisons with an average of NaN are always false.
	optest.Run(t, "SilentCheckV2", a.With(optest.Args{"npuAsdDetect": 1, "val": optest.Tensor(t, dtype.Float32, []int64{1}, math.NaN())}))
	optest.Run(t, "SilentCheckV2", a)
	assert.True(t, math.IsNaN(optest.Values(a["avgRef"].(*op.Tensor))[0]))
	assert.Equal(t, []float64{0, 53}, state(a, "avgRef")[:2])
}

// An empty tensor is not checked.
func TestSilentCheckEmpty(t *testing.T) {
	for _, shape := range [][]int64{{0}, {2, 0, 3}} {
		a := silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, math.NaN(), 4, 2).With(optest.Args{"inputGradRef": optest.Tensor(t, dtype.Float32, shape)})
		optest.Run(t, "SilentCheck", a)
		assert.Equal(t, []float64{-1, 4, 6, 5, 6}, state(a, "sfdaRef"))
	}
	for _, shape := range [][]int64{{0}, {2, 0, 3}, {}} {
		grad := optest.Tensor(t, dtype.Float32, shape, 7)
		a := averageCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, math.NaN(), 4, 2).With(optest.Args{"inputGradRef": grad, "dstSize": grad.Shape, "dstStride": grad.Strides})
		optest.Run(t, "SilentCheckV2", a)
		assert.Equal(t, append([]float64{-1, 4, 0.5}, optest.Values(grad)...), state(a, "avgRef"))
	}
	a := silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 5, 4, 2).With(optest.Args{"inputGradRef": optest.Tensor(t, dtype.Float32, []int64{}, 7)})
	optest.Run(t, "SilentCheck", a)
	assert.Equal(t, []float64{0, 5, 5, 5, 6, 7}, state(a, "sfdaRef"))
}

func TestSilentCheckRefusals(t *testing.T) {
	type refusal struct {
		change optest.Args
		code   int32
		text   string
	}
	one := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	both := []refusal{
		{optest.Args{"val": nil}, op.NullPointer, "val is null"},
		{optest.Args{"inputGradRef": nil}, op.NullPointer, "inputGradRef is null"},
		{optest.Args{"stepRef": nil}, op.NullPointer, "stepRef is null"},
		{optest.Args{"result": nil}, op.NullPointer, "result is null"},
		{optest.Args{"inputGradRef": one(dtype.Int32, 3, 2)}, op.InvalidParam, "inputGradRef int32"},
		{optest.Args{"stepRef": one(dtype.Int32, 1)}, op.InvalidParam, "stepRef int32"},
		{optest.Args{"stepRef": one(dtype.Int64, 2)}, op.InvalidParam, "number of checks"},
		{optest.Args{"result": one(dtype.Int64, 1)}, op.InvalidParam, "result int64"},
		{optest.Args{"result": one(dtype.Int32, 2)}, op.InvalidParam, "the level"},
		{optest.Args{"npuAsdDetect": 0}, op.InvalidParam, "npuAsdDetect is 0"},
		{optest.Args{"npuAsdDetect": 4}, op.InvalidParam, "npuAsdDetect is 4"},
	}
	for name, c := range map[string]struct {
		call optest.Args
		more []refusal
	}{
		"SilentCheck": {silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 1, 0, 1), []refusal{
			{optest.Args{"val": one(dtype.Float32, 1)}, op.InvalidParam, "val float32[1]"},
			{optest.Args{"val": one(dtype.Float64)}, op.InvalidParam, "val float64"},
			{optest.Args{"sfdaRef": nil}, op.NullPointer, "sfdaRef is null"},
			{optest.Args{"sfdaRef": one(dtype.Float16, 3)}, op.InvalidParam, "sfdaRef float16"},
			{optest.Args{"sfdaRef": one(dtype.Float32, 2)}, op.InvalidParam, "the previous value, the least and the greatest"},
		}},
		"SilentCheckV2": {averageCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 1, 0, 1), []refusal{
			{optest.Args{"val": one(dtype.Float32)}, op.InvalidParam, "val float32[]"},
			{optest.Args{"val": one(dtype.Int64, 1)}, op.InvalidParam, "val int64"},
			{optest.Args{"max": nil}, op.NullPointer, "max is null"},
			{optest.Args{"max": one(dtype.Float64, 1)}, op.InvalidParam, "max float64"},
			{optest.Args{"max": one(dtype.Float32, 2)}, op.InvalidParam, "max float32[2]"},
			{optest.Args{"avgRef": nil}, op.NullPointer, "avgRef is null"},
			{optest.Args{"avgRef": one(dtype.Int32, 1)}, op.InvalidParam, "avgRef int32"},
			{optest.Args{"avgRef": one(dtype.Float32, 1, 1)}, op.InvalidParam, "avgRef float32[1,1]"},
			{optest.Args{"dstSize": nil}, op.NullPointer, "dstSize is null"},
			{optest.Args{"dstStride": nil}, op.NullPointer, "dstStride is null"},
			{optest.Args{"dstOffset": nil}, op.NullPointer, "dstOffset is null"},
			{optest.Args{"dstSize": []int64{2, 3}}, op.InvalidParam, "dstSize is [2,3]; it must be [3,2]"},
			{optest.Args{"dstStride": []int64{1}}, op.InvalidParam, "dstStride is [1]; it must be [2,1]"},
			{optest.Args{"dstOffset": []int64{1}}, op.InvalidParam, "dstOffset is [1]; it must be [0]"},
			{optest.Args{"cThreshL1": 10.0}, op.InvalidParam, "the first must be greater"},
			{optest.Args{"cThreshL1": math.NaN()}, op.InvalidParam, "the first must be greater"},
			{optest.Args{"beta1": 0.0}, op.InvalidParam, "beta1 is 0"},
			{optest.Args{"beta1": 1.0}, op.InvalidParam, "beta1 is 1"},
			{optest.Args{"beta1": math.NaN()}, op.InvalidParam, "beta1 is NaN"},
		}},
	} {
		for _, r := range append(c.more, both...) {
			optest.Refused(t, r.code, name, c.call.With(r.change), r.text)
		}
		stops(t, name, c.call.With(optest.Args{"stepRef": optest.Tensor(t, dtype.Int64, []int64{1}, -1)}), "stepRef is -1")
	}
}
