package simulate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Entry is a line of a schedule, see CANN_EMU_SCHEDULE in the emulator's README: exactly one of Launch, Collective, Copy, Task, Record,
// Wait, Sync, Begin and End is set.
type Entry struct {
	Device int `json:"device"`
	Stream int `json:"stream"`

	Launch  string         `json:"launch"` // C function of an operator
	Tensors []Tensor       `json:"tensors"`
	Args    map[string]any `json:"args"`
	AICPU   string         `json:"aicpu"` // the kernel, if a 910B runs it on the AI CPU

	Collective string    `json:"collective"` // C function of HCCL
	Comm       string    `json:"comm"`
	Rank       int       `json:"rank"`
	Ranks      int       `json:"ranks"`
	Count      float64   `json:"count"` // bytes of the elements that the call counts
	Sent       float64   `json:"sent"`
	Received   float64   `json:"received"`
	Messages   []Message `json:"messages"`

	Copy  string  `json:"copy"`
	From  string  `json:"from"`
	To    string  `json:"to"`
	Bytes float64 `json:"bytes"`

	Task   string `json:"task"`
	Record uint64 `json:"record"`
	Wait   uint64 `json:"wait"`
	Sync   bool   `json:"sync"`
	Begin  string `json:"begin"`
	End    string `json:"end"`
}

// Tensor is a tensor of a launch.
type Tensor struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
	Bytes float64 `json:"bytes"` // of which repeated elements count once
	Use   string  `json:"use"`   // r, w, or u for read and written
}

// Message has the bytes that a call sends to a peer and receives from it.
type Message struct {
	Peer     int     `json:"peer"`
	Sent     float64 `json:"sent"`
	Received float64 `json:"received"`
}

// ReadSchedule reads a schedule to its end.
func ReadSchedule(r io.Reader) (entries []Entry, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("simulate: line %d of the schedule: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("simulate: the schedule: %w", err)
	}
	return entries, nil
}
