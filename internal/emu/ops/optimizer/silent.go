package optimizer

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// silentChecks lists the operators that monitor one number per training step, usually a gradient
// norm, to detect silent data corruption: wrong results without a reported error.
var silentChecks = op.Table{"SilentCheck": silentCheck, "SilentCheckV2": averageCheck}.Selects()

// Levels that a check assigns to a value.
const (
	normalValue     = 0
	faultyValue     = 1 // stops training, unless npuAsdDetect is 1
	suspiciousValue = 2
)

// silent is a check of one value against the previous ones.
type silent struct {
	*op.Call
	value, history, grad, step, result *op.Tensor

	goesOn bool // do not stop at a faulty value
	clears bool // zero the gradients, so that a faulty one does not reach other ranks
}

// judge returns the level of the value after checked earlier values, and the updated history.
type judge func(value float64, checked int64, history []float64) (level int64, next []float64)

// silentOf reads and checks the arguments that all versions share.
func silentOf(c *op.Call, history string) *silent {
	s := &silent{
		Call: c, value: c.Tensor("val"), history: c.Tensor(history), grad: c.Tensor("inputGradRef"), step: c.Tensor("stepRef"), result: c.Tensor("result"),
	}
	c.Plain(s.value, s.history, s.grad, s.step, s.result)
	c.DType(s.value, op.FloatTypes...)
	c.DType(s.grad, op.FloatTypes...)
	c.DType(s.step, dtype.Int64)
	c.DType(s.result, dtype.Int32)
	c.Shape(s.step, []int64{1}, "the number of checks before")
	c.Shape(s.result, []int64{1}, "the level")
	switch mode := c.Int("npuAsdDetect"); mode {
	case 1, 2, 3: // 3 also logs normal values on the device; the emulator only sets result
		s.goesOn = mode == 1
	default:
		c.Invalid("npuAsdDetect is %d; use 1 to go on after a faulty value, 2 or 3 to stop", mode)
	}
	return s
}

// run checks the value with j. A fault that stops the stream leaves history and step unchanged.
func (s *silent) run(j judge) (op.Run, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		value, err := elementwise.Doubles(s.value.View())
		if err != nil {
			return err
		}
		checked, err := elementwise.Indices(s.step.View())
		if err != nil {
			return err
		}
		history, err := elementwise.Doubles(s.history.View())
		if err != nil {
			return err
		}
		if checked[0] < 0 {
			return s.exception("stepRef is %d; it must not be negative", checked[0])
		}
		level, next := j(value[0], checked[0], history)
		if err := elementwise.Fill(s.result.View(), elementwise.Whole(level)); err != nil {
			return err
		}
		if level == faultyValue && !s.goesOn {
			if s.clears {
				if err := elementwise.Zero(s.grad.View()); err != nil {
					return err
				}
			}
			return s.exception("silent fault: val is %g after %d checks that left %s %g; resume from a checkpoint, or pass npuAsdDetect 1 to go on", value[0], checked[0], s.history.Name, history)
		}
		if err := elementwise.SetFloats(s.history.View(), next); err != nil {
			return err
		}
		return elementwise.Fill(s.step.View(), elementwise.Whole(checked[0]+1))
	}, nil
}

// exception returns the fault of a task on the AI-CPU, where CANN runs these operators.
func (s *silent) exception(format string, args ...any) error {
	return &rt.Fault{Code: int32(abi.ACL_ERROR_RT_AICPU_EXCEPTION), Text: fmt.Sprintf("%v: ", s.Call) + fmt.Sprintf(format, args...)}
}

// levelOf returns the level of a value, given whether it exceeds each level's threshold.
func levelOf(value float64, faulty, suspicious bool) int64 {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0) || faulty:
		return faultyValue
	case suspicious:
		return suspiciousValue
	}
	return normalValue
}

// silentCheck compares the value with fixed thresholds, and its change since the previous value
// with the range of all earlier values.
func silentCheck(c *op.Call) (op.Run, error) {
	s := silentOf(c, "sfdaRef")
	c.Shape(s.value, []int64{}, "one value")
	c.DType(s.history, dtype.Float32)
	c.Shape(s.history, []int64{3}, "the previous value, the least and the greatest")
	if s.grad.Len() == 0 && c.Err() == nil {
		return op.Nothing, nil
	}
	return s.run(limits{
		steps: c.Int("cMinSteps"), faulty: c.Float("cThreshL1"), suspicious: c.Float("cThreshL2"), faultyJump: c.Float("cCoeffL1"), suspiciousJump: c.Float("cCoeffL2"),
	}.judge)
}

// limits holds thresholds for values and, after some steps, for changes in units of the range.
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
	// Programs initialise the history with zeros. These are not observed values; counting them
	// would fix the minimum at 0 or below.
	if checked == 0 {
		return level, []float64{value, value, value}
	}
	// Comparisons, unlike min and max, keep NaN out of the range, as logs of devices show.
	if value < least {
		least = value
	}
	if value > greatest {
		greatest = value
	}
	return level, []float64{value, least, greatest}
}

// averageCheck compares the value with multiples of a moving average.
func averageCheck(c *op.Call) (op.Run, error) {
	s := silentOf(c, "avgRef")
	s.clears = true
	peak := c.Tensor("max") // the device only logs it
	c.Plain(peak)
	for _, t := range []*op.Tensor{s.value, peak, s.history} {
		c.DType(t, op.FloatTypes...)
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
	// A scalar tensor has empty lists, which CANN treats as nothing to check.
	if (s.grad.Rank() == 0 || s.grad.Len() == 0) && c.Err() == nil {
		return op.Nothing, nil
	}
	return s.run(m.judge)
}

// sameView refuses lists that do not match the view of the gradients.
func (s *silent) sameView() {
	for _, list := range []struct {
		name string
		want []int64
	}{{"dstSize", s.grad.Shape}, {"dstStride", s.grad.Strides}, {"dstOffset", []int64{s.grad.Offset}}} {
		have := s.Ints(list.name)
		if have == nil {
			s.Fail(op.NullPointer, "%s is null", list.name)
		}
		if !slices.Equal(have, list.want) {
			s.Invalid("%s is %s; it must be %s, as in %v", list.name, op.Dims(have), op.Dims(list.want), s.grad)
		}
	}
}

// multiples holds thresholds in units of the mean of all earlier values.
type multiples struct {
	faulty, suspicious float64
	beta               float64 // weight of the previous average at each step
}

func (m multiples) judge(value float64, checked int64, history []float64) (level int64, next []float64) {
	average := history[0]
	mean := average
	// The documentation gives (1-beta)^step, with which beta 0.99 would yield 1e12 times the
	// mean after six checks. The emulator uses 1-beta^step, the usual bias correction of a
	// moving average that starts at zero.
	if checked > 0 {
		mean /= 1 - math.Pow(m.beta, float64(checked))
	}
	return levelOf(value, value > m.faulty*mean, value > m.suspicious*mean), []float64{m.beta*average + (1-m.beta)*value}
}
