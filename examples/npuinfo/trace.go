package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// leaving is a kind of call that leaves the AI Core, and how often it is in a trace.
type leaving struct {
	Operator string `json:"operator"` // C name
	Kernel   string `json:"kernel"`   // and the dtype for which it is on the AI CPU
	Calls    int    `json:"calls"`
}

// readTrace finds the calls in a trace of the emulator (CANN_EMU_TRACE) that a 910B would run on its
// AI CPU. It also returns the number of all calls of operators.
func readTrace(path string) (found []leaving, calls int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	// The list in a trace has no end, and its last line may be cut.
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	text = append(bytes.TrimRight(bytes.TrimSpace(whole), ",]"), ']')
	var events []struct {
		Name     string
		Category string `json:"cat"`
		Args     struct{ AICPU string }
	}
	if err := json.Unmarshal(text, &events); err != nil {
		return nil, 0, fmt.Errorf("%s is no trace of the emulator: %w", path, err)
	}
	counts := map[leaving]int{}
	for _, e := range events {
		if e.Category != "stream" || !strings.HasPrefix(e.Name, "aclnn") {
			continue
		}
		calls++
		if e.Args.AICPU != "" {
			counts[leaving{Operator: e.Name, Kernel: e.Args.AICPU}]++
		}
	}
	for _, l := range slices.SortedFunc(maps.Keys(counts), func(a, b leaving) int {
		return strings.Compare(a.Operator+a.Kernel, b.Operator+b.Kernel)
	}) {
		l.Calls = counts[l]
		found = append(found, l)
	}
	return found, calls, nil
}

// writeTrace reports on a trace.
func writeTrace(w io.Writer, o options) error {
	found, calls, err := readTrace(o.trace)
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(found)
	}
	for _, l := range found {
		if _, err := fmt.Fprintf(w, "%s leaves the AI Core: %s, %d times\n", l.Operator, l.Kernel, l.Calls); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "%d calls of operators, of which %d kinds leave the AI Core of a 910B\n", calls, len(found))
	return err
}
