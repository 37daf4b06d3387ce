package replicas

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goascend/cann/examples/serve/engine"
)

// Generation receives the tokens of a request. Only one goroutine may call Next.
type Generation struct {
	set     *Set
	ctx     context.Context
	request engine.Request
	done    []int32 // tokens that Next has returned

	mu       sync.Mutex // guards what follows
	gone     bool       // it is not counted any more
	at       *replica
	now      *engine.Generation
	began    time.Time // on the first replica
	migrated bool      // to another replica
}

// Next waits for the next token, see engine.Generation. After a failure of the device it goes on with another
// replica, once: the request may be the cause.
func (g *Generation) Next() (engine.Token, error) {
	for {
		t, err := g.now.Next()
		if err == nil {
			if !t.End {
				g.done = append(g.done, t.ID)
			}
			return t, nil
		}
		if !errors.Is(err, engine.ErrDevice) || !g.migrate() {
			g.leave()
			return t, err
		}
	}
}

// migrate takes the request to another replica, if there is one that takes it.
func (g *Generation) migrate() bool {
	if g.migrated || g.ctx.Err() != nil {
		return false
	}
	r := g.request
	r.Done = g.done
	at, now, err := g.set.submit(g.ctx, r, g.at)
	if err != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.at
	if g.gone {
		before = at
	}
	before.open.Add(-1)
	g.began = g.now.Began()
	g.at, g.now, g.migrated = at, now, true
	return true
}

// leave takes the request out of the count of its replica.
func (g *Generation) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.gone {
		g.gone = true
		g.at.open.Add(-1)
	}
}

func (g *Generation) current() *engine.Generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

// Reason says why the text has ended, after Next has returned io.EOF.
func (g *Generation) Reason() engine.Reason { return g.current().Reason() }

// Prompt returns the prompt's tokens with their probabilities, see engine.Generation.
func (g *Generation) Prompt() []engine.Token { return g.current().Prompt() }

// Cached returns how many tokens of the prompt were found in the cache. It is known with the first token.
func (g *Generation) Cached() int { return min(g.current().Cached(), len(g.request.Prompt)) }

// Began returns when the request first left a queue, zero before.
func (g *Generation) Began() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.began.IsZero() {
		return g.began
	}
	return g.now.Began()
}
