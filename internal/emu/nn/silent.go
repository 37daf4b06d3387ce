package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/rt"
)

// silentChecks watch a number of every training step, mostly a norm of gradients, for what a
// device computes wrong without an error.
var silentChecks = table{"SilentCheck": silentCheck, "SilentCheckV2": averageCheck}

// What a check makes of a value.
const (
	normalValue     = 0
	faultyValue     = 1 // ends training, unless npuAsdDetect is 1
	suspiciousValue = 2
)

// silent is a check of one value against those before.
type silent struct {
	*Call
	value, history, grad, step, result *Tensor

	goesOn bool // whatever is found
	clears bool // the gradients, so that a faulty one does not reach other ranks
}

// judge gives the level of the value after checked others, and the history with it.
type judge func(value float64, checked int64, history []float64) (level int64, next []float64)

// silentOf reads and checks what all versions have.
func silentOf(c *Call, history string) *silent {
	s := &silent{
		Call: c, value: c.Tensor("val"), history: c.Tensor(history), grad: c.Tensor("inputGradRef"), step: c.Tensor("stepRef"), result: c.Tensor("result"),
	}
	c.plain(s.value, s.history, s.grad, s.step, s.result)
	c.DType(s.value, transformerTypes...)
	c.DType(s.grad, transformerTypes...)
	c.DType(s.step, dtype.Int64)
	c.DType(s.result, dtype.Int32)
	c.Shape(s.step, []int64{1}, "the number of checks before")
	c.Shape(s.result, []int64{1}, "the level")
	switch mode := c.Int("npuAsdDetect"); mode {
	case 1, 2, 3: // 3 also logs normal values on the device; here result tells them
		s.goesOn = mode == 1
	default:
		c.Invalid("npuAsdDetect is %d; use 1 to go on after a faulty value, 2 or 3 to stop", mode)
	}
	return s
}

// run checks the value by j. A fault that stops the stream leaves history and step alone.
func (s *silent) run(j judge) (Run, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		value, err := kernel.Doubles(s.value.View())
		if err != nil {
			return err
		}
		checked, err := kernel.Indices(s.step.View())
		if err != nil {
			return err
		}
		history, err := kernel.Doubles(s.history.View())
		if err != nil {
			return err
		}
		if checked[0] < 0 {
			return s.exception("stepRef is %d; it must not be negative", checked[0])
		}
		level, next := j(value[0], checked[0], history)
		if err := kernel.Fill(s.result.View(), kernel.Whole(level)); err != nil {
			return err
		}
		if level == faultyValue && !s.goesOn {
			if s.clears {
				if err := kernel.Zero(s.grad.View()); err != nil {
					return err
				}
			}
			return s.exception("silent fault: val is %g after %d checks that left %s %g; resume from a checkpoint, or pass npuAsdDetect 1 to go on", value[0], checked[0], s.history.name, history)
		}
		if err := kernel.SetFloats(s.history.View(), next); err != nil {
			return err
		}
		return kernel.Fill(s.step.View(), kernel.Whole(checked[0]+1))
	}, nil
}

// exception is the fault of a task on the AI-CPU, where CANN runs these operators.
func (s *silent) exception(format string, args ...any) error {
	return &rt.Fault{Code: int32(abi.ACL_ERROR_RT_AICPU_EXCEPTION), Text: fmt.Sprintf("%v: ", s.Call) + fmt.Sprintf(format, args...)}
}

// levelOf is the level of a value that is beyond the thresholds of the levels, or not.
func levelOf(value float64, faulty, suspicious bool) int64 {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0) || faulty:
		return faultyValue
	case suspicious:
		return suspiciousValue
	}
	return normalValue
}

// silentCheck compares the value with fixed thresholds, and its distance from the previous one
// with the range of all before.
func silentCheck(c *Call) (Run, error) {
	s := silentOf(c, "sfdaRef")
	c.Shape(s.value, []int64{}, "one value")
	c.DType(s.history, dtype.Float32)
	c.Shape(s.history, []int64{3}, "the previous value, the least and the greatest")
	if s.grad.Len() == 0 && c.Err() == nil {
		return nothing, nil
	}
	return s.run(limits{
		steps: c.Int("cMinSteps"), faulty: c.Float("cThreshL1"), suspicious: c.Float("cThreshL2"), faultyJump: c.Float("cCoeffL1"), suspiciousJump: c.Float("cCoeffL2"),
	}.judge)
}

// limits are thresholds of values, and, after some steps, of jumps in units of the range.
type limits struct {
	steps                      int64
	faulty, suspicious         float64
	faultyJump, suspiciousJump float64
}

func (l limits) judge(value float64, checked int64, history []float64) (level int64, next []float64) {
	previous, least, greatest := history[0], history[1], history[2]
	beyond := func(limit, jump float64) bool {
		return math.Abs(value) > limit || checked >= max(l.steps, 1) && math.Abs(value-previous) > jump*(greatest-least)
	}
	level = levelOf(value, beyond(l.faulty, l.faultyJump), beyond(l.suspicious, l.suspiciousJump))
	// Programs begin with zeros, which are no values: else none would be below the least.
	if checked == 0 {
		return level, []float64{value, value, value}
	}
	// Comparisons and not min and max: NaN stays out of the range, as logs of devices show.
	if value < least {
		least = value
	}
	if value > greatest {
		greatest = value
	}
	return level, []float64{value, least, greatest}
}

// averageCheck compares the value with multiples of a moving average.
func averageCheck(c *Call) (Run, error) {
	s := silentOf(c, "avgRef")
	s.clears = true
	peak := c.Tensor("max") // for the log of the device
	c.plain(peak)
	for _, t := range []*Tensor{s.value, peak, s.history} {
		c.DType(t, transformerTypes...)
		c.Shape(t, []int64{1}, "one value")
	}
	m := multiples{faulty: c.Float("cThreshL1"), suspicious: c.Float("cThreshL2"), beta: c.Float("beta1")}
	if !(m.faulty > m.suspicious) {
		c.Invalid("cThreshL1 is %g and cThreshL2 is %g; the first must be greater", m.faulty, m.suspicious)
	}
	if !(m.beta > 0 && m.beta < 1) {
		c.Invalid("beta1 is %g; it must be between 0 and 1", m.beta)
	}
	s.sameView()
	// The lists of a tensor without dimensions are empty, which CANN takes for nothing to check.
	if (s.grad.Rank() == 0 || s.grad.Len() == 0) && c.Err() == nil {
		return nothing, nil
	}
	return s.run(m.judge)
}

// sameView refuses lists that do not tell where the gradients lie.
func (s *silent) sameView() {
	for _, list := range []struct {
		name string
		want []int64
	}{{"dstSize", s.grad.Shape}, {"dstStride", s.grad.Strides}, {"dstOffset", []int64{s.grad.Offset}}} {
		have := s.Ints(list.name)
		if have == nil {
			s.Fail(nullPointer, "%s is null", list.name)
		}
		if !slices.Equal(have, list.want) {
			s.Invalid("%s is %s; it must be %s, as in %v", list.name, dims(have), dims(list.want), s.grad)
		}
	}
}

// multiples are thresholds in units of the mean of all values before.
type multiples struct {
	faulty, suspicious float64
	beta               float64 // weight of the average at each step
}

func (m multiples) judge(value float64, checked int64, history []float64) (level int64, next []float64) {
	average := history[0]
	mean := average
	// The documentation prints (1-beta)^step, by which beta 0.99 would give 1e12 times the mean
	// after six checks; 1-beta^step is what takes the zero at the start out of a moving average.
	if checked > 0 {
		mean /= 1 - math.Pow(m.beta, float64(checked))
	}
	return levelOf(value, value > m.faulty*mean, value > m.suspicious*mean), []float64{m.beta*average + (1-m.beta)*value}
}
