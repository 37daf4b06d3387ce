package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Group makes the host group over the named axes, such as "dp" and "cp" together for metrics. all
// is the group of the mesh's ranks, which all make this call; see Group.Sub. The caller closes the
// new group.
func (m *Mesh) Group(ctx context.Context, all *Group, names ...string) (*Group, error) {
	inside, err := m.find(names)
	if err != nil {
		return nil, err
	}
	return all.Sub(ctx, "mesh "+m.key(inside), m.ranksOf(inside, m.rank))
}

// Members makes and keeps a value, typically a communicator, for each group of a mesh when it is
// first requested. Making one needs all ranks in the same order; before anything is made, the ranks
// compare their requests over a host group, so that ranks that ask for different axes get
// ErrOutOfStep instead of hanging.
//
// Axes of size one cost nothing: no value is made, and Of returns the zero C.
type Members[C io.Closer] struct {
	mesh *Mesh
	all  *Group
	make func(ctx context.Context, g *Group) (C, error)

	mu     sync.Mutex
	made   map[string]C
	order  []string
	closed bool
}

// NewMembers returns Members whose values are made by create, which receives the host group of the
// ranks that share the value. That group is closed when create has returned. all is the host group of
// all ranks of the mesh. The groups over the same axes are made at the same time, each rank making its
// own. For communicators:
//
//	comms := world.NewMembers(mesh, all, func(ctx context.Context, g *world.Group) (*hccl.Comm, error) {
//		return hccl.Join(ctx, st, g, hccl.Config{})
//	})
//	defer comms.Close()
//	data, err := comms.Of(ctx, "dp", "cp") // nil if these axes have one rank together
func NewMembers[C io.Closer](mesh *Mesh, all *Group, create func(ctx context.Context, g *Group) (C, error)) *Members[C] {
	return &Members[C]{mesh: mesh, all: all, make: create, made: map[string]C{}}
}

// create makes the value of the ranks.
func (s *Members[C]) create(ctx context.Context, key string, ranks []int) (c C, err error) {
	g, err := s.all.Sub(ctx, "member "+key, ranks)
	if err != nil {
		return c, err
	}
	defer g.Close() // which returns no error
	return s.make(ctx, g)
}

// parting is how long a rank that could not make its value waits until the others know.
const parting = 5 * time.Second

// Of returns this rank's value for the named axes, or the zero C if they have one rank together.
// The first call for a set of axes waits until all ranks of the mesh make it. If one rank cannot
// make its value, the call fails on all ranks with ErrRankFailed, and on that rank with its own error
// too, at most 5 s later if the others wait for it.
func (s *Members[C]) Of(ctx context.Context, names ...string) (C, error) {
	var zero C
	if s == nil || s.make == nil {
		return zero, new(Group).failed("member", 0, ErrNil, nil, "the Members, or the function that makes them; see NewMembers")
	}
	inside, err := s.mesh.find(names)
	if err != nil {
		return zero, err
	}
	ranks := s.mesh.ranksOf(inside, s.mesh.rank)
	if len(ranks) == 1 {
		return zero, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.mesh.key(inside)
	if s.closed {
		return zero, s.all.failed("member "+key, 0, ErrClosed, nil, "")
	}
	if c, ok := s.made[key]; ok {
		return c, nil
	}
	if err := s.all.agree(ctx, "make member "+key, nil); err != nil {
		return zero, err
	}
	c, err := s.create(ctx, key, ranks)
	if err != nil {
		// Others may be waiting for this rank in their make, and not hear of the failure before
		// that has ended.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, parting)
		defer cancel()
	}
	if agreed := s.all.agree(ctx, "made member "+key, err); agreed != nil {
		switch {
		case err == nil:
			agreed = errors.Join(agreed, c.Close())
		case !errors.Is(agreed, err):
			agreed = errors.Join(err, agreed)
		}
		return zero, agreed
	}
	s.made[key], s.order = c, append(s.order, key)
	return c, nil
}

// Made returns the values that were made so far, in that order.
func (s *Members[C]) Made() (all []C) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.order {
		all = append(all, s.made[key])
	}
	return all
}

// Close closes all values, the last made first. It waits as long as their Close does.
func (s *Members[C]) Close() error { return s.CloseContext(context.Background()) }

// CloseContext is Close that passes ctx to the CloseContext of the values that have one, such as
// communicators. A value whose Close fails counts as closed.
func (s *Members[C]) CloseContext(ctx context.Context) error {
	if s == nil {
		return nil
	}
	if ctx == nil {
		return new(Group).failed("close members", 0, ErrNil, nil, "the context.Context")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for i := len(s.order) - 1; i >= 0; i-- {
		key := s.order[i]
		if err := closeValue(ctx, s.made[key]); err != nil {
			errs = append(errs, fmt.Errorf("world: member %s: %w", key, err))
		}
		delete(s.made, key)
	}
	s.order = nil
	return errors.Join(errs...)
}

func closeValue(ctx context.Context, c io.Closer) error {
	if bounded, ok := c.(interface {
		CloseContext(ctx context.Context) error
	}); ok {
		return bounded.CloseContext(ctx)
	}
	return c.Close()
}
