package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/qwen"
	"github.com/goascend/cann/ops"
)

// trainer is a model in training.
type trainer struct {
	options   options
	text      *corpus
	ranks     *qwen.Ranks
	model     *qwen.Model
	optimizer *qwen.Optimizer
	graph     *qwen.Trainer // of -graph
	losses    []float64
}

func newTrainer(ctx context.Context, o options, st *acl.Stream, reg *ops.Registry, ranks *qwen.Ranks, text *corpus) (*trainer, error) {
	if parts := ranks.Parts * o.micro; o.batch%parts != 0 {
		return nil, fmt.Errorf("-batch %d is no multiple of the %d ranks with other data times -micro %d", o.batch, ranks.Parts, o.micro)
	}
	par := ranks.Parallel
	par.Sequence, par.Ulysses, par.Shard, par.MicroBatches = o.sequence, o.ulysses, o.shard, o.micro
	m, err := newModel(ctx, o, st, reg, par, text.vocab)
	if err != nil {
		return nil, err
	}
	opt, err := qwen.NewOptimizer(m, qwen.AdamW{LR: o.lr, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, WeightDecay: 0.1, MaxNorm: 1})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	t := &trainer{options: o, text: text, ranks: ranks, model: m, optimizer: opt}
	if o.graph {
		if t.graph, err = qwen.NewTrainer(m, opt); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	if o.resume != "" {
		if err := qwen.Resume(ctx, o.resume, m, opt); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return t, nil
}

// Close frees model and optimiser.
func (t *trainer) Close() error {
	return errors.Join(t.graph.Close(), t.optimizer.Close(), t.model.Close())
}

// rate returns the learning rate of a step: linear warm-up, then a half cosine down to a tenth.
func (o options) rate(step int) float64 {
	if s := float64(step) + 1; s < o.warmup {
		return o.lr * s / o.warmup
	}
	done := (float64(step) - o.warmup) / math.Max(1, float64(o.steps)-o.warmup)
	return o.lr * (0.1 + 0.9*0.5*(1+math.Cos(math.Pi*math.Max(0, done))))
}

// step trains on one batch; each rank takes its rows of it.
func (t *trainer) step(ctx context.Context) (loss, norm float64, err error) {
	n := t.optimizer.Steps()
	in, labels, err := t.text.batch(t.options.seed, n, t.options.batch, t.options.seq)
	if err != nil {
		return 0, 0, err
	}
	batch := qwen.Batch{Size: t.options.batch, Length: t.options.seq, Inputs: in, Labels: labels, Targets: len(labels)}
	rows := batch.Size / t.ranks.Parts
	own := batch.Rows(t.ranks.Index*rows, rows)
	t.optimizer.Options.LR = t.options.rate(n)
	if t.graph != nil {
		loss, norm, err = t.graph.Step(ctx, own)
	} else if loss, err = t.model.Gradients(ctx, own); err == nil {
		norm, err = t.optimizer.Step(ctx)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("step %d: %w", n, err)
	}
	t.losses = append(t.losses, loss)
	return loss, norm, nil
}

// train runs the steps with a progress line and prints a summary at the end. An interrupt ends it
// early, but a requested checkpoint is still saved.
func (t *trainer) train(ctx context.Context, out io.Writer) error {
	o := t.options
	start, first := time.Now(), t.optimizer.Steps()
	lines := progress{out: out, terminal: isTerminal(out)}
	var interrupted error
	for t.optimizer.Steps() < o.steps {
		if interrupted = ctx.Err(); interrupted != nil {
			break
		}
		loss, norm, err := t.step(ctx)
		if interrupted = ctx.Err(); err != nil && interrupted != nil {
			break // interrupted in a step, before a weight changed
		}
		if err != nil {
			return err
		}
		n := t.optimizer.Steps()
		rate := float64((n-first)*o.batch*o.seq) / time.Since(start).Seconds()
		lines.show("step %d/%d  loss %.4f  gradient norm %.3f  %.0f tokens/s", n, o.steps, loss, norm, rate)
		if o.save != "" && o.saveEvery > 0 && n%o.saveEvery == 0 && n < o.steps {
			if err := t.save(ctx); err != nil {
				return err
			}
		}
	}
	lines.end()
	if o.save != "" {
		if err := t.save(ctx); err != nil {
			return err
		}
	}
	t.sumUp(out, time.Since(start))
	return interrupted
}

// save writes the checkpoint; an interrupt does not stop it.
func (t *trainer) save(ctx context.Context) error {
	return qwen.Save(context.WithoutCancel(ctx), t.options.save, t.model, t.optimizer, nil)
}

// sumUp plots the losses and compares them with that of byte frequencies alone.
func (t *trainer) sumUp(out io.Writer, took time.Duration) {
	if len(t.losses) == 0 {
		return
	}
	if len(t.losses) > 1 {
		fmt.Fprintln(out, asciigraph.Plot(t.losses, asciigraph.Height(10), asciigraph.Width(70), asciigraph.Caption("loss, nats per token")))
	}
	fmt.Fprintf(out, "%d steps in %v; loss %.4f over the last steps, %.4f for a unigram model of the same text\n",
		len(t.losses), took.Round(time.Millisecond), t.recentLoss(), t.text.unigramLoss())
}

// recentLoss returns the mean loss of the last ten steps, because that of one batch is noisy.
func (t *trainer) recentLoss() float64 {
	last := t.losses[max(0, len(t.losses)-10):]
	sum := 0.0
	for _, l := range last {
		sum += l
	}
	return sum / float64(len(last))
}
