package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/npuinfo/smoke"
)

// leaving is a kind of call that leaves the AI Core, and how often it is in a trace.
type leaving struct {
	Operator string `json:"operator"` // C name
	Kernel   string `json:"kernel"`   // and the dtype for which it is on the AI CPU
	Calls    int    `json:"calls"`
}

// traced summarises a trace of the emulator (CANN_EMU_TRACE).
type traced struct {
	Calls    int              `json:"calls"`   // of operators
	Leaving  []leaving        `json:"leaving"` // those that a 910B would run on its AI CPU
	Foreseen []smoke.Forecast `json:"foreseen,omitempty"`
	toolkit  *smoke.Toolkit
}

// readTrace reads a trace, and compares it with the kernels of a toolkit if there is one.
func readTrace(path, toolkit string) (_ *traced, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	events, err := smoke.ReadTrace(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := &traced{Calls: len(events)}
	counts, needs := map[leaving]int{}, smoke.Needs{"the trace": nil}
	for _, e := range events {
		if e.AICPU != "" {
			counts[leaving{Operator: "aclnn" + e.Call.Operator, Kernel: e.AICPU}]++
		}
		needs["the trace"] = append(needs["the trace"], e.Call.String())
	}
	for _, l := range slices.SortedFunc(maps.Keys(counts), func(a, b leaving) int {
		return strings.Compare(a.Operator+a.Kernel, b.Operator+b.Kernel)
	}) {
		l.Calls = counts[l]
		r.Leaving = append(r.Leaving, l)
	}
	packages := smoke.OperatorFolders()
	if toolkit != "" {
		packages = filepath.SplitList(toolkit)
	}
	if t := smoke.ReadToolkit(packages, chip()); t.Kernels > 0 {
		slices.Sort(needs["the trace"])
		needs["the trace"] = slices.Compact(needs["the trace"])
		r.toolkit, r.Foreseen = t, t.Foresee(needs)
	}
	return r, nil
}

// chip is the chip of this machine, or the usual one.
func chip() string {
	rt, err := acl.Open(acl.Config{})
	if err != nil {
		return "Ascend910B1"
	}
	name := rt.SoC()
	if err := rt.Close(); err != nil || name == "" {
		return "Ascend910B1"
	}
	return name
}

// writeTrace reports on a trace.
func writeTrace(w io.Writer, o options) error {
	r, err := readTrace(o.trace, o.try.toolkit)
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	for _, l := range r.Leaving {
		if _, err := fmt.Fprintf(w, "%s leaves the AI Core: %s, %d times\n", l.Operator, l.Kernel, l.Calls); err != nil {
			return err
		}
	}
	for _, f := range r.Foreseen {
		if _, err := fmt.Fprintf(w, "foreseen %-8s %s: %s\n", f.Outlook, f.Call, f.Reason); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "%d calls of operators, of which %d kinds leave the AI Core of a 910B\n", r.Calls, len(r.Leaving))
	if err == nil && r.toolkit != nil {
		_, err = fmt.Fprintf(w, "%d kinds are not ready for the AI Core in %s\n", len(r.Foreseen), strings.Join(r.toolkit.Folders, ", "))
	}
	return err
}
