package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goascend/cann/examples/job"
)

// moment is an entry of the ranks' flight records.
type moment struct {
	At   time.Time `json:"at"`
	Rank int       `json:"rank"`
	What string    `json:"what"`
}

// story merges the flight records of a job.
type story struct {
	Ranks   []string `json:"ranks"`   // why each record was written, the first first
	Missing []int    `json:"missing"` // ranks without a record
	Comms   []string `json:"communicators"`
	Last    []moment `json:"last"` // of all ranks, the oldest first
}

// lastMoments is how many entries a story has.
const lastMoments = 60

// writeFlight merges the flight records in a folder.
func writeFlight(w io.Writer, o options) error {
	records, err := job.ReadFlights(o.flight)
	if len(records) == 0 {
		return err
	}
	s := merge(records)
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return errors.Join(e.Encode(s), err)
	}
	lines := slices.Clone(s.Ranks)
	if len(s.Missing) > 0 {
		lines = append(lines, fmt.Sprintf("no record of ranks %v: they were killed, are stopped, or had no fault", s.Missing))
	}
	lines = append(lines, s.Comms...)
	for _, m := range s.Last {
		lines = append(lines, fmt.Sprintf("%s rank %d: %s", m.At.Format("15:04:05.000000"), m.Rank, m.What))
	}
	_, failed := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return errors.Join(failed, err)
}

// merge makes the story. The records may have been written by clocks that differ.
func merge(records []job.Flight) (s story) {
	slices.SortFunc(records, func(a, b job.Flight) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Rank, b.Rank)) })
	seen, size := map[int]bool{}, 0
	for _, f := range records {
		why, _, _ := strings.Cut(f.Why, "\n")
		s.Ranks = append(s.Ranks, fmt.Sprintf("%s rank %d of %d on %s: %s", f.At.Format("15:04:05.000000"), f.Rank, f.Size, f.Host, why))
		seen[f.Rank], size = true, max(size, f.Size)
		for _, l := range f.Launches {
			state := "not known to have ended"
			if l.Ended {
				state = "ended"
			}
			s.Last = append(s.Last, moment{l.At, f.Rank, fmt.Sprintf("%s, launch %d of stream %d of device %d, %s", l.Operator, l.Number, l.Stream, l.Device, state)})
		}
		for _, q := range f.Queued {
			kind := "collective"
			if q.Exchange {
				kind = "exchange"
			}
			s.Last = append(s.Last, moment{q.At, f.Rank, fmt.Sprintf("%s, %s %d of communicator %s, rank %d of %d there, stream %d", q.Call, kind, q.Number, q.Comm, q.Rank, q.Size, q.Stream)})
		}
	}
	for rank := range size {
		if !seen[rank] {
			s.Missing = append(s.Missing, rank)
		}
	}
	slices.SortStableFunc(s.Last, func(a, b moment) int { return a.At.Compare(b.At) })
	s.Last = s.Last[max(0, len(s.Last)-lastMoments):]
	s.Comms = compare(records)
	return s
}

// compare says where the ranks are in each communicator, those that are behind first.
func compare(records []job.Flight) (lines []string) {
	places := map[string]map[string][]int{} // by communicator and place
	for _, f := range records {
		for _, p := range f.Progress {
			where := fmt.Sprintf("queued %d (%s), ended %d", p.Seq, p.Op, p.Done)
			if p.Exchanged < p.Exchanges {
				where += fmt.Sprintf(", is in exchange %d (%s)", p.Exchanged+1, p.Exchange)
			}
			if places[p.Comm] == nil {
				places[p.Comm] = map[string][]int{}
			}
			places[p.Comm][where] = append(places[p.Comm][where], f.Rank)
		}
	}
	for _, comm := range slices.Sorted(maps.Keys(places)) {
		for _, where := range slices.Sorted(maps.Keys(places[comm])) {
			ranks := places[comm][where]
			slices.Sort(ranks)
			lines = append(lines, fmt.Sprintf("communicator %s: ranks %v %s", comm, ranks, where))
		}
	}
	return lines
}
