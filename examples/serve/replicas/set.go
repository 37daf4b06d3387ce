package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/engine"
)

// Set is the replicas of a model. Its methods are safe for concurrent use.
type Set struct{ all []*replica }

// replica is an engine and how many requests it has.
type replica struct {
	*engine.Engine
	device int
	open   atomic.Int64
}

// Open makes an engine for each of the devices, which are the first ones of the replicas. The errors are those
// of engine.Open.
func Open(ctx context.Context, rt *acl.Runtime, devices []int, load engine.Load, o engine.Options) (*Set, error) {
	s := &Set{}
	if len(devices) == 0 {
		return nil, errors.New("replicas: there are no devices")
	}
	for _, d := range devices {
		e, err := engine.Open(ctx, rt, d, load, o)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("device %d: %w", d, err), s.Close())
		}
		s.all = append(s.all, &replica{Engine: e, device: d})
	}
	return s, nil
}

// MaxLength is the number of tokens that a request can have, its prompt included.
func (s *Set) MaxLength() int { return s.all[0].MaxLength() }

// Vocab is the number of tokens that the model knows.
func (s *Set) Vocab() int { return s.all[0].Vocab() }

// Config describes the model.
func (s *Set) Config() model.Config { return s.all[0].Config() }

// Done is closed when the first engine has ended.
func (s *Set) Done() <-chan struct{} { return s.all[0].Done() }

// Ready returns nil if a replica takes requests, and otherwise why none does.
func (s *Set) Ready() error {
	var errs []error
	for _, r := range s.all {
		err := r.Ready()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Status is the state of a replica.
type Status struct {
	Device int
	Ready  bool  // it takes requests, and its device is not being opened again
	Err    error // why it takes no requests
	Stats  engine.Stats
}

// Status returns the states of all replicas.
func (s *Set) Status() (all []Status) {
	for _, r := range s.all {
		err := r.Ready()
		all = append(all, Status{r.device, err == nil && !r.Recovering(), err, r.Stats()})
	}
	return all
}

// Stats returns the sums of the counts of all replicas.
func (s *Set) Stats() (sum engine.Stats) {
	for _, r := range s.all {
		sum = sum.Plus(r.Stats())
	}
	return sum
}

// choose orders the replicas that take requests: those that are not recovering first, and among them those with
// the fewest requests.
func (s *Set) choose() (some []*replica) {
	type candidate struct {
		*replica
		recovering bool
		open       int64
	}
	var all []candidate
	for _, r := range s.all {
		if r.Ready() == nil {
			all = append(all, candidate{r, r.Recovering(), r.open.Load()})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		if a.recovering != b.recovering {
			if a.recovering {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.open, b.open)
	})
	for _, c := range all {
		some = append(some, c.replica)
	}
	return some
}

// submit begins a generation on the first replica but one that takes it.
func (s *Set) submit(ctx context.Context, r engine.Request, but *replica) (at *replica, g *engine.Generation, err error) {
	err = s.Ready()
	for _, x := range s.choose() {
		if x == but {
			continue
		}
		if g, err = x.Submit(ctx, r); err == nil {
			x.open.Add(1)
			return x, g, nil
		}
		if !errors.Is(err, engine.ErrBusy) && !errors.Is(err, engine.ErrDevice) {
			break
		}
	}
	if err == nil { // it is the one replica that is left
		err = engine.ErrDevice
	}
	return nil, nil, err
}

// Submit begins a generation, which ends early with ctx. The errors are those of engine.Engine.
func (s *Set) Submit(ctx context.Context, r engine.Request) (*Generation, error) {
	at, g, err := s.submit(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	whole := &Generation{set: s, ctx: ctx, request: r, at: at, now: g}
	context.AfterFunc(ctx, whole.leave) // for those who do not read to the end
	return whole, nil
}

// Embed returns the vector of a text, see engine.Engine. If a device fails, another replica computes it.
func (s *Set) Embed(ctx context.Context, tokens []int32) ([]float32, error) {
	return first(s, func(x *replica) ([]float32, error) { return x.Embed(ctx, tokens) })
}

// Score returns the score of a pair of texts, see engine.Engine. If a device fails, another replica computes it.
func (s *Set) Score(ctx context.Context, tokens, types []int32) (float64, error) {
	return first(s, func(x *replica) (float64, error) { return x.Score(ctx, tokens, types) })
}

// first lets a replica compute a value, and the next one if it is busy or fails.
func first[T any](s *Set, compute func(*replica) (T, error)) (value T, err error) {
	if err = s.Ready(); err == nil {
		err = engine.ErrDevice // if none is ready any more
	}
	for _, x := range s.choose() {
		value, err = func() (T, error) {
			x.open.Add(1)
			defer x.open.Add(-1)
			return compute(x)
		}()
		if !errors.Is(err, engine.ErrBusy) && !errors.Is(err, engine.ErrDevice) {
			break
		}
	}
	return value, err
}

// Adapters lists the names of the adapters that requests can name.
func (s *Set) Adapters() []string { return s.all[0].Adapters() }

// LoadAdapter loads an adapter on all replicas, or on none.
func (s *Set) LoadAdapter(ctx context.Context, name, folder string) error {
	for i, r := range s.all {
		if err := r.LoadAdapter(ctx, name, folder); err != nil {
			errs := []error{err}
			for _, r := range s.all[:i] {
				errs = append(errs, r.UnloadAdapter(name))
			}
			return errors.Join(errs...)
		}
	}
	return nil
}

// UnloadAdapter takes an adapter's name away on all replicas.
func (s *Set) UnloadAdapter(name string) error {
	return s.each(func(r *replica) error { return r.UnloadAdapter(name) })
}

// Drain refuses new requests and waits until all others have ended, or ctx has.
func (s *Set) Drain(ctx context.Context) error {
	return s.each(func(r *replica) error { return r.Drain(ctx) })
}

// Close ends all requests, and closes what the engines have opened.
func (s *Set) Close() error { return s.each(func(r *replica) error { return r.Engine.Close() }) }

// each does something with all replicas at the same time.
func (s *Set) each(f func(*replica) error) error {
	errs := make([]error, len(s.all))
	var all sync.WaitGroup
	for i, r := range s.all {
		all.Go(func() { errs[i] = f(r) })
	}
	all.Wait()
	return errors.Join(errs...)
}
