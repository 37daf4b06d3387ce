package load

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Report sums up results.
type Report struct {
	Results  []Result
	Took     time.Duration
	Complete int // requests that were answered to the end
	Busy     int // requests with status 429
	Left     int // requests whose client left
	Other    []error
	Tokens   int
}

func newReport(results []Result, took time.Duration) Report {
	r := Report{Results: results, Took: took}
	for i := range results {
		x := &results[i]
		r.Tokens += x.Tokens()
		switch {
		case x.Left:
			r.Left++
		case x.Err == nil:
			r.Complete++
		case x.Status == http.StatusTooManyRequests:
			r.Busy++
		default:
			r.Other = append(r.Other, x.Err)
		}
	}
	return r
}

// Rate is the number of tokens a second.
func (r *Report) Rate() float64 { return float64(r.Tokens) / r.Took.Seconds() }

// First and Gap return percentiles of the time to the first token, and of that between two tokens.
func (r *Report) First(percent int) time.Duration {
	var all []time.Duration
	for _, x := range r.Results {
		if x.First > 0 {
			all = append(all, x.First)
		}
	}
	return percentile(all, percent)
}

func (r *Report) Gap(percent int) time.Duration {
	var all []time.Duration
	for _, x := range r.Results {
		all = append(all, x.Gaps...)
	}
	return percentile(all, percent)
}

func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}

func (r Report) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("%d requests: %d complete, %d busy, %d left, %d failed; %d tokens in %v, %.0f a second; first token p50 %v p99 %v, between tokens p50 %v p99 %v",
		len(r.Results), r.Complete, r.Busy, r.Left, len(r.Other), r.Tokens, r.Took.Round(time.Millisecond), r.Rate(),
		round(r.First(50)), round(r.First(99)), round(r.Gap(50)), round(r.Gap(99)))
}
