package rt

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Schedule is the file that CANN_EMU_SCHEDULE names. While it is written, the emulator checks calls and accounts for memory as
// always, but computes nothing and moves no data: the file has, in the order of the calls, what each stream would do, with shapes.
// So a program whose tensors no machine here could hold runs in seconds, and another program may say how long its work would take.
//
// What is small is still copied and exchanged, and computed if it consists of integers, because programs read numbers of rows and the like:
// see Small. Numbers that are not computed are 0.
type Schedule struct {
	mu     sync.Mutex
	file   *os.File
	w      *bufio.Writer
	err    error // why the file is incomplete; the next synchronise returns it
	events uint64
}

// Planned is a line of the schedule: exactly one of Launch, Collective, Copy, Task, Record, Wait, Sync, Begin and End is set.
type Planned struct {
	Device int   `json:"device"`
	Stream int32 `json:"stream,omitempty"`

	Launch  string          `json:"launch,omitempty"` // C function of an operator
	Tensors []PlannedTensor `json:"tensors,omitempty"`
	Args    map[string]any  `json:"args,omitempty"`  // numbers, texts and arrays of numbers among its arguments
	AICPU   string          `json:"aicpu,omitempty"` // the kernel, if a 910B runs it on the AI CPU

	Collective string     `json:"collective,omitempty"` // C function of HCCL
	Comm       string     `json:"comm,omitempty"`
	Rank       int        `json:"rank,omitempty"`
	Ranks      int        `json:"ranks,omitempty"`
	Sent       uint64     `json:"sent,omitempty"`     // bytes to other ranks
	Received   uint64     `json:"received,omitempty"` // bytes from other ranks
	Count      uint64     `json:"count,omitempty"`    // bytes of the elements that the call counts; of a collective with one count
	Messages   []Messages `json:"messages,omitempty"` // of sends and receives

	Copy string `json:"copy,omitempty"` // C function
	From string `json:"from,omitempty"` // device, pinned or pageable
	To   string `json:"to,omitempty"`

	Bytes uint64 `json:"bytes,omitempty"` // of a copy

	Task   string `json:"task,omitempty"`   // anything else that takes a place in the stream
	Record uint64 `json:"record,omitempty"` // number of the record of an event
	Wait   uint64 `json:"wait,omitempty"`   // the stream waits for that record
	Sync   bool   `json:"sync,omitempty"`   // the host waits for all that is in the stream
	Begin  string `json:"begin,omitempty"`  // a range of the program
	End    string `json:"end,omitempty"`
}

// PlannedTensor is a tensor of a launch.
type PlannedTensor struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
	Bytes int64   `json:"bytes"` // distinct ones
	Use   string  `json:"use"`   // r, w, or u for read and written
}

// Messages are the bytes that a call exchanges with a peer.
type Messages struct {
	Peer     int    `json:"peer"`
	Sent     uint64 `json:"sent,omitempty"`
	Received uint64 `json:"received,omitempty"`
}

// small is the most bytes of tensors with which an operator, a copy or a collective is done in earnest while a schedule is written. The numbers of rows
// of 128 experts that 256 ranks exchange have 128 KiB.
const small = 256 << 10

// Small reports whether work on so many bytes is done in earnest.
func (s *Schedule) Small(bytes uint64) bool { return bytes <= small }

// openSchedule creates the file. The empty path gives nil.
func openSchedule(path string) (*Schedule, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("CANN_EMU_SCHEDULE: %w", err)
	}
	return &Schedule{file: file, w: bufio.NewWriterSize(file, 1<<20)}, nil
}

// Refuse returns an error for a function whose work a schedule would not show, or nil without a schedule.
func (s *Schedule) Refuse(t *Thread, function string) Code {
	if s == nil {
		return 0
	}
	return t.Fail(FeatureNotSupported, "EE1005: %s: CANN_EMU_SCHEDULE follows streams, not graphs and their replays", function)
}

// Add writes a line. Without a schedule it does nothing.
func (s *Schedule) Add(p Planned) {
	if s == nil {
		return
	}
	line, err := json.Marshal(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		_, err = s.w.Write(append(line, '\n'))
	}
	if err != nil && s.err == nil {
		s.err = err
	}
}

// event returns the number of a new record of an event.
func (s *Schedule) event() uint64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	return s.events
}

// submitted writes the line of a task, or its name.
func (s *Schedule) submitted(on *Stream, task *Task) {
	if s == nil {
		return
	}
	p := Planned{Task: task.Name}
	if task.Planned != nil {
		p = *task.Planned
	}
	p.Device, p.Stream = on.Device(), on.id
	s.Add(p)
}

// waited writes that the host waits for a stream, and what was written before to the file.
func (s *Schedule) waited(on *Stream) *Fault {
	if s == nil {
		return nil
	}
	s.Add(Planned{Sync: true, Device: on.Device(), Stream: on.id})
	return s.flush()
}

func (s *Schedule) flush() *Fault {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.w.Flush(); s.err == nil {
		s.err = err
	}
	if s.err != nil {
		return &Fault{Code: InternalError, Text: fmt.Sprintf("CANN_EMU_SCHEDULE: %v", s.err)}
	}
	return nil
}

// names of places in a schedule.
var placeNames = map[place]string{pageable: "pageable", pinned: "pinned", device: "device", everywhere: "managed"}

// planned describes a copy.
func (x *transfer) planned() *Planned {
	return &Planned{Copy: x.function, From: placeNames[x.srcPlace], To: placeNames[x.dstPlace], Bytes: x.width * x.height}
}

// unscheduled are the settings that a schedule does not go with.
func (c Config) unscheduled() error {
	if c.Schedule != "" && (c.Sanitize != sanitize.Config{} || c.Trace != "") {
		return fmt.Errorf("CANN_EMU_SCHEDULE computes nothing that CANN_EMU_SANITIZE or CANN_EMU_TRACE could show; unset one")
	}
	return nil
}
