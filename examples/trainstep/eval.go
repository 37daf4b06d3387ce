package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"

	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl/world"
)

// checkEval refuses evaluations that cannot be.
func (o options) checkEval() error {
	switch {
	case o.evalEvery < 0 || o.evalBatches < 1:
		return errors.New("-eval-every and -eval-batches must be positive")
	}
	return nil
}

// due reports whether the held-out samples are to be tried after a step: the last one, and every
// -eval-every steps.
func (o options) due(step int) bool {
	return o.eval != "" && (step == o.steps || o.evalEvery > 0 && step%o.evalEvery == 0)
}

// evaluate reports the mean loss over the first batches of the held-out samples, which are the same
// each time.
func (t *trainer) evaluate(ctx context.Context, out io.Writer) error {
	if err := t.heldOut.Seek(dataset.Position{}); err != nil {
		return err
	}
	if t.options.compares() {
		return t.evaluatePairs(ctx, out)
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
	better, err := t.keepBest(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "held-out loss %.4f, perplexity %.2f%s\n", t.evalLoss, math.Exp(t.evalLoss), better)
	return err
}

// keepBest saves the checkpoint with the least held-out loss, and returns words about it.
func (t *trainer) keepBest(ctx context.Context) (better string, err error) {
	if t.best == nil || t.evalLoss >= t.bestLoss {
		return "", nil
	}
	if err := t.saveTo(ctx, t.best); err != nil {
		return "", err
	}
	t.bestLoss = t.evalLoss
	return ", the best so far", nil
}

// bestFolder is the folder in that of -save for the checkpoint with the least held-out loss.
const bestFolder = "best"

// openBest prepares to keep the best checkpoint. Its loss is in its description, for a run that goes
// on.
func (t *trainer) openBest(ctx context.Context, resumed bool) error {
	dir := filepath.Join(t.options.save, bestFolder)
	t.bestLoss = math.Inf(1)
	found, err := world.Share(ctx, t.ranks.Group, 0, func() (bool, error) { return resumed && checkpoint.Find(dir), nil })
	if err != nil {
		return err
	}
	if found {
		set, err := checkpoint.Agree(ctx, t.ranks.Group, dir)
		if err != nil {
			return err
		}
		t.bestLoss, err = strconv.ParseFloat(set.About().Data["eval loss"], 64)
		if err = errors.Join(err, set.Close()); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	group, err := job.Whole(ctx, t.ranks.Group, "best checkpoint")
	if err != nil {
		return err
	}
	t.best, err = checkpoint.NewSaver(ctx, group, dir, 1)
	return err
}
