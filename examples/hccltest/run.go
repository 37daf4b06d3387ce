package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
)

// errWrong says that a check failed; the rows say which.
var errWrong = errors.New("results are wrong")

// run measures, either as one rank started by a launcher or with all ranks in this process, and
// writes the table to out.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return err
	}
	defer job.Close(&err, rt)
	place, err := world.Detect()
	switch {
	case err == nil && o.ranks > 0:
		return errors.New("-p is for ranks in one process, and a launcher has started this one")
	case err == nil:
		group, err := job.Join(ctx, place)
		if err != nil {
			return err
		}
		return runRank(ctx, end, o, rt, place.Device, group, out)
	case !errors.Is(err, world.ErrNoLauncher):
		return err
	}
	devices, err := rt.DeviceCount()
	if err != nil {
		return err
	}
	if o.ranks == 0 {
		o.ranks = devices
	}
	if o.ranks > devices {
		return fmt.Errorf("-p %d; there are %d devices", o.ranks, devices)
	}
	groups, err := job.Local(ctx, o.ranks)
	if err != nil {
		return err
	}
	return job.Each(ctx, groups, func(ctx context.Context, group *world.Group) error {
		return runRank(ctx, end, o, rt, group.Rank(), group, out)
	})
}

// runRank measures on one rank; rank 0 reports.
func runRank(ctx context.Context, end context.CancelCauseFunc, o options, rt *acl.Runtime, device int, group *world.Group, out io.Writer) (err error) {
	defer job.Close(&err, group)
	if o.root >= group.Size() {
		return fmt.Errorf("-r %d; the ranks are 0 to %d", o.root, group.Size()-1)
	}
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
	deadline, cancel := context.WithTimeout(ctx, job.JoinLimit)
	defer cancel()
	comm, err := hccl.Join(deadline, st, group, hccl.Config{})
	if err != nil {
		return err
	}
	defer job.Close(&err, comm)
	// The communicator is not tracked: that would be measured, too.
	if guard, err = job.NewGuard(deadline, end, group, dev, nil, o.watching, os.Stderr); err != nil {
		return err
	}
	defer guard.End(ctx, &err)
	defer job.Abandon(&err, dev)
	if group.Rank() > 0 {
		out = io.Discard
	}
	where := rt.SoC()
	if rt.Emulated() {
		where += " (emulated)"
	}
	fmt.Fprintf(out, "%d × %s\n", comm.Size(), where)
	fmt.Fprintf(out, "%-16s %-9s %-5s %12s %12s %13s %13s  %s\n", "operation", "type", "op", "bytes", "time(us)", "algbw(GB/s)", "busbw(GB/s)", "check")
	wrong := false
	for _, p := range o.operations {
		for _, dt := range o.dtypes {
			for _, size := range o.sizes() {
				row, err := measure(ctx, o, comm, st, group, p, dt, size)
				if err != nil {
					return fmt.Errorf("%s of %d bytes of %v: %w", p.name, size, dt, err)
				}
				wrong = wrong || strings.Contains(row, "failed")
				fmt.Fprintln(out, row)
			}
		}
	}
	if wrong {
		return errWrong
	}
	return nil
}

// measure times one collective on all ranks and returns a line of the table.
func measure(ctx context.Context, o options, comm *hccl.Comm, st *acl.Stream, group *world.Group, p *operation, dt aclnn.DType, size int64) (row string, err error) {
	c := &call{Comm: comm, st: st, reduce: o.reduce, root: o.root}
	width, ranks := int64(dt.Bytes(1)), int64(comm.Size())
	if p.shares {
		c.part = (size + width*ranks - 1) / (width * ranks)
		size = c.part * width * ranks
	} else {
		c.part = (size + width - 1) / width
		size = c.part * width
	}
	c.send, err = c.upload(ctx, dt, p.send(c), func(i int64) float32 { return value(p, o.reduce, comm.Size(), comm.Rank(), i) })
	if err != nil {
		return "", err
	}
	defer job.Close(&err, c.send)
	if c.recv, err = c.upload(ctx, dt, p.recv(c), func(int64) float32 { return 99 }); err != nil {
		return "", err
	}
	defer job.Close(&err, c.recv)
	op := "-"
	if p.reduces {
		op = o.reduce.String()
	}
	took, err := c.time(ctx, p, o.warmup, o.repeats)
	if errors.Is(err, acl.ErrNotSupported) { // the same on all ranks
		return fmt.Sprintf("%-16s %-9v %-5s %12d %12s %13s %13s  unsupported", p.name, dt, op, size, "-", "-", "-"), nil
	}
	if err != nil {
		return "", err
	}
	verdict := "off"
	if o.check {
		if verdict, err = c.verdict(ctx, group, p); err != nil {
			return "", err
		}
	}
	bandwidth := float64(size) / float64(max(took.Nanoseconds(), 1))
	bus := bandwidth * p.bus(float64(ranks))
	return fmt.Sprintf("%-16s %-9v %-5s %12d %12.2f %13.3f %13.3f  %s", p.name, dt, op, size, float64(took.Nanoseconds())/1e3, bandwidth, bus, verdict), nil
}

// time returns the average time of a call on the device. There is always one call before the timed
// ones: it connects the ranks, and fails with nothing queued if HCCL does not support it.
func (c *call) time(ctx context.Context, p *operation, warmup, repeats int) (took time.Duration, err error) {
	for range max(warmup, 1) {
		if err := p.queue(c); err != nil {
			return 0, err
		}
	}
	if err := c.Barrier(c.st); err != nil {
		return 0, err
	}
	start, err := c.st.Record(acl.EventTiming())
	if err != nil {
		return 0, err
	}
	defer job.Close(&err, start)
	for range repeats {
		if err := p.queue(c); err != nil {
			return 0, err
		}
	}
	end, err := c.st.Record(acl.EventTiming())
	if err != nil {
		return 0, err
	}
	defer job.Close(&err, end)
	if err := c.st.Synchronize(ctx); err != nil {
		return 0, err
	}
	took, err = end.Elapsed(start)
	return took / time.Duration(repeats), err
}

// verdict combines the checks of all ranks.
func (c *call) verdict(ctx context.Context, group *world.Group, p *operation) (string, error) {
	wrong, err := c.verify(ctx, p)
	if err != nil {
		return "", err
	}
	all, err := world.AllGather(ctx, group, wrong)
	if err != nil {
		return "", err
	}
	for _, w := range all {
		if w != "" {
			return "failed: " + w, nil
		}
	}
	return "success", nil
}
