package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/goascend/cann/examples/checkpoint"
)

// compareWeights reports how far the weights of two folders of checkpoints are apart.
func compareWeights(a, b string, report io.Writer) (err error) {
	first, err := checkpoint.Open(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	second, err := checkpoint.Open(b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, second.Close()) }()
	weights, others := weightsIn(first), weightsIn(second)
	if !slices.EqualFunc(weights, others, func(x, y checkpoint.Part) bool { return x.String() == y.String() }) {
		return fmt.Errorf("%s has %d weights and %s %d, and their names and shapes differ: they are of different models", a, len(weights), b, len(others))
	}
	worst, name, equal := 0.0, "", 0
	for _, p := range weights {
		d, err := distance(first, second, p)
		if err != nil {
			return err
		}
		switch {
		case d == 0:
			equal++
		case d > worst || math.IsNaN(d):
			worst, name = d, " in "+p.Name
		}
	}
	_, err = fmt.Fprintf(report, "steps %d and %d: of %d weights %d are equal; the RMS of a weight's differences is at most %.3g%s\n",
		first.About().Step, second.About().Step, len(weights), equal, worst, name)
	return err
}

// weightsIn lists what a checkpoint has beside the state of the optimiser.
func weightsIn(set *checkpoint.Set) []checkpoint.Part {
	return slices.DeleteFunc(set.Tensors(), func(p checkpoint.Part) bool { return strings.HasPrefix(p.Name, "optimizer.") })
}

// distance is the root of the mean square of the differences of a weight.
func distance(a, b *checkpoint.Set, p checkpoint.Part) (float64, error) {
	x, err := a.Read(p)
	if err != nil {
		return 0, err
	}
	y, err := b.Read(p)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		sum += d * d
	}
	return math.Sqrt(sum / max(float64(len(x)), 1)), nil
}
