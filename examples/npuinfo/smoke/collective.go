package smoke

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
)

// collectives measures and checks collectives over all devices, as ranks of this process.
func collectives(ctx context.Context, cfg *Config, report func(message)) (err error) {
	rt, err := acl.Open(acl.Config{QuietLeaks: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	n, err := rt.DeviceCount()
	if err != nil {
		return err
	}
	if n < 2 {
		return nil // there is nothing to measure, and nothing wrong
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.limit())
	defer cancel()
	groups, err := world.LocalGroups(ctx, n, world.GroupConfig{})
	if err != nil {
		return err
	}
	errs := make([]error, len(groups))
	var ranks sync.WaitGroup
	for i, g := range groups {
		ranks.Go(func() {
			out := gauge(func(message) {})
			if i == 0 {
				out = report
			}
			errs[i] = errors.Join(rank(ctx, rt, g, out), g.Close())
			if errs[i] != nil {
				cancel() // the others would wait for this one
			}
		})
	}
	ranks.Wait()
	return errors.Join(errs...)
}

// collective is an operation with its result: element i of recv is want(i), where rank r sends r+1.
type collective struct {
	name       string
	send, recv int64 // elements
	queue      func(c *hccl.Comm, st *acl.Stream, send, recv *aclnn.Tensor) error
	want       func(i int64) float32
	bus        float64 // bytes on the busiest link per byte
}

func operations(size, rank, part int64) []collective {
	n := float64(size)
	sum := func(int64) float32 { return float32(size * (size + 1) / 2) }
	from := func(i int64) float32 { return float32(i/part + 1) }
	return []collective{
		{"all_reduce", part * size, part * size, func(c *hccl.Comm, st *acl.Stream, s, r *aclnn.Tensor) error { return c.AllReduce(st, s, r, hccl.Sum) }, sum, 2 * (n - 1) / n},
		{"all_gather", part, part * size, func(c *hccl.Comm, st *acl.Stream, s, r *aclnn.Tensor) error { return c.AllGather(st, s, r) }, from, (n - 1) / n},
		{"reduce_scatter", part * size, part, func(c *hccl.Comm, st *acl.Stream, s, r *aclnn.Tensor) error {
			return c.ReduceScatter(st, s, r, hccl.Sum)
		}, sum, (n - 1) / n},
		{"all_to_all", part * size, part * size, func(c *hccl.Comm, st *acl.Stream, s, r *aclnn.Tensor) error { return c.AllToAll(st, s, r) }, from, (n - 1) / n},
	}
}

// rank is one device's part.
func rank(ctx context.Context, rt *acl.Runtime, g *world.Group, out gauge) error {
	return onDevice(g.Rank(), func(_ *acl.Device, st *acl.Stream) (err error) {
		begin := time.Now()
		comm, err := hccl.Join(ctx, st, g, hccl.Config{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, comm.Close()) }()
		out.is(fmt.Sprintf("communicator of %d devices", comm.Size()), float64(time.Since(begin).Milliseconds()), "ms")
		for _, bytes := range []int64{4 << 10, 4 << 20} {
			part := bytes / 4 / int64(comm.Size())
			for _, o := range operations(int64(comm.Size()), int64(comm.Rank()), part) {
				if err := o.measure(ctx, comm, st, bytes, out); err != nil {
					return fmt.Errorf("%s of %d bytes: %w", o.name, bytes, err)
				}
			}
		}
		return nil
	})
}

// measure checks a collective once and times it.
func (o *collective) measure(ctx context.Context, c *hccl.Comm, st *acl.Stream, bytes int64, out gauge) (err error) {
	values := make([]float32, o.send)
	for i := range values {
		values[i] = float32(c.Rank() + 1)
	}
	send, err := aclnn.FromSlice(ctx, st, aclnn.Float32, values, o.send)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, send.Close()) }()
	recv, err := aclnn.New(st, aclnn.Float32, o.recv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recv.Close()) }()
	if err := errors.Join(o.queue(c, st, send, recv), st.Synchronize(ctx)); err != nil {
		return err
	}
	got := make([]float32, o.recv)
	if err := aclnn.CopyFromDevice(ctx, st, got, recv); err != nil {
		return err
	}
	for i, v := range got {
		if w := o.want(int64(i)); v != w {
			return fmt.Errorf("element %d is %v and should be %v", i, v, w)
		}
	}
	var took []time.Duration
	for range 9 {
		if err := errors.Join(c.Barrier(st), st.Synchronize(ctx)); err != nil {
			return err
		}
		begin := time.Now()
		if err := errors.Join(o.queue(c, st, send, recv), st.Synchronize(ctx)); err != nil {
			return err
		}
		took = append(took, time.Since(begin))
	}
	us := median(took)
	if bytes < 1<<20 {
		out.is(fmt.Sprintf("%s of 4 KiB over %d devices", o.name, c.Size()), us, "µs")
		return nil
	}
	out.is(fmt.Sprintf("%s of 4 MiB over %d devices, bus", o.name, c.Size()), float64(bytes)*o.bus/max(us, 1e-3)/1e3, "GB/s")
	return nil
}
