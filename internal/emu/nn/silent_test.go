package nn

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
	"github.com/goascend/cann/internal/emu/rt"
)

// silentCall is a call with thresholds 100 and 10, jumps of 8 and 4 ranges, from check 3 on.
func silentCall(t *testing.T, d, gradType dtype.Type, l kerneltest.Layout, val float64, step int, mode int) args {
	return args{
		"val": tensor(t, d, []int64{}, val), "inputGradRef": tensorIn(t, gradType, l, []int64{3, 2}, 1, 2, 3, 4, 5, 6),
		"sfdaRef": tensor(t, dtype.Float32, []int64{3}, 6, 5, 6), "stepRef": tensor(t, dtype.Int64, []int64{1}, float64(step)), "cMinSteps": 3,
		"cThreshL1": 100.0, "cCoeffL1": 8.0, "cThreshL2": 50.0, "cCoeffL2": 4.0, "npuAsdDetect": mode, "result": tensor(t, dtype.Int32, []int64{1}, -1),
	}
}

// averageCall is a call with thresholds of 100 and 10 means.
func averageCall(t *testing.T, d, gradType dtype.Type, l kerneltest.Layout, val float64, step int, mode int) args {
	grad := tensorIn(t, gradType, l, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	return args{
		"val": tensor(t, d, []int64{1}, val), "max": tensor(t, d, []int64{1}, val), "avgRef": tensor(t, d, []int64{1}, 0.5),
		"inputGradRef": grad, "stepRef": tensor(t, dtype.Int64, []int64{1}, float64(step)), "dstSize": grad.Shape, "dstStride": grad.Strides, "dstOffset": []int64{0},
		"cThreshL1": 100.0, "cThreshL2": 10.0, "beta1": 0.75, "npuAsdDetect": mode, "result": tensor(t, dtype.Int32, []int64{1}, -1),
	}
}

// state is what a check writes: result, step, history, and then the gradients.
func state(a args, history string) (all []float64) {
	for _, name := range []string{"result", "stepRef", history, "inputGradRef"} {
		all = append(all, values(a[name].(*Tensor))...)
	}
	return all
}

// stops asserts that a call is a fault of an AI-CPU task.
func stops(t *testing.T, name string, a args, texts ...string) {
	t.Helper()
	var f *rt.Fault
	require.ErrorAs(t, execute(t, name, a), &f)
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
		history []float64 // after it
	}{
		{7, 0, 0, []float64{7, 7, 7}}, // the first one makes the range
		{5.5, 2, 0, []float64{5.5, 5, 6}},
		{7, 3, 0, []float64{7, 5, 7}},
		{4, 3, 0, []float64{4, 4, 6}},
		{50, 2, 0, []float64{50, 5, 50}}, // at a threshold is not beyond
		{51, 2, 2, []float64{51, 5, 51}},
		{-51, 2, 2, []float64{-51, -51, 6}},
		{100, 2, 2, []float64{100, 5, 100}},
		{101, 2, 1, []float64{101, 5, 101}},
		{-101, 0, 1, []float64{-101, -101, -101}},
		{10, 3, 0, []float64{10, 5, 10}}, // a jump of 4 ranges
		{11, 2, 0, []float64{11, 5, 11}}, // too early to see
		{11, 3, 2, []float64{11, 5, 11}},
		{1, 3, 2, []float64{1, 1, 6}}, // down
		{14, 3, 2, []float64{14, 5, 14}},
		{15, 3, 1, []float64{15, 5, 15}},
		{-3, 9, 1, []float64{-3, -3, 6}},
		{inf, 2, 1, []float64{inf, 5, inf}},
		{-inf, 2, 1, []float64{-inf, -inf, 6}},
		{nan, 2, 1, []float64{nan, 5, 6}},
	} {
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				for i, mode := range []int{1, 2, 3} {
					a := silentCall(t, d, transformerTypes[i], l, c.val, c.step, mode)
					if mode > 1 && c.level == faultyValue {
						stops(t, "SilentCheck", a, "silent fault", "checkpoint")
						assert.Empty(t, cmp.Diff(append([]float64{1, float64(c.step), 6, 5, 6}, silentGrads...), state(a, "sfdaRef"), cmpopts.EquateNaNs()), "%v %v %d %v", d, l, mode, c)
						continue
					}
					run(t, "SilentCheck", a)
					want := append([]float64{c.level, float64(c.step + 1)}, c.history...)
					assert.Empty(t, cmp.Diff(append(want, silentGrads...), state(a, "sfdaRef"), cmpopts.EquateNaNs()), "%v %v %d %v", d, l, mode, c)
				}
			}
		}
	}
}

// The first value is no jump, however early jumps count.
func TestSilentCheckFirst(t *testing.T) {
	a := silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 2, 0, 2).with(args{"sfdaRef": tensor(t, dtype.Float32, []int64{3}, 0), "cMinSteps": 0})
	run(t, "SilentCheck", a)
	assert.Equal(t, []float64{0, 1, 2, 2, 2}, state(a, "sfdaRef")[:5])
}

// A range of nothing makes every change a jump, and no change none.
func TestSilentCheckConstantHistory(t *testing.T) {
	for val, level := range map[float64]float64{2: 0, 2.5: 1} {
		a := silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, val, 3, 1).with(args{"sfdaRef": tensor(t, dtype.Float32, []int64{3}, 2, 2, 2)})
		run(t, "SilentCheck", a)
		assert.Equal(t, level, values(a["result"].(*Tensor))[0], "%g", val)
	}
}

func TestSilentCheckV2(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	cleared := make([]float64, len(silentGrads))
	for _, c := range []struct {
		val   float64
		step  int
		level float64
		avg   float64 // after it
	}{
		{0, 0, 0, 0.375},
		{5, 0, 0, 1.625}, // the average 0.5 itself
		{6, 0, 2, 1.875},
		{50, 0, 2, 12.875},
		{52, 0, 1, 13.375},
		{-400, 0, 0, -99.625}, // values are norms: one below zero is below everything
		{20, 1, 0, 5.375},     // 0.5 / (1 - 0.75) = 2
		{22, 1, 2, 5.875},
		{200, 1, 2, 50.375},
		{208, 1, 1, 52.375},
		{11, 2, 0, 3.125}, // 0.5 / (1 - 0.75²) = 8/7
		{12, 2, 2, 3.375},
		{116, 2, 1, 29.375},
		{5, 100, 0, 1.625},
		{6, 100, 2, 1.875},
		{inf, 3, 1, inf},
		{-inf, 0, 1, -inf},
		{nan, 0, 1, nan},
		{nan, 3, 1, nan},
	} {
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				for i, mode := range []int{1, 2, 3} {
					a := averageCall(t, d, transformerTypes[i], l, c.val, c.step, mode)
					if mode > 1 && c.level == faultyValue {
						stops(t, "SilentCheckV2", a, "silent fault", "checkpoint")
						assert.Empty(t, cmp.Diff(append([]float64{1, float64(c.step), 0.5}, cleared...), state(a, "avgRef"), cmpopts.EquateNaNs()), "%v %v %d %v", d, l, mode, c)
						continue
					}
					run(t, "SilentCheckV2", a)
					want := []float64{c.level, float64(c.step + 1), kerneltest.Round(d, c.avg)}
					assert.Empty(t, cmp.Diff(append(want, silentGrads...), state(a, "avgRef"), cmpopts.EquateNaNs()), "%v %v %d %v", d, l, mode, c)
				}
			}
		}
	}
}

// Steps follow one another: values that stay alike are normal whatever the average began with,
// and one that grows is told at every step.
func TestSilentCheckV2History(t *testing.T) {
	a := averageCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 1, 0, 2).with(args{"cThreshL2": 2.0, "beta1": 0.99})
	for step := range 50 {
		run(t, "SilentCheckV2", a)
		require.Equal(t, []float64{0, float64(step + 1)}, state(a, "avgRef")[:2])
	}
	high := a.with(args{"val": tensor(t, dtype.Float32, []int64{1}, 4)})
	run(t, "SilentCheckV2", high)
	assert.Equal(t, []float64{2, 51}, state(high, "avgRef")[:2])
	// An average that is NaN compares with nothing.
	run(t, "SilentCheckV2", a.with(args{"npuAsdDetect": 1, "val": tensor(t, dtype.Float32, []int64{1}, math.NaN())}))
	run(t, "SilentCheckV2", a)
	assert.True(t, math.IsNaN(values(a["avgRef"].(*Tensor))[0]))
	assert.Equal(t, []float64{0, 53}, state(a, "avgRef")[:2])
}

// What has no elements is not checked.
func TestSilentCheckEmpty(t *testing.T) {
	for _, shape := range [][]int64{{0}, {2, 0, 3}} {
		a := silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, math.NaN(), 4, 2).with(args{"inputGradRef": tensor(t, dtype.Float32, shape)})
		run(t, "SilentCheck", a)
		assert.Equal(t, []float64{-1, 4, 6, 5, 6}, state(a, "sfdaRef"))
	}
	for _, shape := range [][]int64{{0}, {2, 0, 3}, {}} {
		grad := tensor(t, dtype.Float32, shape, 7)
		a := averageCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, math.NaN(), 4, 2).with(args{"inputGradRef": grad, "dstSize": grad.Shape, "dstStride": grad.Strides})
		run(t, "SilentCheckV2", a)
		assert.Equal(t, append([]float64{-1, 4, 0.5}, values(grad)...), state(a, "avgRef"))
	}
	a := silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 5, 4, 2).with(args{"inputGradRef": tensor(t, dtype.Float32, []int64{}, 7)})
	run(t, "SilentCheck", a)
	assert.Equal(t, []float64{0, 5, 5, 5, 6, 7}, state(a, "sfdaRef"))
}

func TestSilentCheckRefusals(t *testing.T) {
	type refusal struct {
		change args
		code   int32
		text   string
	}
	one := func(d dtype.Type, shape ...int64) *Tensor { return tensor(t, d, shape, 1) }
	both := []refusal{
		{args{"val": nil}, nullPointer, "val is null"},
		{args{"inputGradRef": nil}, nullPointer, "inputGradRef is null"},
		{args{"stepRef": nil}, nullPointer, "stepRef is null"},
		{args{"result": nil}, nullPointer, "result is null"},
		{args{"inputGradRef": one(dtype.Int32, 3, 2)}, invalidParam, "inputGradRef int32"},
		{args{"stepRef": one(dtype.Int32, 1)}, invalidParam, "stepRef int32"},
		{args{"stepRef": one(dtype.Int64, 2)}, invalidParam, "number of checks"},
		{args{"result": one(dtype.Int64, 1)}, invalidParam, "result int64"},
		{args{"result": one(dtype.Int32, 2)}, invalidParam, "the level"},
		{args{"npuAsdDetect": 0}, invalidParam, "npuAsdDetect is 0"},
		{args{"npuAsdDetect": 4}, invalidParam, "npuAsdDetect is 4"},
	}
	for name, c := range map[string]struct {
		call args
		more []refusal
	}{
		"SilentCheck": {silentCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 1, 0, 1), []refusal{
			{args{"val": one(dtype.Float32, 1)}, invalidParam, "val float32[1]"},
			{args{"val": one(dtype.Float64)}, invalidParam, "val float64"},
			{args{"sfdaRef": nil}, nullPointer, "sfdaRef is null"},
			{args{"sfdaRef": one(dtype.Float16, 3)}, invalidParam, "sfdaRef float16"},
			{args{"sfdaRef": one(dtype.Float32, 2)}, invalidParam, "the previous value, the least and the greatest"},
		}},
		"SilentCheckV2": {averageCall(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, 1, 0, 1), []refusal{
			{args{"val": one(dtype.Float32)}, invalidParam, "val float32[]"},
			{args{"val": one(dtype.Int64, 1)}, invalidParam, "val int64"},
			{args{"max": nil}, nullPointer, "max is null"},
			{args{"max": one(dtype.Float64, 1)}, invalidParam, "max float64"},
			{args{"max": one(dtype.Float32, 2)}, invalidParam, "max float32[2]"},
			{args{"avgRef": nil}, nullPointer, "avgRef is null"},
			{args{"avgRef": one(dtype.Int32, 1)}, invalidParam, "avgRef int32"},
			{args{"avgRef": one(dtype.Float32, 1, 1)}, invalidParam, "avgRef float32[1,1]"},
			{args{"dstSize": nil}, nullPointer, "dstSize is null"},
			{args{"dstStride": nil}, nullPointer, "dstStride is null"},
			{args{"dstOffset": nil}, nullPointer, "dstOffset is null"},
			{args{"dstSize": []int64{2, 3}}, invalidParam, "dstSize is [2,3]; it must be [3,2]"},
			{args{"dstStride": []int64{1}}, invalidParam, "dstStride is [1]; it must be [2,1]"},
			{args{"dstOffset": []int64{1}}, invalidParam, "dstOffset is [1]; it must be [0]"},
			{args{"cThreshL1": 10.0}, invalidParam, "the first must be greater"},
			{args{"cThreshL1": math.NaN()}, invalidParam, "the first must be greater"},
			{args{"beta1": 0.0}, invalidParam, "beta1 is 0"},
			{args{"beta1": 1.0}, invalidParam, "beta1 is 1"},
			{args{"beta1": math.NaN()}, invalidParam, "beta1 is NaN"},
		}},
	} {
		for _, r := range append(c.more, both...) {
			refused(t, r.code, name, c.call.with(r.change), r.text)
		}
		stops(t, name, c.call.with(args{"stepRef": tensor(t, dtype.Int64, []int64{1}, -1)}), "stepRef is -1")
	}
}
