package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/meter"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/preference"
	"github.com/goascend/cann/examples/weights"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/ops"
)

// trainer is a model in training.
type trainer struct {
	options   options
	stream    *acl.Stream
	text      *corpus
	data      *dataset.Dataset // samples, in place of the text; nil without
	heldOut   *dataset.Dataset // of -eval
	evalLoss  float64          // of the evaluation after this step, or 0
	evaluated *preference.Result
	ranks     *model.Ranks
	model     *model.Model
	origin    string         // folder that the model was loaded from, if any
	adapter   *model.Adapter // of -lora and -adapter
	optimizer *model.Optimizer
	reference *model.Model       // of -loss dpo without an adapter
	compared  *preference.Result // of the step, with losses that compare answers
	pairs     comparison         // of the step
	graph     *model.Trainer     // of -graph
	saver     *checkpoint.Saver  // of -save
	last      int                // step of the last checkpoint
	best      *checkpoint.Saver  // of the checkpoint with the least held-out loss, with -save and -eval
	bestLoss  float64
	versions  map[string]string // for checkpoints
	resumed   string            // a line about the checkpoint that was resumed
	note      string            // a line about what was switched on
	losses    []float64
	soc       string // name of the chip; empty for the emulator
	seen      int    // positions of all batches so far, on all ranks
	reports   reports
	board     meter.Board // of rank 0
	began     time.Time   // the step
	tokens    int         // of the step, on all ranks
	// operations are those of the step on all ranks: model.Config.Operations.
	operations float64
}

func newTrainer(ctx context.Context, o options, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks, text *corpus) (t *trainer, err error) {
	if parts := ranks.Parts * o.micro; o.batch%parts != 0 {
		return nil, fmt.Errorf("-batch %d is not a multiple of the %d ranks with other data times -micro %d", o.batch, ranks.Parts, o.micro)
	}
	par := ranks.Parallel
	par.Sequence, par.Shard, par.MicroBatches = o.sequence, o.shard, o.micro
	par.Chunks, par.ZeroBubble = o.pipeline.chunks, o.pipeline.schedule == zeroBubble
	par.DistributedOptimizer = o.distributed
	par.ShardAlign, par.ShardRules = o.shardAlign, o.shardRules
	set, err := o.earlier(ctx, ranks.Group)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	m, err := newModel(ctx, o, set, st, reg, par, text.vocab)
	if err != nil {
		return nil, err
	}
	t = &trainer{options: o, stream: st, text: text, ranks: ranks, model: m}
	if !o.sequence && par.NeedsSequence(m.Config) {
		t.note = "sequence parallelism (-sp) is on, as experts need it with -tp\n"
	}
	switch {
	case !o.groupedNZ:
	case !m.Config.GroupedNZ:
		t.note += "this CANN has no products of FRACTAL_NZ weights in fp32: those of experts stay in ND\n"
	case !model.ReadsTransposedNZ():
		t.note += "this CANN is not known to read FRACTAL_NZ weights transposed: the gradients of experts read theirs in ND\n"
	}
	if o.folder() && !o.simulation.on() {
		if o.tokenizerFolder() == "" && (text.samples || text.vocab == 256 && text.file == nil) {
			t.note += fmt.Sprintf("%s has no tokenizer.json or tokenizer.model: tokens are the bytes of the text\n", o.model)
		}
		var warnings strings.Builder
		if err := (weights.Source{Folder: o.model, Strict: o.strict}).Inspect(&warnings); err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.note += warnings.String()
		t.origin = o.model
	} else if set != nil {
		t.origin = set.About().Data["model"]
	}
	if o.usualLR {
		o.lr = o.usual(t.origin)
		t.options = o
		t.note += fmt.Sprintf("the learning rate is %g; -lr sets another one\n", o.lr)
	}
	if left := (dataset.Report{LeftOut: text.left}).Left(); left != "" {
		t.note += fmt.Sprintf("%s: %s\n", text.source, left)
	}
	if text.samples {
		t.data, err = o.openSamples(text.source)
	}
	if err == nil && o.eval != "" {
		t.heldOut, err = o.openSamples(o.eval)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if t.reference, err = newReference(ctx, o, st, reg, par); err == nil {
		t.adapter, err = newAdapter(ctx, o, m)
	}
	if err == nil {
		t.optimizer, err = newOptimizer(o, m, t.adapter)
	}
	if err == nil {
		err = t.prepare(ctx, set)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// prepare makes what the options ask for beside model and optimiser.
func (t *trainer) prepare(ctx context.Context, set *checkpoint.Set) (err error) {
	if t.options.graph {
		if t.graph, err = model.NewTrainer(t.model, t.optimizer); err != nil {
			return err
		}
	}
	if set != nil {
		if err := model.Restore(ctx, set, t.optimizer); err != nil {
			return err
		}
		if err := t.seek(set); err != nil {
			return err
		}
		t.resumed = t.compare(set)
	}
	if t.ranks.Group.Rank() == 0 {
		if t.reports, err = t.options.openReports(); err != nil {
			return err
		}
	}
	if t.options.save == "" {
		return nil
	}
	group, err := job.Whole(ctx, t.ranks.Group, "checkpoint")
	if err != nil {
		return err
	}
	if t.saver, err = checkpoint.NewSaver(ctx, group, t.options.save, t.options.keep); err != nil || t.heldOut == nil {
		return err
	}
	return t.openBest(ctx, set != nil)
}

// Close waits for the checkpoint under way, and frees model and optimiser.
func (t *trainer) Close() error {
	return errors.Join(t.saver.Close(), t.best.Close(), t.graph.Close(), t.optimizer.Close(), t.adapter.Close(), t.reference.Close(), t.model.Close(), t.data.Close(), t.heldOut.Close(), t.reports.Close())
}

// step trains on one batch; each rank takes its rows of it.
func (t *trainer) step(ctx context.Context) (loss, norm float64, err error) {
	t.began = time.Now()
	n := t.optimizer.Steps()
	defer t.stream.Range(fmt.Sprintf("step %d", n)).End()
	var own model.Batch
	if t.options.compares() {
		t.pairs, err = t.paired(t.data)
		own = t.pairs.Batch
	} else if t.data != nil {
		own, err = t.sampled(t.data)
	} else {
		own, err = t.windows(n)
	}
	if err == nil {
		err = t.ranks.Meter.Begin()
	}
	if err != nil {
		return 0, 0, err
	}
	t.optimizer.Options.LR = t.options.rate(n)
	if t.graph != nil {
		loss, norm, err = t.graph.Step(ctx, own)
	} else if loss, err = t.gradients(ctx, own); err == nil && isNumber(loss) {
		norm, err = t.optimizer.Step(ctx)
	}
	if err == nil && isNumber(loss) && t.optimizer.Steps() == n { // gradients too large for fp16
		return loss, norm, nil
	}
	if err == nil && !(isNumber(loss) && isNumber(norm)) {
		err = fmt.Errorf("the loss is %v and the norm of the gradients %v; -detect-anomaly names the first layer with such numbers, and -lr or -clip may be too high", loss, norm)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("step %d: %w", n, err)
	}
	t.losses = append(t.losses, loss)
	t.tokens = len(own.Inputs) * t.ranks.Parts
	t.operations = t.model.Config.Operations(own.Sequences()...) * float64(t.ranks.Parts)
	t.seen += t.tokens
	return loss, norm, nil
}

func isNumber(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// train runs the steps with a progress line and prints a summary at the end. When stop ends, all
// ranks end after the same step; a requested checkpoint is saved then, too.
func (t *trainer) train(ctx, stop context.Context, out io.Writer) error {
	o := t.options
	start := time.Now()
	lines := progress{out: out, terminal: isTerminal(out)}
	first := t.optimizer.Steps()
	stopped := false
	for t.optimizer.Steps() < o.steps {
		var err error
		if stopped, err = t.agreed(ctx, stop.Err() != nil); err != nil {
			return err
		}
		if stopped {
			break
		}
		n := t.optimizer.Steps()
		loss, norm, err := t.step(ctx)
		if err != nil {
			return err
		}
		if t.optimizer.Steps() == n {
			lines.show("step %d: gradients too large for fp16 are dropped, the loss scale is %g now", n+1, t.model.LossScale())
			continue
		}
		n++
		rate := float64(t.seen) / time.Since(start).Seconds()
		lines.done, lines.of, lines.left = n, o.steps, time.Since(start)/time.Duration(n-first)*time.Duration(o.steps-n)
		e, err := t.measure(ctx, loss, norm)
		if err != nil {
			return err
		}
		lines.show("step %d/%d  loss %.4f  gradient norm %.3f  %.0f tokens/s%s%s", n, o.steps, loss, norm, rate, described(t.compared), e.spent())
		if t.evalLoss, t.evaluated = 0, nil; o.due(n) {
			lines.end()
			if err := t.evaluate(ctx, out); err != nil {
				return fmt.Errorf("-eval: %w", err)
			}
		}
		e.EvalLoss, e.EvalRewards = t.evalLoss, rewardsOf(t.evaluated)
		if err := t.reports.write(e); err != nil {
			return err
		}
		if t.saver != nil && o.saveEvery > 0 && n%o.saveEvery == 0 && n < o.steps {
			if err := t.save(ctx); err != nil {
				return err
			}
		}
	}
	lines.end()
	kept := "; no checkpoint was asked for (-save)"
	if t.saver != nil {
		if err := t.finish(ctx); err != nil {
			return err
		}
		kept = ", saved in " + t.saver.Saved()
		fmt.Fprintf(out, "step %d%s\n", t.optimizer.Steps(), kept)
	}
	took := time.Since(start)
	if o.export != "" {
		if err := t.exportResult(ctx); err != nil {
			return fmt.Errorf("-export: %w", err)
		}
		fmt.Fprintf(out, "exported to %s\n", o.export)
	}
	t.sumUp(out, took)
	if stopped {
		return &ended{step: t.optimizer.Steps(), kept: kept, cause: context.Cause(stop)}
	}
	return nil
}

// ended is the error of a training that got a request to end.
type ended struct {
	step  int
	kept  string
	cause error // nil if another rank got the request
}

func (e *ended) Error() string {
	why := "another rank got a request to end"
	if e.cause != nil {
		why = e.cause.Error()
	}
	return fmt.Sprintf("ended after step %d%s: %s", e.step, e.kept, why)
}

// Unwrap makes the error match context.Canceled.
func (e *ended) Unwrap() []error { return []error{context.Canceled, e.cause} }

// agreed reports whether any rank says yes, on all ranks.
func (t *trainer) agreed(ctx context.Context, yes bool) (bool, error) {
	if t.ranks.Group.Size() == 1 {
		return yes, nil
	}
	all, err := world.AllGather(ctx, t.ranks.Group, yes)
	return slices.Contains(all, true), err
}

// sumUp plots the losses and compares them with that of byte frequencies alone.
func (t *trainer) sumUp(out io.Writer, took time.Duration) {
	o := t.options
	if len(t.losses) == 0 {
		return
	}
	if len(t.losses) > 1 {
		fmt.Fprintln(out, asciigraph.Plot(t.losses, asciigraph.Height(10), asciigraph.Width(70), asciigraph.Caption(o.unit())))
	}
	devices := float64(t.ranks.Group.Size())
	fmt.Fprintf(out, "%.1f tokens/s on each device; copies of weights: %s a step on rank 0\n",
		float64(t.seen)/took.Seconds()/devices, mebibytes(float64(t.model.CopiedBytes())/float64(len(t.losses))))
	fmt.Fprintf(out, "%d steps in %v; loss %.4f over the last steps", len(t.losses), took.Round(time.Millisecond), t.recentLoss())
	if twice, rows := t.model.Overflows(); twice > 0 {
		fmt.Fprintf(out, "; %d steps computed twice, as experts got up to %d rows more than -expert-capacity has memory for", twice, rows)
	}
	if t.heldOut != nil {
		fmt.Fprintf(out, "; of -eval %v", t.heldOut.Report())
	}
	if t.data != nil {
		fmt.Fprintf(out, "; %v\n", t.data.Report())
		return
	}
	if t.text.file != nil { // nobody wants to read all of it for this
		fmt.Fprintln(out)
		return
	}
	fmt.Fprintf(out, ", %.4f for a unigram model of the same text\n", t.text.unigramLoss())
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

// mebibytes formats a number of bytes.
func mebibytes(n float64) string { return fmt.Sprintf("%.1f MiB", n/(1<<20)) }
