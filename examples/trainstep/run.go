package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/qwen"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/ops"
)

// joinTimeout is how long ranks wait for one another at the start.
const joinTimeout = 2 * time.Minute

// run trains, either as one rank started by a launcher or with all ranks in this process, and
// reports to out.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	text, err := loadCorpus(o.data)
	if err != nil {
		return err
	}
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer closing(&err, rt)
	place, err := world.Detect()
	if errors.Is(err, world.ErrNoLauncher) {
		return runHere(ctx, o, rt, text, out)
	} else if err != nil {
		return err
	}
	if place.Rank > 0 {
		out = io.Discard
	}
	deadline, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	group, err := world.Join(deadline, place, world.GroupConfig{})
	if err != nil {
		return err
	}
	defer closing(&err, group)
	return runRank(ctx, o, rt, place.Device, group, text, out)
}

// runHere runs all ranks in this process, each with a goroutine and a device; rank 0 reports.
func runHere(ctx context.Context, o options, rt *acl.Runtime, text *corpus, out io.Writer) error {
	groups, err := world.LocalGroups(ctx, o.ranks, world.GroupConfig{})
	if err != nil {
		return err
	}
	ranks, ctx := errgroup.WithContext(ctx)
	for i, group := range groups {
		ranks.Go(func() (err error) {
			defer closing(&err, group)
			w := out
			if i > 0 {
				w = io.Discard
			}
			if err := runRank(ctx, o, rt, o.device+i, group, text, w); err != nil {
				return fmt.Errorf("rank %d: %w", i, err)
			}
			return nil
		})
	}
	return ranks.Wait()
}

// runRank trains a rank's part of the model on its device.
func runRank(ctx context.Context, o options, rt *acl.Runtime, device int, group *world.Group, text *corpus, out io.Writer) (err error) {
	dev, err := rt.Device(device)
	if err != nil {
		return err
	}
	defer closing(&err, dev)
	st, err := dev.NewStream(acl.StreamFast())
	if err != nil {
		return err
	}
	defer closing(&err, st)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	if err != nil {
		return err
	}
	defer closing(&err, reg)
	ranks, err := qwen.Join(ctx, st, group, o.layout)
	if err != nil {
		return err
	}
	defer closing(&err, ranks)
	t, err := newTrainer(ctx, o, st, reg, ranks, text)
	if err != nil {
		return err
	}
	defer closing(&err, t)
	where := rt.SoC()
	if rt.Emulated() {
		where += " (emulated)"
	}
	if n := group.Size(); n > 1 {
		where = fmt.Sprintf("%d × %s, %s", n, where, ranks)
	}
	fmt.Fprintf(out, "%s, %.2f M parameters in %s, %d tokens a step, text: %s\n",
		where, float64(t.model.Config.Parameters())/1e6, o.dtype, o.batch*o.seq, text.source)
	return t.train(ctx, out)
}

// closing closes c and adds its error to that of the function that defers it.
func closing(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }
