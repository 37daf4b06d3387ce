package loss

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/ctc"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
	"github.com/goascend/cann/internal/emu/op"
)

// sequenceLosses lists the losses that align sequences with shorter targets (connectionist
// temporal classification).
var sequenceLosses = op.Table{"CtcLoss": ctcLoss, "CtcLossBackward": ctcGrad}.Selects()

// ctcBatch holds what forward and backward both read: logProbs is [T, N, C], or [T, C] for one
// sequence.
type ctcBatch struct {
	logProbs, targets      *op.Tensor
	inputs, lengths        []int64
	times, batch, classes  int64
	blank, longest, places int64
	finite                 bool // zeroInfinity: the loss of a sequence without a path is 0
}

func readCTC(c *op.Call) ctcBatch {
	l := ctcBatch{logProbs: c.Tensor("logProbs"), targets: c.Tensor("targets"), inputs: c.Ints("inputLengths"), blank: c.Int("blank"), finite: c.Bool("zeroInfinity")}
	l.lengths = c.Ints(c.Either("targetlengths", "targetLengths"))
	c.Plain(l.logProbs, l.targets)
	c.DType(l.logProbs, op.RealTypes...)
	c.DType(l.targets, dtype.Int64, dtype.Int32, dtype.Bool, dtype.Float32, dtype.Float16)
	c.Rank(l.logProbs, 2, 3)
	c.Rank(l.targets, 1, 2)
	if c.Err() != nil {
		return l
	}
	l.times, l.batch, l.classes = l.logProbs.Shape[0], 1, l.logProbs.Dim(-1)
	if l.logProbs.Rank() == 3 {
		l.batch = l.logProbs.Shape[1]
	}
	if int64(len(l.inputs)) != l.batch || int64(len(l.lengths)) != l.batch {
		c.Invalid("inputLengths has %d and targetLengths %d elements; %v has %d sequences", len(l.inputs), len(l.lengths), l.logProbs, l.batch)
		return l
	}
	if l.blank < 0 || l.blank >= l.classes {
		c.Invalid("blank %d is not among the %d classes of %v", l.blank, l.classes, l.logProbs)
	}
	total := int64(0)
	for i, n := range l.lengths {
		if n < 0 || l.inputs[i] < 0 || l.inputs[i] > l.times {
			c.Invalid("sequence %d has %d times and %d labels; %v has %d times", i, l.inputs[i], n, l.logProbs, l.times)
		}
		l.longest = max(l.longest, n)
		total += n
	}
	switch {
	case l.targets.Rank() == 2 && (l.targets.Shape[0] != l.batch || l.targets.Shape[1] < l.longest):
		c.Invalid("%v must be [%d,%d] at least, a row for each sequence", l.targets, l.batch, l.longest)
	case l.targets.Rank() == 1 && l.targets.Len() != total:
		c.Invalid("%v must have the %d labels of all sequences", l.targets, total)
	}
	return l
}

// written checks the result with the log-probabilities of paths. CANN wants rows of a multiple of eight elements, except
// on the 950, and three dimensions also where the log-probabilities have two.
func (l *ctcBatch) written(c *op.Call, alpha *op.Tensor) {
	c.Plain(alpha)
	c.SameDType(l.logProbs, alpha)
	l.places = 2*l.longest + 1
	what := "an element for each place of a path"
	if c.Chip() != acceptance.Ascend950 {
		l.places = (l.places + 7) / 8 * 8
		what += ", in rows of a multiple of 8"
	}
	c.Shape(alpha, []int64{l.batch, l.times, l.places}, what)
}

// paths checks the tensor of the log-probabilities of paths, whose rows may be padded.
func (l *ctcBatch) paths(c *op.Call, alpha *op.Tensor) {
	c.Plain(alpha)
	c.SameDType(l.logProbs, alpha)
	if c.Err() != nil {
		return
	}
	rank := 3
	if l.logProbs.Rank() == 2 && alpha.Rank() == 2 {
		rank = 2
	}
	c.Rank(alpha, rank, rank)
	if c.Err() == nil {
		l.places = alpha.Dim(-1)
		if l.places < 2*l.longest+1 || alpha.Len() != l.batch*l.times*l.places {
			c.Invalid("%v must be [%d,%d,%d], or have longer rows", alpha, l.batch, l.times, 2*l.longest+1)
		}
	}
}

// sequences reads the arguments inside Run and calls f for each sequence, on several threads.
func (l *ctcBatch) sequences(f func(i int64, s ctc.Loss)) error {
	probs, err := elementwise.Doubles(l.logProbs.View())
	if err != nil {
		return err
	}
	labels, err := elementwise.Indices(l.targets.View())
	if err != nil {
		return err
	}
	place, all := int64(0), make([]ctc.Loss, l.batch)
	for i := range l.batch {
		if l.targets.Rank() == 2 {
			place = i * l.targets.Shape[1]
		}
		target := labels[place:][:l.lengths[i]]
		place += l.lengths[i]
		for _, k := range target {
			if k < 0 || k >= l.classes {
				return fmt.Errorf("label %d of sequence %d is out of range for %d classes", k, i, l.classes)
			}
		}
		all[i] = ctc.Loss{
			LogProbs: probs[min(i*l.classes, int64(len(probs))):], Times: int(l.inputs[i]), Classes: int(l.classes), Stride: int(l.batch * l.classes), Blank: int(l.blank), Target: target,
		}
	}
	thread.Parallel(l.batch, 1, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			f(i, all[i])
		}
	})
	return nil
}

// perSequence checks a tensor with one number per sequence.
func (l *ctcBatch) perSequence(c *op.Call, t *op.Tensor) {
	c.Plain(t)
	c.SameDType(l.logProbs, t)
	if t.Len() != l.batch || t.Rank() > 1 {
		c.Invalid("%v must have %d elements, one for each sequence", t, l.batch)
	}
}

func ctcLoss(c *op.Call) (op.Run, error) {
	l, loss, alpha := readCTC(c), c.Tensor("negLogLikelihoodOut"), c.Tensor("logAlphaOut")
	l.perSequence(c, loss)
	l.written(c, alpha)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		all, losses := make([]float64, l.batch*l.times*l.places), make([]float64, l.batch)
		for i := range all {
			all[i] = math.Inf(-1)
		}
		err := l.sequences(func(i int64, s ctc.Loss) {
			losses[i] = s.Forward(all[i*l.times*l.places:], int(l.places))
			if l.finite && math.IsInf(losses[i], 0) {
				losses[i] = 0
			}
		})
		if err != nil {
			return err
		}
		if err := elementwise.SetFloats(loss.View(), losses); err != nil {
			return err
		}
		return elementwise.SetFloats(alpha.View(), all)
	}, nil
}

func ctcGrad(c *op.Call) (op.Run, error) {
	l, dy, loss, alpha, out := readCTC(c), c.Tensor("gradOut"), c.Tensor("negLogLikelihood"), c.Tensor("logAlpha"), c.Tensor("out")
	l.perSequence(c, dy)
	l.perSequence(c, loss)
	l.paths(c, alpha)
	c.Same(l.logProbs, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		scales, err := elementwise.Doubles(dy.View())
		if err != nil {
			return err
		}
		losses, err := elementwise.Doubles(loss.View())
		if err != nil {
			return err
		}
		all, err := elementwise.Doubles(alpha.View())
		if err != nil {
			return err
		}
		grad := make([]float64, out.Len())
		err = l.sequences(func(i int64, s ctc.Loss) {
			own := all[i*l.times*l.places:]
			if l.finite && math.IsInf(s.Forward(make([]float64, len(own)), int(l.places)), 0) {
				return // its loss was set to 0, so its gradient is 0
			}
			s.Backward(grad[i*l.classes:], own, int(l.places), losses[i], scales[i])
		})
		if err != nil {
			return err
		}
		return elementwise.SetFloats(out.View(), grad)
	}, nil
}
