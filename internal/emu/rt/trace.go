package rt

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Trace writes Chrome trace events to the file that CANN_EMU_TRACE names: host calls by thread, and
// the work of every stream. After each Flush the file is a JSON list.
type Trace struct {
	mu     sync.Mutex
	file   *os.File
	w      *bufio.Writer
	start  time.Time
	named  map[[2]int]bool // processes and threads that have been named
	closed bool
	before string // what separates the next event from what is there
	ended  bool   // the file has the end of the list
}

// traceEvent is one event of the format; times are in microseconds.
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

// OpenTrace creates the file. The empty path gives nil, which records nothing.
func OpenTrace(path string) (*Trace, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Create(strings.ReplaceAll(path, "%p", strconv.Itoa(os.Getpid())))
	if err != nil {
		return nil, fmt.Errorf("CANN_EMU_TRACE: %w", err)
	}
	t := &Trace{file: file, w: bufio.NewWriter(file), start: time.Now(), named: make(map[[2]int]bool), before: "[\n"}
	return t, nil
}

// endOfList ends the file until there are more events.
const endOfList = "\n]\n"

// hostProcess is the row of host calls; device d has row d+1.
const hostProcess = 0

// Host records a call of the program that began at begin and ends now.
func (t *Trace) Host(name string, begin time.Time, code uint64) {
	if t == nil {
		return
	}
	var args map[string]any
	if code != 0 {
		args = map[string]any{"result": int32(code)}
	}
	tid := unix.Gettid()
	t.add(traceEvent{Name: name, Category: "host", Process: hostProcess, Thread: tid, Args: args}, begin, "host", fmt.Sprintf("thread %d", tid))
}

// now returns the time, or the zero time without a trace, where it is not needed.
func (t *Trace) now() (now time.Time) {
	if t != nil {
		now = time.Now()
	}
	return now
}

// task records the work of a stream.
func (t *Trace) task(s *Stream, task *Task, begin time.Time, err error) {
	if t == nil {
		return
	}
	args := task.Notes
	if err != nil {
		args = maps.Clone(args)
		if args == nil {
			args = map[string]any{}
		}
		args["error"] = err.Error()
	}
	t.add(traceEvent{Name: task.Name, Category: "stream", Process: s.Device() + 1, Thread: int(s.id), Args: args}, begin,
		fmt.Sprintf("device %d", s.Device()), fmt.Sprintf("stream %d", s.id))
}

func (t *Trace) add(e traceEvent, begin time.Time, process, thread string) {
	e.Phase, e.Time, e.Duration = "X", microseconds(begin.Sub(t.start)), microseconds(time.Since(begin))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name([2]int{e.Process, -1}, "process_name", process)
	t.name([2]int{e.Process, e.Thread}, "thread_name", thread)
	t.write(e)
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// name writes the name of a row at its first event. The caller holds t.mu.
func (t *Trace) name(row [2]int, kind, name string) {
	if t.named[row] {
		return
	}
	t.named[row] = true
	t.write(traceEvent{Name: kind, Phase: "M", Process: row[0], Thread: max(row[1], 0), Args: map[string]any{"name": name}})
}

// write appends an event. When the disk is full, the trace ends but the program goes on. The caller
// holds t.mu.
func (t *Trace) write(e traceEvent) {
	if t.closed {
		return
	}
	line, err := json.Marshal(e)
	if err == nil && t.ended {
		_, err = t.file.Seek(-int64(len(endOfList)), io.SeekEnd)
		t.ended = false
	}
	if err == nil {
		_, err = t.w.Write(append([]byte(t.before), line...))
		t.before = ",\n"
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "CANN_EMU_TRACE:", err)
		t.closed = true
	}
}

// Flush writes buffered events to the file.
func (t *Trace) Flush() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.ended {
		return
	}
	if t.before == "[\n" { // no event yet
		_, _ = t.w.WriteString("[")
		t.before = "\n"
	}
	_, _ = t.w.WriteString(endOfList) // Flush returns its error
	t.ended = true
	if err := t.w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "CANN_EMU_TRACE:", err)
		t.closed = true
	}
}
