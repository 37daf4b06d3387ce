package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl"
)

// team is the ranks of a model, each on a device of its own. They follow the same orders at the same time. They
// are in this process, or with Options.Group one in each process.
type team struct {
	ranks  []*runner // of this process
	link   *link     // to those of other processes, or nil
	broken bool      // a rank may wait for another for ever
}

func newTeam(ctx context.Context, rt *acl.Runtime, device int, load Load, o *Options) (*team, error) {
	t := &team{}
	if err := t.open(ctx, rt, device, load, o); err != nil {
		t.broken = true
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *team) open(ctx context.Context, rt *acl.Runtime, device int, load Load, o *Options) (err error) {
	if o.Group != nil {
		t.link = newLink(o.Group)
	}
	var streams []*acl.Stream
	for i := range o.Tensor {
		r := &runner{}
		t.ranks = append(t.ranks, r)
		if err := r.open(rt, device+i); err != nil {
			return fmt.Errorf("device %d: %w", device+i, err)
		}
		streams = append(streams, r.st)
	}
	parts := make(map[*runner]model.Parallel)
	var comms []*hccl.Comm
	switch {
	case o.Group != nil:
		if err = t.link.open(ctx); err == nil {
			comms = make([]*hccl.Comm, 1)
			comms[0], err = hccl.Join(ctx, streams[0], o.Group, hccl.Config{})
		}
	case o.Tensor > 1:
		comms, err = hccl.JoinAll(ctx, streams...)
	}
	if err != nil {
		return err
	}
	for i, c := range comms {
		parts[t.ranks[i]] = t.ranks[i].join(c)
	}
	return t.each(ctx, func(ctx context.Context, r *runner) error { return r.load(ctx, load, parts[r], o) })
}

// each calls f for all ranks at the same time. After an error the others need not wait.
func (t *team) each(ctx context.Context, f func(ctx context.Context, r *runner) error) error {
	if len(t.ranks) == 1 {
		return f(ctx, t.ranks[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var once sync.Once
	var first error // the others follow from it
	for i, r := range t.ranks {
		all.Go(func() {
			if err := f(ctx, r); err != nil {
				once.Do(func() { first = fmt.Errorf("rank %d: %w", i, err) })
				cancel()
			}
		})
	}
	all.Wait()
	t.broken = t.broken || first != nil
	return first
}

// do lets all ranks follow an order, and returns what the first one does.
func (t *team) do(ctx context.Context, o order) (values []float32, err error) {
	if t.link == nil {
		return t.here(ctx, o)
	}
	if t.broken {
		return nil, ErrRank
	}
	values, err = t.link.lead(ctx, o, func(ctx context.Context) ([]float32, error) { return t.here(ctx, o) })
	t.broken = errors.Is(err, ErrRank)
	return values, err
}

// lost gets the error of a rank that has ended in another process, also between orders. It is nil without a link.
func (t *team) lost() <-chan error {
	if t == nil || t.link == nil {
		return nil
	}
	return t.link.lost
}

// here lets the ranks of this process follow an order.
func (t *team) here(ctx context.Context, o order) (values []float32, err error) {
	err = t.each(ctx, func(ctx context.Context, r *runner) error {
		own, err := r.do(ctx, o)
		if r == t.ranks[0] {
			values = own
		}
		return err
	})
	return values, err
}

// load loads adapters again.
func (t *team) load(ctx context.Context, all []*adapter) error {
	for _, a := range all {
		if _, err := t.do(ctx, order{Load: &placement{a.folder, a.slot}}); err != nil {
			return err
		}
	}
	return nil
}

// recover brings the device back without closing it, if that is possible. A communicator does not survive the
// failure of a rank.
func (t *team) recover(ctx context.Context) error {
	if len(t.ranks) > 1 {
		return errors.New("the ranks need a new communicator")
	}
	_, err := t.ranks[0].dev.Recover(ctx)
	return err
}

// Close closes all ranks. Those that wait for another are stopped.
func (t *team) Close() error {
	var errs []error
	for _, r := range t.ranks {
		if t.broken && r.st != nil {
			errs = append(errs, r.st.Abort())
		}
	}
	if t.link != nil {
		if !t.broken {
			errs = append(errs, t.link.end())
		}
		errs = append(errs, t.link.Close())
	}
	for _, r := range t.ranks {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
