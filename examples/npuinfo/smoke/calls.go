package smoke

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Call is a call of an aclnn operator.
type Call struct {
	Operator string // C name without "aclnn"
	// Inputs are the tensors that it reads, by C name, with their dtypes.
	Inputs []Input
}

// Input is a tensor with its dtype, such as self:bfloat16.
type Input struct{ Name, DType string }

// String is the form "Sort(self:int64)".
func (c Call) String() string {
	var in []string
	for _, x := range c.Inputs {
		in = append(in, x.Name+":"+x.DType)
	}
	return c.Operator + "(" + strings.Join(in, " ") + ")"
}

// parseCall reads what String writes.
func parseCall(text string) (c Call, ok bool) {
	var in string
	c.Operator, in, ok = strings.Cut(strings.TrimSuffix(text, ")"), "(")
	for _, x := range strings.Fields(in) {
		name, dt, _ := strings.Cut(x, ":")
		c.Inputs = append(c.Inputs, Input{name, dt})
	}
	return c, ok
}

// Event is an operator of a trace of the emulator (CANN_EMU_TRACE), in the order of a stream.
type Event struct {
	Call   Call
	AICPU  string // the kernel that a 910B runs on its AI CPU, or ""
	Ranges []string
}

// ReadTrace reads the operators of a trace, each with the ranges (acl.Stream.Range) that were open on
// its stream. The list in a trace has no end, and its last line may be cut.
func ReadTrace(r io.Reader) (all []Event, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	text = append(bytes.TrimRight(bytes.TrimSpace(whole), ",]"), ']')
	var events []struct {
		Name     string
		Category string `json:"cat"`
		PID, TID int
		Args     struct{ Types, AICPU string }
	}
	if err := json.Unmarshal(text, &events); err != nil {
		return nil, fmt.Errorf("no trace of the emulator: %w", err)
	}
	open := map[[2]int][]string{}
	for _, e := range events {
		row := [2]int{e.PID, e.TID}
		if e.Category != "stream" {
			continue
		}
		if name, ok := strings.CutPrefix(e.Name, "begin "); ok {
			open[row] = append(slices.Clone(open[row]), name)
		} else if name, ok := strings.CutPrefix(e.Name, "end "); ok {
			open[row] = slices.DeleteFunc(slices.Clone(open[row]), func(n string) bool { return n == name })
		} else if name, ok := strings.CutPrefix(e.Name, "aclnn"); ok {
			c, _ := parseCall(name + "(" + e.Args.Types + ")")
			all = append(all, Event{Call: c, AICPU: e.Args.AICPU, Ranges: open[row]})
		}
	}
	return all, nil
}

// Needs are the calls that each kernel of package ops makes in a dtype, by "op|dtype|kernel".
type Needs map[string][]string

// NeedsOf collects the calls of the steps in a trace.
func NeedsOf(events []Event) Needs {
	found := map[string]map[string]bool{}
	for _, e := range events {
		for _, name := range e.Ranges {
			part := strings.SplitN(name, "|", 2)
			if len(part) < 2 || strings.Count(name, "|") != 3 {
				continue
			}
			if found[part[1]] == nil {
				found[part[1]] = map[string]bool{}
			}
			found[part[1]][e.Call.String()] = true
		}
	}
	needs := Needs{}
	for name := range found {
		needs[strings.Join(rotate(strings.Split(name, "|")), "|")] = slices.Sorted(maps.Keys(found[name]))
	}
	return needs
}

// rotate puts the operator before the dtype, so that the list is sorted by operators.
func rotate(p []string) []string { return []string{p[1], p[0], p[2]} }

// Write writes the needs, a line for each kernel, with its calls between tabs.
func (n Needs) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(out, "%s\t%s\n", name, strings.Join(n[name], "\t"))
	}
	return out.Flush()
}

//go:embed zz_needs.txt
var needsText string

// KnownNeeds returns the calls of the kernels of package ops, as the emulator recorded them on a chip
// of the kind 910B.
func KnownNeeds() Needs {
	needs := Needs{}
	for line := range strings.Lines(needsText) {
		name, calls, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		needs[name] = strings.Split(calls, "\t")
	}
	return needs
}
