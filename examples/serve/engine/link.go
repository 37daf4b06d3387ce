package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl/world"
)

// ErrRank is the error after a rank in another process has failed or ended. The ranks have to be started again,
// all of them: a communicator does not survive the loss of a rank.
var ErrRank = errors.New("engine: a rank is lost; start all ranks again")

// link joins the processes that have the ranks of a model. The first one sends orders, and the others answer when
// they have followed one.
type link struct {
	orders   *world.Group
	answers  *world.Group // apart, so that the next order can be awaited before the answer
	presence *world.Group // carries nothing; its connections end with the ranks
	lost     chan error   // gets the loss of another rank, on the first one
	watching sync.WaitGroup
}

func newLink(orders *world.Group) *link { return &link{orders: orders, lost: make(chan error, 1)} }

func (l *link) open(ctx context.Context) (err error) {
	if l.answers, err = job.Whole(ctx, l.orders, "answers"); err != nil {
		return err
	}
	l.presence, err = job.Whole(ctx, l.orders, "presence")
	if err == nil && l.orders.Rank() == 0 && l.orders.Size() > 1 {
		l.watching.Go(l.watch)
	}
	return err
}

// watch notices the loss of another rank between orders, too; the others, who wait for orders, notice the loss of
// the first. None of them ever comes to the barrier, so that it ends when one of them does, or with Close.
func (l *link) watch() {
	l.lost <- fmt.Errorf("%w: %w", ErrRank, l.presence.Barrier(context.Background()))
}

// Close leaves the other ranks, which then end: well, if the last order has come to them.
func (l *link) Close() error {
	err := errors.Join(l.orders.Close(), l.answers.Close(), l.presence.Close())
	l.watching.Wait()
	return err
}

// longestFarewell is the time that the others have to take the last order.
const longestFarewell = 5 * time.Second

// end sends the other ranks the order to end.
func (l *link) end() error {
	if l.orders.Rank() > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestFarewell)
	defer cancel()
	_, err := world.Broadcast(ctx, l.orders, 0, message{End: true})
	return err
}

// message is an order, or the last one.
type message struct {
	Order order
	End   bool
}

// answer reports what went wrong with an order. After a lasting failure the rank cannot go on.
type answer struct {
	Text    string
	Lasting bool
}

func answerOf(o order, err error) answer {
	if err == nil {
		return answer{}
	}
	var failure *acl.Error
	return answer{err.Error(), o.Load == nil || errors.As(err, &failure)}
}

// lead sends an order to the other ranks and follows it with own. A rank that fails or ends, ends the wait for it.
func (l *link) lead(ctx context.Context, o order, own func(ctx context.Context) ([]float32, error)) (values []float32, err error) {
	if _, err := world.Broadcast(ctx, l.orders, 0, message{Order: o}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRank, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var theirs error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		all, err := world.Gather(ctx, l.answers, 0, answer{})
		if err != nil {
			theirs = fmt.Errorf("%w: %w", ErrRank, err)
		}
		for rank, a := range all {
			switch {
			case a.Lasting:
				theirs = fmt.Errorf("%w: rank %d: %s", ErrRank, rank, a.Text)
			case a.Text != "" && theirs == nil:
				theirs = fmt.Errorf("rank %d: %s", rank, a.Text)
			}
		}
		if theirs != nil {
			cancel(theirs)
		}
	}()
	if values, err = own(ctx); err == nil {
		<-answered
		return values, theirs
	}
	if !answerOf(o, err).Lasting {
		<-answered
		return nil, cmp.Or(theirs, err)
	}
	select {
	case <-answered: // another rank was the first to fail
	case <-time.After(moment): // the others wait for this one
		cancel(err)
		<-answered
		theirs = nil
	}
	if errors.Is(theirs, ErrRank) {
		return nil, fmt.Errorf("%w; and here %w", theirs, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrRank, err)
}

// moment is the time that a rank has to say what has failed, after another has noticed that something did.
const moment = time.Second

// Follow runs a rank other than the first of Options.Group until the first one closes its engine, and returns nil
// then. The other arguments are those of the first rank's Open.
func Follow(ctx context.Context, rt *acl.Runtime, device int, load Load, o Options) (err error) {
	if o, err = o.complete(); err != nil {
		return err
	}
	if o.Group == nil || o.Group.Rank() == 0 {
		return errors.New("engine: Follow is for the ranks after the first of Options.Group")
	}
	t, err := newTeam(ctx, rt, device, load, &o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return t.follow(ctx)
}

// follow takes orders until the last one.
func (t *team) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	orders, ended := make(chan message), make(chan struct{})
	defer func() {
		cancel(nil)
		<-ended
	}()
	go func() { // also while an order is followed, so that the loss of the first rank ends it
		defer close(ended)
		for {
			x, err := world.Broadcast(ctx, t.link.orders, 0, message{})
			if err != nil {
				cancel(fmt.Errorf("%w: %w", ErrRank, err))
				return
			}
			select {
			case orders <- x:
			case <-ctx.Done():
				return
			}
			if x.End {
				return
			}
		}
	}()
	for {
		var x message
		select {
		case x = <-orders:
		case <-ctx.Done():
			t.broken = true
			return context.Cause(ctx)
		}
		if x.End {
			return nil
		}
		_, err := t.here(ctx, x.Order)
		a := answerOf(x.Order, err)
		if _, lost := world.Gather(ctx, t.link.answers, 0, a); lost != nil || a.Lasting {
			t.broken = true
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return errors.Join(err, lost)
		}
	}
}
