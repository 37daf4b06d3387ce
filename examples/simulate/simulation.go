package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Simulation is a schedule on a chip.
type Simulation struct {
	Chip    Chip
	Entries []Entry
	// Ranks are the ranks in the job of the devices of the schedule, which wait for each other's messages. All other ranks are
	// taken to be as far as the one that exchanges something with them.
	Ranks map[int]int
	// Places are the ranks in the job of the ranks of each communicator, by its name.
	Places map[string][]int
}

// stepRange begins the names of ranges that are steps. The last step is reported, from the end of the one before, or from its own beginning.
const stepRange = "step "

// Kind says what a span of the timeline is.
type Kind int

// Kinds of spans.
const (
	Kernel Kind = iota
	Exchange
	HostCopy
	Named // a range of the program
)

// Span is work on a stream. Times are in seconds since the beginning of the schedule.
type Span struct {
	Device, Stream int
	Kind           Kind
	Name, Limit    string
	Start, Seconds float64
	Shapes         string
}

// Result describes the last step of a simulation.
type Result struct {
	Seconds float64 // of the slowest device
	Devices []Usage
	Spans   []Span // of the step
	// Unknown counts tasks without a rule, which take no time.
	Unknown map[string]int
}

// Usage says what a device does in the step, in seconds.
type Usage struct {
	Device, Rank int
	Seconds      float64
	Kernels      float64           // with at least one kernel
	Limits       map[Limit]float64 // of these, by what limits the kernel
	Exchanges    float64           // with at least one collective or message
	Exposed      float64           // of these, without a kernel
	Idle         float64           // with neither: waits for the host or another stage
	Launches     int
}

// queued is an entry on its way.
type queued struct {
	*Entry
	at     float64 // when the host had launched it
	posted bool
	wants  []message // of peers
}

type message struct {
	from, to, number int
	sent             bool
}

// stream is a queue of a device.
type stream struct {
	id   int
	rest []*queued
	free float64 // when its last work has ended
}

// device is a device with its host.
type device struct {
	id, rank int
	program  []*Entry // calls that the host has not made yet
	host     float64
	streams  []*stream
	free     [units]float64     // when each unit is free
	begins   map[string]float64 // of steps, by the host's time
	ends     []float64
	launches []float64
	open     map[string]float64
	counts   map[[2]int]int
}

// unit is a part of a device that does one thing at a time.
type unit int

const (
	cores unit = iota
	hccsLinks
	roceLinks
	hostLink
	units
)

type run struct {
	*Simulation
	devices []*device
	records map[uint64]float64
	known   map[uint64]bool
	posts   map[message]float64
	spans   []Span
	unknown map[string]int
}

// Run times the schedule.
func (s Simulation) Run() (*Result, error) {
	r := &run{Simulation: &s, records: map[uint64]float64{}, known: map[uint64]bool{}, posts: map[message]float64{}, unknown: map[string]int{}}
	byID := map[int]*device{}
	for i := range s.Entries {
		e := &s.Entries[i]
		d := byID[e.Device]
		if d == nil {
			rank, ok := s.Ranks[e.Device]
			if !ok {
				return nil, fmt.Errorf("simulate: the schedule has device %d, which is no rank", e.Device)
			}
			d = &device{id: e.Device, rank: rank, begins: map[string]float64{}, open: map[string]float64{}, counts: map[[2]int]int{}}
			byID[e.Device] = d
		}
		d.program = append(d.program, e)
		if e.Record != 0 {
			r.known[e.Record] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		r.devices = append(r.devices, byID[id])
	}
	for {
		for _, d := range r.devices {
			if err := r.call(d); err != nil {
				return nil, err
			}
		}
		done, err := r.next()
		if err != nil {
			return nil, err
		}
		if done {
			return r.result()
		}
	}
}

func (d *device) stream(id int) *stream {
	for _, st := range d.streams {
		if st.id == id {
			return st
		}
	}
	st := &stream{id: id}
	d.streams = append(d.streams, st)
	return st
}

// call lets the host call until it has to wait.
func (r *run) call(d *device) error {
	for len(d.program) > 0 {
		e := d.program[0]
		st := d.stream(e.Stream)
		switch {
		case e.Sync:
			if len(st.rest) > 0 {
				return nil
			}
			d.host = max(d.host, st.free)
			d.program = d.program[1:]
			continue
		case e.Launch != "" || e.Collective != "" || e.Copy != "":
			d.host += r.Chip.Launch
			d.launches = append(d.launches, d.host)
		case e.Begin != "" && strings.HasPrefix(e.Begin, stepRange):
			d.begins[e.Begin] = d.host
		case e.End != "" && strings.HasPrefix(e.End, stepRange):
			if len(d.ends) == 0 {
				d.ends = append(d.ends, d.begins[e.End])
			}
			d.ends = append(d.ends, d.host)
		}
		q := &queued{Entry: e, at: d.host}
		if len(e.Messages) > 0 {
			if err := r.expect(d, q); err != nil {
				return err
			}
		}
		st.rest = append(st.rest, q)
		d.program = d.program[1:]
	}
	return nil
}

// expect numbers the messages of an entry between devices of the schedule.
func (r *run) expect(d *device, q *queued) error {
	places := r.Places[q.Comm]
	for _, m := range q.Messages {
		if m.Peer < 0 || m.Peer >= len(places) {
			return fmt.Errorf("simulate: rank %d of communicator %q, which has %d", m.Peer, q.Comm, len(places))
		}
		peer := slices.IndexFunc(r.devices, func(o *device) bool { return o.rank == places[m.Peer] })
		if peer < 0 {
			continue
		}
		other := r.devices[peer].rank
		for _, way := range []struct {
			bytes    float64
			from, to int
			sent     bool
		}{{m.Sent, d.rank, other, true}, {m.Received, other, d.rank, false}} {
			if way.bytes == 0 {
				continue
			}
			key := [2]int{way.from, way.to}
			q.wants = append(q.wants, message{way.from, way.to, d.counts[key], way.sent})
			d.counts[key]++
		}
	}
	return nil
}

// ready returns when the first entry of a stream may start.
func (r *run) ready(st *stream, q *queued) (at float64, ok bool) {
	at = max(st.free, q.at)
	if q.Wait != 0 {
		if !r.known[q.Wait] {
			return at, true // it was before the schedule
		}
		t, ok := r.records[q.Wait]
		return max(at, t), ok
	}
	if !q.posted {
		q.posted = true
		for _, m := range q.wants {
			r.posts[m] = at
		}
	}
	for _, m := range q.wants {
		m.sent = !m.sent
		t, ok := r.posts[m]
		if !ok {
			return 0, false
		}
		at = max(at, t)
	}
	return at, true
}

// next executes the entry that can start first.
func (r *run) next() (done bool, err error) {
	var best struct {
		d     *device
		st    *stream
		start float64
		work  timed
	}
	waiting := ""
	for _, d := range r.devices {
		for _, st := range d.streams {
			if len(st.rest) == 0 {
				continue
			}
			q := st.rest[0]
			at, ok := r.ready(st, q)
			if !ok {
				waiting = fmt.Sprintf("stream %d of rank %d", st.id, d.rank)
				continue
			}
			w, err := r.time(d, q.Entry)
			if err != nil {
				return false, err
			}
			start := max(at, w.free(d))
			if best.d == nil || start < best.start {
				best.d, best.st, best.start, best.work = d, st, start, w
			}
		}
	}
	if best.d == nil {
		for _, d := range r.devices {
			if len(d.program) > 0 || waiting != "" {
				return false, fmt.Errorf("simulate: %s waits for what never comes; do all stages of the pipeline have a device in the schedule", cmp.Or(waiting, fmt.Sprintf("the host of rank %d", d.rank)))
			}
		}
		return true, nil
	}
	r.execute(best.d, best.st, best.start, best.work)
	return false, nil
}

// timed is the time of an entry and the units that it keeps.
type timed struct {
	seconds float64
	units   []unit
	limit   string
	kind    Kind
}

// free returns when the units are free.
func (w timed) free(d *device) (at float64) {
	for _, u := range w.units {
		at = max(at, d.free[u])
	}
	return at
}

// time returns what an entry takes.
func (r *run) time(d *device, e *Entry) (w timed, err error) {
	switch {
	case e.Launch != "":
		seconds, limit, err := r.Chip.seconds(e)
		return timed{seconds: seconds + r.Chip.Start, units: []unit{cores}, limit: string(limit)}, err
	case e.Copy != "" && (e.From == "device" || e.From == "") && e.To == "device":
		n := e.Bytes
		if e.From != "" {
			n *= 2
		}
		return timed{seconds: n/r.Chip.Memory + r.Chip.Start, units: []unit{cores}, limit: string(Memory)}, nil
	case e.Copy != "":
		return timed{seconds: e.Bytes/r.Chip.Host + r.Chip.Start, units: []unit{hostLink}, kind: HostCopy}, nil
	case e.Collective != "":
		places := r.Places[e.Comm]
		if len(places) == 0 {
			return w, fmt.Errorf("simulate: communicator %q of %s has no places", e.Comm, e.Collective)
		}
		var x exchange
		if len(e.Messages) > 0 {
			x, err = r.Chip.messages(e, places, d.rank)
		} else {
			x, err = r.Chip.groupOf(places, d.rank).collective(e)
		}
		w = timed{seconds: x.hccs + x.roce, kind: Exchange}
		if x.hccs > 0 {
			w.units = append(w.units, hccsLinks)
		}
		if x.roce > 0 {
			w.units = append(w.units, roceLinks)
		}
		return w, err
	}
	return w, nil
}

func (r *run) execute(d *device, st *stream, start float64, w timed) {
	q := st.rest[0]
	st.rest = st.rest[1:]
	end := start + w.seconds
	st.free = end
	for _, u := range w.units {
		d.free[u] = end
	}
	name := cmp.Or(strings.TrimPrefix(q.Launch, "aclnn"), q.Collective, q.Copy)
	switch {
	case q.Record != 0:
		r.records[q.Record] = end
	case q.Begin != "":
		d.open[q.Begin] = end
	case q.End != "":
		if from, ok := d.open[q.End]; ok {
			r.spans = append(r.spans, Span{Device: d.id, Stream: st.id, Kind: Named, Name: q.End, Start: from, Seconds: end - from})
		}
	case name != "":
		r.spans = append(r.spans, Span{Device: d.id, Stream: st.id, Kind: w.kind, Name: name, Limit: w.limit, Start: start, Seconds: w.seconds, Shapes: q.shapes()})
	case q.Wait == 0 && q.Task != "":
		r.unknown[q.Task]++
	}
}

// shapes describes the tensors of a launch, or the bytes of an exchange.
func (e *Entry) shapes() string {
	if e.Launch == "" {
		return fmt.Sprintf("%.0f bytes", max(e.Bytes, e.Count, e.Sent, e.Received))
	}
	var parts []string
	for _, t := range e.Tensors[:min(len(e.Tensors), 4)] {
		parts = append(parts, fmt.Sprintf("%s %s%v", t.Name, t.DType, t.Shape))
	}
	return strings.Join(parts, ", ")
}

// result describes the last step.
func (r *run) result() (*Result, error) {
	res := &Result{Unknown: r.unknown}
	windows := map[int][2]float64{}
	for _, d := range r.devices {
		if len(d.ends) < 2 {
			return nil, fmt.Errorf("simulate: the schedule of rank %d has no range of a step", d.rank)
		}
		windows[d.id] = [2]float64{d.ends[len(d.ends)-2], d.ends[len(d.ends)-1]}
	}
	for _, s := range r.spans {
		if w := windows[s.Device]; s.Start < w[1] && s.Start+s.Seconds > w[0] {
			res.Spans = append(res.Spans, s)
		}
	}
	for _, d := range r.devices {
		w := windows[d.id]
		u := Usage{Device: d.id, Rank: d.rank, Seconds: w[1] - w[0], Limits: map[Limit]float64{}}
		var kernels, exchanges, both []interval
		for _, s := range res.Spans {
			if s.Device != d.id || s.Kind == Named {
				continue
			}
			x := interval{max(s.Start, w[0]), min(s.Start+s.Seconds, w[1])}
			switch s.Kind {
			case Kernel:
				kernels = append(kernels, x)
				u.Limits[Limit(s.Limit)] += x.to - x.from
			case Exchange:
				exchanges = append(exchanges, x)
			}
			if s.Kind != HostCopy {
				both = append(both, x)
			}
		}
		for _, at := range d.launches {
			if at > w[0] && at <= w[1] {
				u.Launches++
			}
		}
		all := covered(both)
		u.Kernels, u.Exchanges = covered(kernels), covered(exchanges)
		u.Exposed, u.Idle = all-u.Kernels, u.Seconds-all
		res.Devices = append(res.Devices, u)
		res.Seconds = max(res.Seconds, u.Seconds)
	}
	return res, nil
}

type interval struct{ from, to float64 }

// covered returns how long at least one interval lasts.
func covered(all []interval) (sum float64) {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	end := 0.0
	for _, x := range all {
		if x.to > end {
			sum += x.to - max(x.from, end)
			end = x.to
		}
	}
	return sum
}
