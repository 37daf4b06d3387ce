package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/preference"
	"github.com/goascend/cann/ops"
)

// Values of -loss.
const (
	crossEntropy = "cross-entropy"
	dpo          = "dpo"
	reward       = "reward"
)

// compares reports whether the loss compares two answers.
func (o options) compares() bool { return o.loss == dpo || o.loss == reward }

func (o options) checkLoss() error {
	switch {
	case o.loss != crossEntropy && !o.compares():
		return fmt.Errorf("-loss %q; use cross-entropy, dpo or reward", o.loss)
	case !o.compares():
		return nil
	case !o.folder():
		return fmt.Errorf("-loss %s needs a folder in -model: it begins with a model that has learnt to answer", o.loss)
	case o.data == "":
		return fmt.Errorf("-loss %s needs -data with samples that have a chosen and a rejected answer", o.loss)
	case o.loss == reward && o.sequence:
		return errors.New("-loss reward excludes -sp: the head is whole on every rank, and -sp divides the tokens between them")
	case o.loss == dpo:
		return o.dpo.Check()
	}
	return nil
}

// unit says what the loss is.
func (o options) unit() string {
	if o.compares() {
		return "loss, nats per pair"
	}
	return "loss, nats per token"
}

// chooseHead lets the model have the head that the loss needs.
func (o options) chooseHead(cfg *model.Config) error {
	if o.loss != reward {
		if cfg.Score {
			return fmt.Errorf("%s has a classifier, whose head gives a score and no tokens; -loss reward trains it", o.model)
		}
		return nil
	}
	read, err := model.ReadConfig(o.model + "/config.json")
	if err != nil {
		return err
	}
	if cfg.Score, cfg.NewScore = true, !read.Score; cfg.NewScore && o.lora.on() {
		return fmt.Errorf("%s has the head of a language model: -loss reward makes a new head, which -lora and -adapter would leave as it is; train without them, or take the folder of a classifier with one label", o.model)
	}
	return nil
}

// newReference loads a second copy of the model as the reference of -loss dpo. It returns nil for other losses, and with an adapter, which is switched off instead.
func newReference(ctx context.Context, o options, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
	if o.loss != dpo || o.lora.on() {
		return nil, nil
	}
	cfg, err := model.ReadConfig(o.model + "/config.json")
	if err != nil {
		return nil, err
	}
	cfg.GroupedNZ, cfg.Frozen = o.groupedNZ && readsNZ(dtypes[o.dtype]), true
	par.Sequence = par.Sequence || par.NeedsSequence(cfg)
	par.ExpertCapacity, par.DistributedOptimizer = 0, false
	m, err := model.NewParallel(st, reg, cfg, dtypes[o.dtype], par)
	if err != nil {
		return nil, fmt.Errorf("the reference of -loss dpo: %w", err)
	}
	if err := m.Load(ctx, o.model); err != nil {
		return nil, errors.Join(fmt.Errorf("the reference of -loss dpo: %w", err), m.Close())
	}
	return m, nil
}

// comparison is a batch of pairs, of which this rank has some rows.
type comparison struct {
	model.Batch
	all     int       // rows of all ranks
	tokens  int       // of all chosen answers
	margins []float64 // of all pairs
}

// paired makes a batch of the next pairs.
func (t *trainer) paired(data *dataset.Dataset) (c comparison, err error) {
	o := t.options
	rows, margins, err := data.Pairs(o.batch, 2*max(o.layout.CP, 1)*max(o.layout.TP, 1))
	if err != nil {
		return c, err
	}
	if at := slices.IndexFunc(margins, func(m float64) bool { return m != 0 }); o.loss == dpo && at >= 0 {
		return c, fmt.Errorf("-loss dpo: a pair has the margin %g, which only -loss reward takes; leave the margins out", margins[at])
	}
	c.all, c.margins = len(rows), margins
	for i := 0; i < len(rows); i += 2 {
		for _, l := range rows[i].Labels {
			if l != dataset.Ignored {
				c.tokens++
			}
		}
	}
	n := len(rows) / t.ranks.Parts
	c.Size, c.Length = n, len(rows[0].Inputs)
	for i, r := range rows[t.ranks.Index*n:][:n] {
		c.Inputs, c.Labels = append(c.Inputs, r.Inputs...), append(c.Labels, r.Labels...)
		c.Lengths, c.Numbers = append(c.Lengths, int64(r.Ends[0])), append(c.Numbers, t.ranks.Index*n+i)
	}
	return c, nil
}

// preferences computes the loss of pairs.
func (t *trainer) preferences(ctx context.Context, c comparison) (r preference.Result, err error) {
	own, err := t.model.SequenceValues(ctx, c.Batch, c.all)
	if err != nil {
		return r, err
	}
	if t.options.loss == reward {
		return preference.Rewards(own, c.margins), nil
	}
	reference := t.reference
	if t.adapter != nil {
		reference = t.model
		if err := t.model.Use(nil); err != nil {
			return r, err
		}
	}
	known, err := reference.SequenceValues(ctx, c.Batch, c.all)
	if t.adapter != nil {
		err = errors.Join(err, t.model.Use(t.adapter))
	}
	if err != nil {
		return r, err
	}
	return t.options.dpo.Compare(own, known, c.tokens), nil
}

// gradients computes the gradients of a batch. Those of pairs need the values of all their sequences first, so these have a forward pass more.
func (t *trainer) gradients(ctx context.Context, own model.Batch) (float64, error) {
	if !t.options.compares() {
		return t.model.Gradients(ctx, own)
	}
	r, err := t.preferences(ctx, t.pairs)
	if err != nil {
		return 0, err
	}
	t.compared = &r
	balance, err := t.model.SequenceGradients(ctx, own, r.Factors)
	return r.Loss + balance, err
}

// evaluatePairs reports the loss of held-out pairs, which are the same each time.
func (t *trainer) evaluatePairs(ctx context.Context, out io.Writer) error {
	var mean preference.Result
	batches := 0.0
	for range t.options.evalBatches {
		c, err := t.paired(t.heldOut)
		if err != nil {
			return err
		}
		r, err := t.preferences(ctx, c)
		if err != nil {
			return err
		}
		mean.Loss, mean.Chosen, mean.Rejected = mean.Loss+r.Loss, mean.Chosen+r.Chosen, mean.Rejected+r.Rejected
		mean.Margin, mean.Accuracy = mean.Margin+r.Margin, mean.Accuracy+r.Accuracy
		if batches++; t.heldOut.Position().Epoch > 0 {
			break
		}
	}
	for _, v := range []*float64{&mean.Loss, &mean.Chosen, &mean.Rejected, &mean.Margin, &mean.Accuracy} {
		*v /= batches
	}
	t.evalLoss, t.evaluated = mean.Loss, &mean
	better, err := t.keepBest(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "held-out loss %.4f%s%s\n", mean.Loss, described(&mean), better)
	return err
}

// rewards holds the figures of pairs that a log prints: means of the rewards of chosen and rejected answers, and of their difference, and the fraction of pairs whose chosen
// answer has the higher one.
type rewards struct {
	Chosen   float64 `json:"chosen"`
	Rejected float64 `json:"rejected"`
	Margin   float64 `json:"margin"`
	Accuracy float64 `json:"accuracy"`
}

func rewardsOf(r *preference.Result) *rewards {
	if r == nil {
		return nil
	}
	return &rewards{r.Chosen, r.Rejected, r.Margin, r.Accuracy}
}

// described are words about the pairs of a step.
func described(r *preference.Result) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("  accuracy %.3f, margin %.4f", r.Accuracy, r.Margin)
}
