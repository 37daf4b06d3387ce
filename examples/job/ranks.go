package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/hccl/world"
)

// Each calls body for every rank of a job inside this process, each in its own goroutine, and closes
// the groups. When one fails, the context of the others ends. The error has those of all ranks: first
// the causes, then what followed from them.
func Each(ctx context.Context, groups []*world.Group, body func(ctx context.Context, group *world.Group) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var failed []error
	var ranks sync.WaitGroup
	for i, group := range groups {
		ranks.Go(func() {
			err := errors.Join(body(ctx, group), group.Close())
			if err == nil {
				return
			}
			mu.Lock()
			failed = append(failed, fmt.Errorf("rank %d: %w", i, err))
			mu.Unlock()
			cancel()
		})
	}
	ranks.Wait()
	return Together(failed)
}

// Together joins the errors of ranks, given in the order in which the ranks ended. Errors that only
// say that another rank is gone, or that the job was ended, come after the others.
func Together(failed []error) error {
	ordered := slices.Clone(failed)
	slices.SortStableFunc(ordered, func(a, b error) int { return weight(a) - weight(b) })
	return errors.Join(ordered...)
}

// weight is 0 for an error that may be the cause of others, 1 for the loss of a peer, 2 for the end
// of the job.
func weight(err error) int {
	err = origin(err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, world.ErrClosed):
		return 2
	case errors.Is(err, acl.ErrPeerLost), errors.Is(err, world.ErrRankFailed), errors.Is(err, world.ErrRanksMissing), errors.Is(err, world.ErrGaveUp):
		return 1
	}
	return 0
}

// origin is the first of errors that were joined, at any depth: the others came while things were
// closed because of it.
func origin(err error) error {
	for {
		var next error
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			next = e.Unwrap()
		case interface{ Unwrap() []error }:
			// Other errors with several causes describe one failure, in one text.
			if all := errors.Join(e.Unwrap()...); all != nil && err.Error() == all.Error() {
				next = e.Unwrap()[0]
			}
		}
		if next == nil {
			return err
		}
		err = next
	}
}
