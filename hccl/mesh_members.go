package hccl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Group makes the host group over the named axes, such as "dp" and "cp" together for metrics.
// All ranks of world call it at the same point; see Group.Sub. The caller closes it.
func (m *Mesh) Group(ctx context.Context, world *Group, names ...string) (*Group, error) {
	inside, err := m.find(names)
	if err != nil {
		return nil, err
	}
	return world.Sub(ctx, "mesh "+m.key(inside), m.ranksOf(inside, m.rank))
}

// Members makes something for each group of a mesh when it is first asked for, and keeps it:
// communicators above all. Making them needs all ranks, in the same order everywhere; that
// order is compared over the host group of the world before anything is made, so that ranks
// which ask for different axes get ErrOutOfStep and do not hang.
//
// Axes of size one cost nothing: nothing is made, and Of returns the zero C.
type Members[C io.Closer] struct {
	mesh  *Mesh
	world *Group
	make  func(ctx context.Context, name string, ranks []int) (C, error)

	mu     sync.Mutex
	made   map[string]C
	order  []string
	closed bool
}

// NewMembers keeps what create makes for a group of ranks of the world: of them, this rank
// has the position that it has in ranks. All groups over the same axes are made at the same
// time, each rank making its own. name is the same on all ranks, and differs by axes.
func NewMembers[C io.Closer](mesh *Mesh, world *Group, create func(ctx context.Context, name string, ranks []int) (C, error)) *Members[C] {
	return &Members[C]{mesh: mesh, world: world, make: create, made: map[string]C{}}
}

// Of is this rank's member over the named axes, the zero C when they have one rank together.
// The first call for some axes waits for all ranks of the world to make it. When one rank
// cannot make its member, the call fails on all ranks with ErrRankFailed.
func (s *Members[C]) Of(ctx context.Context, names ...string) (C, error) {
	var zero C
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
		return zero, s.world.failed("member "+key, 0, ErrGroupClosed, nil, "")
	}
	if c, ok := s.made[key]; ok {
		return c, nil
	}
	if err := s.world.agree(ctx, "make member "+key, nil); err != nil {
		return zero, err
	}
	c, err := s.make(ctx, key, ranks)
	if told := s.world.agree(ctx, "made member "+key, err); told != nil {
		if err == nil {
			told = errors.Join(told, c.Close())
		}
		return zero, told
	}
	s.made[key], s.order = c, append(s.order, key)
	return c, nil
}

// Close closes all members, the last made first.
func (s *Members[C]) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for i := len(s.order) - 1; i >= 0; i-- {
		key := s.order[i]
		if err := s.made[key].Close(); err != nil {
			errs = append(errs, fmt.Errorf("hccl: member %s: %w", key, err))
		}
		delete(s.made, key)
	}
	s.order = nil
	return errors.Join(errs...)
}
