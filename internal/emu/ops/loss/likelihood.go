package loss

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// negativeLogLikelihood describes the loss −weight[target] · x[target] of rows x of
// log-probabilities.
type negativeLogLikelihood struct {
	Targets   kernel.View // integers: the shape of x without the class dimension
	Ignore    int64       // rows with this target are ignored
	Weights   kernel.View // per class; without data every class has weight 1
	Averaging rowwise.Averaging
}

// nllRows holds the targets as indices for Gather, and the weight of each row.
type nllRows struct {
	places  kernel.View // shape of x, with one class
	weights []float64
	release func()
}

func (l *negativeLogLikelihood) rows(x kernel.View, axis int) (*nllRows, error) {
	classes := x.Shape[axis]
	targets, err := elementwise.Indices(l.Targets)
	if err != nil {
		return nil, err
	}
	var weights []float32
	if l.Weights.Data != nil {
		if weights, err = elementwise.Floats(l.Weights); err != nil {
			return nil, err
		}
	}
	r := &nllRows{weights: make([]float64, len(targets))}
	for i, k := range targets {
		switch {
		case k == l.Ignore:
			targets[i] = 0
		case k < 0 || k >= classes:
			return nil, fmt.Errorf("target %d of row %d is out of range for %d classes", k, i, classes)
		case weights != nil:
			r.weights[i] = float64(weights[k])
		default:
			r.weights[i] = 1
		}
	}
	shape := slices.Clone(x.Shape)
	shape[axis] = 1
	r.places, r.release = kernel.TemporaryInt64(shape...)
	return r, indexing.SetInts(r.places, targets)
}

func (r *nllRows) total() (sum float64) {
	for _, w := range r.weights {
		sum += w
	}
	return sum
}

// Forward computes the loss, which has the shape of Targets without averaging and else one
// element. It sets total to the sum of the weights of the rows that are not ignored. The classes
// of x are along axis. The mean is NaN if the total is 0.
func (l *negativeLogLikelihood) Forward(loss, total, x kernel.View, axis int) error {
	r, err := l.rows(x, axis)
	if err != nil {
		return err
	}
	defer r.release()
	picked, release := kernel.TemporaryOf(x.DType, r.places.Shape...)
	defer release()
	if err := indexing.Gather(picked, x, axis, r.places); err != nil {
		return err
	}
	losses, err := elementwise.Doubles(picked)
	if err != nil {
		return err
	}
	sum := 0.0
	for i, w := range r.weights {
		value := &losses[i]
		// The values of an ignored row are arbitrary, even infinite.
		if w == 0 {
			*value = 0
		}
		*value *= -w
		sum += *value
	}
	if err := elementwise.Fill(total, elementwise.Real(r.total())); err != nil {
		return err
	}
	switch l.Averaging {
	case rowwise.NoAveraging:
		return elementwise.SetFloats(loss, losses)
	case rowwise.MeanAveraging:
		sum /= r.total()
	}
	return elementwise.Fill(loss, elementwise.Real(sum))
}

// Backward computes the gradient of x from grad, the gradient of the loss, and for the mean from
// the total of Forward.
func (l *negativeLogLikelihood) Backward(dx, grad, total kernel.View, axis int) error {
	r, err := l.rows(dx, axis)
	if err != nil {
		return err
	}
	defer r.release()
	if grad.Len() == 1 {
		grad = kernel.View{Data: grad.Data, DType: grad.DType}
	}
	if grad, err = grad.Broadcast(l.Targets.Shape); err != nil {
		return err
	}
	wide, err := elementwise.Doubles(grad)
	if err != nil {
		return err
	}
	divisor := 1.0
	if l.Averaging == rowwise.MeanAveraging {
		sums, err := elementwise.Floats(total)
		if err != nil {
			return err
		}
		divisor = float64(sums[0])
	}
	for i, w := range r.weights {
		if w == 0 {
			wide[i] = 0
		} else {
			wide[i] *= -w / divisor
		}
	}
	values, release := kernel.TemporaryOf(dx.DType, r.places.Shape...)
	defer release()
	if err := elementwise.SetFloats(values, wide); err != nil {
		return err
	}
	if err := elementwise.Zero(dx); err != nil {
		return err
	}
	return indexing.Scatter(indexing.ScatterSet, dx, values, axis, r.places)
}
