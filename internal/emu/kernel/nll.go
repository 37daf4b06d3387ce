package kernel

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
)

// NegativeLogLikelihood describes the loss −weight[target] · x[target] of rows x of
// log-probabilities.
type NegativeLogLikelihood struct {
	Targets   View  // integers: the shape of x without the class dimension
	Ignore    int64 // rows with this target are ignored
	Weights   View  // per class; without data every class has weight 1
	Averaging Averaging
}

// nllRows holds the targets as indices for Gather, and the weight of each row.
type nllRows struct {
	places  View // shape of x, with one class
	weights []float64
	release func()
}

func (l *NegativeLogLikelihood) rows(x View, axis int) (*nllRows, error) {
	classes := x.Shape[axis]
	targets, err := Indices(l.Targets)
	if err != nil {
		return nil, err
	}
	var weights []float32
	if l.Weights.Data != nil {
		if weights, err = Floats(l.Weights); err != nil {
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
	r.places, r.release = temporary(dtype.Int64, shape)
	copy(r.places.ints(), targets)
	return r, nil
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
func (l *NegativeLogLikelihood) Forward(loss, total, x View, axis int) error {
	r, err := l.rows(x, axis)
	if err != nil {
		return err
	}
	defer r.release()
	picked, release := temporary(x.DType, r.places.Shape)
	defer release()
	if err := Gather(picked, x, axis, r.places); err != nil {
		return err
	}
	losses, releaseLosses := temporary(dtype.Float64, l.Targets.Shape)
	defer releaseLosses()
	picked.Shape, picked.Strides = losses.Shape, losses.Strides
	if err := Copy(losses, picked); err != nil {
		return err
	}
	sum := 0.0
	for i, w := range r.weights {
		value := &losses.doubles()[i]
		// The values of an ignored row are arbitrary, even infinite.
		if w == 0 {
			*value = 0
		}
		*value *= -w
		sum += *value
	}
	if err := Fill(total, Real(r.total())); err != nil {
		return err
	}
	switch l.Averaging {
	case NoAveraging:
		return Copy(loss, losses)
	case MeanAveraging:
		sum /= r.total()
	}
	return Fill(loss, Real(sum))
}

// Backward computes the gradient of x from grad, the gradient of the loss, and for the mean from
// the total of Forward.
func (l *NegativeLogLikelihood) Backward(dx, grad, total View, axis int) error {
	r, err := l.rows(dx, axis)
	if err != nil {
		return err
	}
	defer r.release()
	wide, release := temporary(dtype.Float32, l.Targets.Shape)
	defer release()
	if grad.Len() == 1 {
		grad = View{Data: grad.Data, DType: grad.DType, Shape: []int64{}}
	}
	if err := Copy(wide, grad); err != nil {
		return err
	}
	divisor := 1.0
	if l.Averaging == MeanAveraging {
		sums, err := Floats(total)
		if err != nil {
			return err
		}
		divisor = float64(sums[0])
	}
	for i, w := range r.weights {
		g := &wide.floats()[i]
		if w == 0 {
			*g = 0
		} else {
			*g = float32(-w * float64(*g) / divisor)
		}
	}
	values, releaseValues := temporary(dx.DType, r.places.Shape)
	defer releaseValues()
	wide.Shape, wide.Strides = values.Shape, values.Strides
	if err := Copy(values, wide); err != nil {
		return err
	}
	if err := Zero(dx); err != nil {
		return err
	}
	return Scatter(ScatterSet, dx, values, axis, r.places)
}
