package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/goascend/cann/examples/dataset"
)

// checkEval refuses evaluations that cannot be.
func (o options) checkEval() error {
	switch {
	case o.eval == "" && o.evalEvery > 0:
		return errors.New("-eval-every needs -eval with the samples")
	case o.evalEvery < 0 || o.evalBatches < 1:
		return errors.New("-eval-every and -eval-batches must be positive")
	case o.eval != "" && o.layout.PP > 1:
		return errors.New("-eval does not go with -pp")
	}
	return nil
}

// due reports whether the held-out samples are to be tried after a step: the last one, and every
// -eval-every steps.
func (o options) due(step int) bool {
	return o.eval != "" && (step == o.steps || o.evalEvery > 0 && step%o.evalEvery == 0)
}

// evaluate tells the mean loss over the first batches of the held-out samples, which are the same
// each time.
func (t *trainer) evaluate(ctx context.Context, out io.Writer) error {
	if err := t.heldOut.Seek(dataset.Position{}); err != nil {
		return err
	}
	sum, weight := 0.0, 0.0
	for range t.options.evalBatches {
		b, err := t.sampled(t.heldOut)
		if err != nil {
			return err
		}
		loss, err := t.model.Loss(ctx, b)
		if err != nil {
			return err
		}
		sum, weight = sum+loss*float64(b.Targets), weight+float64(b.Targets)
		if t.heldOut.Position().Epoch > 0 {
			break
		}
	}
	t.evalLoss = sum / weight
	_, err := fmt.Fprintf(out, "held-out loss %.4f, perplexity %.2f\n", t.evalLoss, math.Exp(t.evalLoss))
	return err
}
