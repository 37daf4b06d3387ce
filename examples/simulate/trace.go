package simulate

import (
	"encoding/json"
	"fmt"
	"io"
)

// traceEvent is an event of Chrome's trace format, which Perfetto reads; times are in microseconds.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Time     float64        `json:"ts"`
	Duration float64        `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// rangeThread is the row of a device's ranges.
const rangeThread = 0

// WriteTrace writes the step as a trace for Perfetto: a process for each device, and in it a row for each stream and one for the ranges that
// the program has named.
func (r *Result) WriteTrace(w io.Writer) error {
	var events []traceEvent
	name := func(kind string, process, thread int, text string) {
		events = append(events, traceEvent{Name: kind, Phase: "M", Process: process, Thread: thread, Args: map[string]any{"name": text}})
	}
	for _, d := range r.Devices {
		name("process_name", d.Device, 0, fmt.Sprintf("rank %d", d.Rank))
		name("thread_name", d.Device, rangeThread, "ranges")
	}
	categories := map[Kind]string{Kernel: "kernel", Exchange: "exchange", HostCopy: "copy", Named: "range"}
	named := map[[2]int]bool{}
	for _, s := range r.Spans {
		e := traceEvent{Name: s.Name, Category: categories[s.Kind], Phase: "X", Time: 1e6 * s.Start, Duration: 1e6 * s.Seconds, Process: s.Device, Thread: s.Stream}
		if s.Kind == Named {
			e.Thread = rangeThread
		} else if row := [2]int{s.Device, s.Stream}; !named[row] {
			named[row] = true
			name("thread_name", s.Device, s.Stream, fmt.Sprintf("stream %d", s.Stream))
		}
		if s.Shapes != "" {
			e.Args = map[string]any{"shapes": s.Shapes}
		}
		if s.Limit != "" {
			e.Args["limit"] = s.Limit
		}
		events = append(events, e)
	}
	return json.NewEncoder(w).Encode(map[string]any{"traceEvents": events, "displayTimeUnit": "ms"})
}
