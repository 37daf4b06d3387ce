package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Open sends n requests to a target at random times, rate a second on average, with exponentially
// distributed pauses, and waits for the answers.
func Open(ctx context.Context, to Target, rate float64, n int, seed uint64) Report {
	rng := rand.New(rand.NewPCG(seed, 0))
	results, began := make([]Result, n), time.Now()
	var open sync.WaitGroup
	at := began
	for i := range n {
		at = at.Add(time.Duration(rng.ExpFloat64() / rate * float64(time.Second)))
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			results = results[:i]
		}
		if ctx.Err() != nil {
			break
		}
		open.Go(func() { results[i] = to.of(i).Send(ctx) })
	}
	open.Wait()
	return newReport(results, time.Since(began))
}

// Clients lets a number of clients send requests one after the other, each so many.
func Clients(ctx context.Context, to Target, clients, each int) Report {
	results, began := make([]Result, clients*each), time.Now()
	var open sync.WaitGroup
	for c := range clients {
		open.Go(func() {
			for i := range each {
				results[c*each+i] = to.of(c*each + i).Send(ctx)
			}
		})
	}
	open.Wait()
	return newReport(results, time.Since(began))
}
