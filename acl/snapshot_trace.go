package acl

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// traceEvent is an event of Chrome's trace format.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Start    float64        `json:"ts"`
	Duration float64        `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// WriteTrace writes the snapshot as a picture that Perfetto and chrome://tracing show: a row for each
// segment, on which its blocks stand at their offsets, a microsecond for each KiB. Blocks are coloured
// by their names, which have the holder and the stream; a click shows the rest.
func (s AllocatorSnapshot) WriteTrace(to io.Writer) error {
	out := bufio.NewWriter(to)
	first := true
	put := func(e traceEvent) error {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		separator := ",\n"
		if first {
			separator, first = "[\n", false
		}
		_, err = out.WriteString(separator + string(text))
		return err
	}
	name := fmt.Sprintf("memory of device %d, 1 µs is 1 KiB", s.Device)
	if err := put(traceEvent{Name: "process_name", Phase: "M", Process: s.Device, Args: map[string]any{"name": name}}); err != nil {
		return err
	}
	for row, segment := range s.Segments {
		label := fmt.Sprintf("segment %#x, %d KiB", segment.Address, segment.Bytes>>10)
		if err := put(traceEvent{Name: "thread_name", Phase: "M", Process: s.Device, Thread: row + 1, Args: map[string]any{"name": label}}); err != nil {
			return err
		}
		for _, b := range segment.Blocks {
			if err := put(b.event(s.Device, row+1, segment.Address)); err != nil {
				return err
			}
		}
	}
	if _, err := out.WriteString("\n]\n"); err != nil {
		return err
	}
	return out.Flush()
}

// event is the block in the picture.
func (b AllocatorBlock) event(device, row int, base uint64) traceEvent {
	e := traceEvent{
		Name: string(b.State), Category: string(b.State), Phase: "X", Start: float64(b.Address-base) / 1024, Duration: float64(b.Bytes) / 1024,
		Process: device, Thread: row, Args: map[string]any{"address": fmt.Sprintf("%#x", b.Address), "bytes": b.Bytes, "stream": b.Stream},
	}
	if b.Holder != "" {
		kind, stack, _ := strings.Cut(b.Holder, "\n")
		e.Name = kind
		e.Args["requested"] = b.Requested
		if stack != "" {
			e.Args["stack"] = stack
		}
	}
	if b.Stream >= 0 {
		e.Name += fmt.Sprintf(" of stream %d", b.Stream)
	}
	return e
}
