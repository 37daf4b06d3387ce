package engine

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/qwen"
	"github.com/goascend/cann/ops"
)

// Load makes the model of an engine. It is called again after a failure from which the device cannot
// recover by itself.
type Load func(ctx context.Context, st *acl.Stream, reg *ops.Registry) (*qwen.Model, error)

// runner owns everything that an engine has opened on its device.
type runner struct {
	dev   *acl.Device
	model *qwen.Model
	pages *qwen.Pages
	rack  *qwen.Rack  // nil without adapters
	opens []io.Closer // in the order of opening
}

func newRunner(ctx context.Context, rt *acl.Runtime, device int, load Load, o *Options) (*runner, error) {
	r := &runner{}
	if err := r.open(ctx, rt, device, load, o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *runner) open(ctx context.Context, rt *acl.Runtime, device int, load Load, o *Options) (err error) {
	if r.dev, err = rt.Device(device); err != nil {
		return err
	}
	r.opens = append(r.opens, r.dev)
	st, err := r.dev.NewStream(acl.StreamFast())
	if err != nil {
		return err
	}
	r.opens = append(r.opens, st)
	reg, err := ops.NewRegistry(ops.EnvOf(r.dev))
	if err != nil {
		return err
	}
	r.opens = append(r.opens, reg)
	if r.model, err = load(ctx, st, reg); err != nil {
		return err
	}
	r.opens = append(r.opens, r.model)
	if r.pages, err = r.model.NewPages(qwen.PageSizes{Blocks: o.Blocks, Block: o.BlockSize, States: o.Sequences}); err != nil {
		return err
	}
	r.opens = append(r.opens, r.pages)
	if o.Adapters == 0 {
		return nil
	}
	if r.rack, err = r.model.NewRack(o.Adapters, o.AdapterRank); err != nil {
		return err
	}
	r.opens, r.pages.Rack = append(r.opens, r.rack), r.rack
	return nil
}

// load loads adapters again.
func (r *runner) load(ctx context.Context, all []*adapter) error {
	for _, a := range all {
		if err := r.rack.Load(ctx, a.place, a.folder); err != nil {
			return err
		}
	}
	return nil
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
