package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/examples/meter"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/ops"
)

// run trains, either as one rank started by a launcher or with all ranks in this process, and
// reports to out. When stop ends, the ranks finish a step, save and return an error that matches
// context.Canceled.
func run(stop context.Context, o options, out io.Writer) (err error) {
	ctx, end := context.WithCancelCause(context.WithoutCancel(stop))
	defer end(nil)
	if o.tokens != "" {
		return o.tokenize(stop, out)
	}
	if o.pipeline.drawing != "" {
		return o.pipeline.draw(o.layout.PP, o.micro, out)
	}
	if o.simulation.on() {
		return o.simulate(stop, out)
	}
	text, err := o.loadText()
	if err != nil {
		return err
	}
	defer job.Close(&err, text)
	rt, err := acl.Open(acl.Config{}, acl.WithLogger(job.Warnings()))
	if err != nil {
		return err
	}
	defer job.Close(&err, rt)
	place, err := world.Detect()
	if o.profile != "" {
		p, profiled := rt.Profile(acl.ProfileConfig{Folder: o.profile, Devices: o.devices(place, err)})
		if profiled != nil {
			return profiled
		}
		defer job.Close(&err, p)
	}
	if errors.Is(err, world.ErrNoLauncher) {
		return runHere(ctx, stop, end, o, rt, text, out)
	} else if err != nil {
		return err
	}
	if o.ranks > 1 || o.device != 0 {
		return fmt.Errorf("-ranks %d and -device %d are for ranks in one process; a launcher has started this one as %v", o.ranks, o.device, place)
	}
	if out = (plain{out}); place.Rank > 0 {
		out = io.Discard
	}
	group, err := job.Join(stop, place)
	if err != nil {
		return err
	}
	defer job.Close(&err, group)
	if err := o.agree(stop, group, rt, text); err != nil {
		return err
	}
	return runRank(ctx, stop, end, o, rt, place.Device, group, text, out)
}

// devices returns the devices of this process: that of its place, or one for each rank here.
func (o options) devices(place world.Place, alone error) (ids []int) {
	if alone == nil {
		return []int{place.Device}
	}
	for i := range o.ranks {
		ids = append(ids, o.device+i)
	}
	return ids
}

// runHere runs all ranks in this process, each with a goroutine and a device; rank 0 reports.
func runHere(ctx, stop context.Context, end context.CancelCauseFunc, o options, rt *acl.Runtime, text *corpus, out io.Writer) error {
	groups, err := job.Local(stop, o.ranks)
	if err != nil {
		return err
	}
	return job.Each(ctx, groups, func(ctx context.Context, group *world.Group) error {
		w := out
		if group.Rank() > 0 {
			w = io.Discard
		}
		return runRank(ctx, stop, end, o, rt, o.device+group.Rank(), group, text, w)
	})
}

// runRank trains a rank's part of the model on its device. A fault of any rank ends ctx by end.
func runRank(ctx, stop context.Context, end context.CancelCauseFunc, o options, rt *acl.Runtime, device int, group *world.Group, text *corpus, out io.Writer) (err error) {
	var guard *job.Guard
	defer func() { guard.Release() }()
	dev, err := rt.Device(device)
	if err != nil {
		return err
	}
	defer job.Close(&err, dev)
	st, err := dev.NewStream(acl.StreamFast())
	if err != nil {
		return err
	}
	defer job.Close(&err, st)
	o.dtype = o.elementType(rt.Emulated())
	env := ops.EnvOf(dev)
	env.HF32 = o.dtype == "hf32"
	reg, err := ops.NewRegistry(env, ops.WithLogger(o.logger(group.Rank(), out)))
	if err != nil {
		return err
	}
	defer job.Close(&err, reg)
	setUp, cancel := job.Either(ctx, stop)
	defer cancel()
	ranks, err := model.Join(setUp, st, group, o.layout)
	if err != nil {
		return err
	}
	defer job.Close(&err, ranks)
	if !o.graph { // the collectives of a graph cannot be timed
		m, err := meter.New(st)
		if err != nil {
			return err
		}
		defer job.Close(&err, m)
		ranks.Measure(m)
	}
	if guard, err = job.NewGuard(setUp, end, group, dev, ranks.Comms(), o.watching, os.Stderr); err != nil {
		return err
	}
	t, err := newTrainer(setUp, o, st, reg, ranks, text)
	if err != nil {
		job.Abandon(&err, dev)
		guard.End(ctx, &err)
		return err
	}
	defer job.Close(&err, t)
	defer guard.End(ctx, &err)
	defer job.Abandon(&err, dev)
	where := rt.SoC()
	if rt.Emulated() {
		where += " (emulated)"
	}
	if n := group.Size(); n > 1 {
		where = fmt.Sprintf("%d × %s, %s", n, where, ranks)
	}
	fmt.Fprintf(out, "%s, %.2f M parameters in %s, %d tokens a step, text: %s\n%s%s",
		where, float64(t.model.Config.Parameters())/1e6, o.dtype, o.batch*o.seq, text.source, t.note, t.resumed)
	t.versions = versions(rt)
	if !rt.Emulated() {
		t.soc = rt.SoC()
	}
	return t.train(ctx, stop, out)
}
