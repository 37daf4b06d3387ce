package engine

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
)

// Load makes a rank's part of the model of an engine, whose weights are frozen. It is called again after a
// failure from which the device cannot recover by itself.
type Load func(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error)

// runner owns everything that an engine has opened on one device: a rank of the model.
type runner struct {
	dev   *acl.Device
	st    *acl.Stream
	reg   *ops.Registry
	model *model.Model
	pages *model.Pages
	steps *model.Steps       // nil without graphs
	bank  *model.AdapterBank // nil without adapters
	opens []io.Closer        // in the order of opening
}

// open opens the device.
func (r *runner) open(rt *acl.Runtime, device int) (err error) {
	if r.dev, err = rt.Device(device); err != nil {
		return err
	}
	r.opens = append(r.opens, r.dev)
	if r.st, err = r.dev.NewStream(acl.StreamFast()); err != nil {
		return err
	}
	r.opens = append(r.opens, r.st)
	if r.reg, err = ops.NewRegistry(ops.EnvOf(r.dev)); err != nil {
		return err
	}
	r.opens = append(r.opens, r.reg)
	return nil
}

// join makes the rank part of a model that several ranks have.
func (r *runner) join(c *hccl.Comm) model.Parallel {
	r.opens = append(r.opens, c)
	return model.Parallel{World: c, Tensor: c}
}

// load loads the rank's part of the model.
func (r *runner) load(ctx context.Context, load Load, par model.Parallel, o *Options) (err error) {
	if r.model, err = load(ctx, r.st, r.reg, par); err != nil {
		return err
	}
	r.opens = append(r.opens, r.model)
	if !r.model.Config.Generates() {
		if o.Graph || o.Adapters > 0 || o.Speculate > 0 {
			return errors.New("engine: Graph, Adapters and Speculate are for models that generate text; this one makes embeddings or scores")
		}
		return nil
	}
	if r.pages, err = r.model.NewPages(model.PageSizes{Blocks: o.Blocks, Block: o.BlockSize, States: o.Sequences * o.statesOf(r.model.Config)}); err != nil {
		return err
	}
	r.opens = append(r.opens, r.pages)
	if o.Graph {
		if r.steps, err = r.pages.NewSteps(); err != nil {
			return err
		}
		r.opens = append(r.opens, r.steps)
	}
	if o.Adapters == 0 {
		return nil
	}
	if r.bank, err = r.model.NewAdapterBank(o.Adapters, o.AdapterRank); err != nil {
		return err
	}
	r.opens, r.pages.Adapters = append(r.opens, r.bank), r.bank
	return nil
}

// order describes work that all ranks of a model do at the same time.
type order struct {
	Copies [][2]int32    // blocks to copy first: to, from
	Pieces []model.Piece // to read
	Next   [][]int32     // tokens after those that the pieces have been read for, to predict one further
	Text   []int32       // to embed, or to score
	Types  []int32       // of its tokens, or nil
	Load   *placement    // of an adapter
}

// placement is a PEFT folder and its slot in the adapter bank.
type placement struct {
	Folder string
	Slot   int
}

// do follows an order. The first rank of a model returns logits or states.
func (r *runner) do(ctx context.Context, o order) (values []float32, err error) {
	for _, c := range o.Copies {
		if err := r.pages.CopyBlock(c[0], c[1]); err != nil {
			return nil, err
		}
	}
	switch {
	case o.Load != nil:
		return nil, r.bank.Load(ctx, o.Load.Slot, o.Load.Folder)
	case o.Text != nil:
		return r.readText(ctx, o)
	case o.Next != nil:
		return r.model.Predict(ctx, r.pages, o.Pieces, o.Next)
	case o.Pieces != nil:
		return r.model.Advance(ctx, r.pages, o.Pieces)
	}
	return nil, nil
}

// Close closes everything, the last opened first.
func (r *runner) Close() error {
	var errs []error
	for _, c := range slices.Backward(r.opens) {
		errs = append(errs, c.Close())
	}
	r.opens = nil
	return errors.Join(errs...)
}
