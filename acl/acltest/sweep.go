package acltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
)

// EnvSweep set to "all" makes a Sweep fail every call instead of a sample. Set to "2/8", it fails every
// eighth call from the second on, so that several machines or runs share the work.
const EnvSweep = "CANN_TEST_SWEEP"

// sweptVariable is set in the processes of a Sweep, whose Suite leaves all calls to the program.
const sweptVariable = "CANN_TEST_SWEPT"

// sweepLimit is how long a program with a failure may take; one that takes longer hangs.
const sweepLimit = 90 * time.Second

// Sweep lets the calls of a program fail, one at a time and each in a process of its own: functions
// of CANN, and the work of streams. A failure must come back as an error of CANN's, without a panic
// and within 90 seconds, and the program must succeed when it runs again in the same process. The
// error must name a function that failed; if it has lines of several ranks ("rank 2: …"), before the
// second.
//
// A sample has each function once, over all programs of one Sweep, at a call that depends on the
// program. CANN_TEST_SWEEP=all is for every call: of the first rank in a program with one device,
// else of the rank on the second. Calls that only keep the books (of descriptors, contexts and
// queries) are sampled in that case too.
//
//	var sweep acltest.Sweep
//	sweep.Run(t, func(t *testing.T) error { return train(t.Context(), flags) })
type Sweep struct{ done map[string]bool }

// fault is a call that fails.
type fault struct {
	function string // with the prefix run/ for the work of a stream
	device   int    // -1 for all
	call     int
}

// String is the fault as CANN_EMU_FAULTS takes it.
func (f fault) String() string {
	at := ""
	if f.device >= 0 {
		at = fmt.Sprintf("@%d", f.device)
	}
	code := 507899 // ACL_ERROR_RT_INTERNAL_ERROR
	switch name := f.function; {
	case strings.HasPrefix(name, "run/"):
		code = 507015 // ACL_ERROR_RT_AICORE_EXCEPTION
	case strings.HasPrefix(name, "aclrtMalloc"):
		code = 207001 // ACL_ERROR_RT_MEMORY_ALLOCATION
	case strings.HasSuffix(name, "GetWorkspaceSize"):
		code = 561000 // ACLNN_ERR_INNER
	case strings.HasPrefix(name, "aclnn"):
		code = 361001 // ACLNN_ERR_RUNTIME_ERROR
	case strings.HasPrefix(name, "Hccl"):
		code = 4 // HCCL_E_INTERNAL
	}
	return fmt.Sprintf("%s%s:%d=%d", f.function, at, f.call, code)
}

// Run sweeps over a program. body runs it, and may check what it leaves behind; it returns the
// program's error. Without the emulator, whose faults they are, the test is skipped.
func (s *Sweep) Run(t *testing.T, body func(t *testing.T) error) {
	t.Helper()
	if !cshim.Emulated {
		t.Skip("only the emulator fails on demand: go test -tags emu")
	}
	if os.Getenv(rerunVariable) == t.Name() {
		underFault(t, body)
		return
	}
	trace := filepath.Join(t.TempDir(), "trace.json")
	if out, err := sweepProcess(t, traceVariable+"="+trace); err != nil {
		t.Fatalf("without a failure: %v\n%s", err, out)
	}
	faults, err := s.faults(t.Name(), trace)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	seen := 0
	places := make(chan struct{}, 2*runtime.GOMAXPROCS(0)) // some of the programs wait for a peer that failed
	for _, f := range faults {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			out, err := sweepProcess(t, "CANN_EMU_FAULTS="+f.String())
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(out, cannotFail) {
				return
			}
			if err != nil {
				t.Errorf("with %v: %v\n%s", f, err, out)
			}
			if strings.Contains(out, failureSeen) {
				seen++
			}
		})
	}
	all.Wait()
	t.Logf("%d failures, of which the program came to %d", len(faults), seen)
}

// cannotFail is the emulator's message about a rule for a function that returns no code.
const cannotFail = "this function returns no code, so it cannot fail"

// failureSeen is printed by a process whose program returned an error.
const failureSeen = "the program saw the failure"

// underFault is a Sweep's part in the process of a failure.
func underFault(t *testing.T, body func(t *testing.T) error) {
	err := body(t)
	if err == nil {
		return // the call was not made by this rank, or its failure did no harm
	}
	fmt.Println(failureSeen)
	// What fails on a stream may be reported by the failure of later work that read its results, or of the
	// same collective on another rank.
	first, _, _ := strings.Cut(err.Error(), "\nrank ")
	if !strings.HasPrefix(os.Getenv("CANN_EMU_FAULTS"), "run/") && !strings.Contains(first, "asked for by CANN_EMU_FAULTS") {
		t.Errorf("the error does not name the failure first: %v", err)
	}
	var one *acl.Error
	var other *cshim.Error
	if !errors.As(err, &one) && !errors.As(err, &other) {
		t.Errorf("it is no error of CANN's: %v", err)
	}
	if err := body(t); err != nil {
		t.Errorf("after the failure: %v", err)
	}
}

// sweepProcess runs the test in another process with a variable.
func sweepProcess(t *testing.T, variable string) (out string, err error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(t.Context(), sweepLimit+30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, program, "-test.run="+pattern(t.Name()), "-test.count=1", fmt.Sprintf("-test.timeout=%v", sweepLimit))
	// A collective that breaks on one rank leaves the others waiting until HCCL gives up.
	c.Env = append(os.Environ(), rerunVariable+"="+t.Name(), sweptVariable+"=1", "HCCL_EXEC_TIMEOUT=10", variable)
	text, err := c.CombinedOutput()
	return string(text), err
}

// bookkeeping are calls of which a full sweep takes every sixteenth only: programs make them by the
// hundred, and a failure is described by the same few lines.
func bookkeeping(name string) bool {
	return strings.HasPrefix(name, "aclDestroy") || slices.Contains([]string{"aclrtSetCurrentContext", "aclrtStreamQuery", "aclrtQueryEventStatus"}, name)
}

// faults reads the calls of a run and chooses those that fail.
func (s *Sweep) faults(program, trace string) (faults []fault, err error) {
	calls, devices, err := countCalls(trace)
	if err != nil {
		return nil, err
	}
	part, parts, err := share(os.Getenv(EnvSweep))
	if err != nil {
		return nil, err
	}
	if s.done == nil {
		s.done = map[string]bool{}
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		n := (calls[name] + devices - 1) / devices
		if parts > 0 {
			step := 1
			if bookkeeping(name) {
				step = 16
			}
			for call := 1; call <= n; call += step {
				faults = append(faults, fault{name, place(devices, call), call})
			}
			continue
		}
		if !s.done[name] {
			s.done[name] = true
			h := fnv.New32a()
			_, _ = h.Write([]byte(program + name))
			call := 1 + int(h.Sum32()%uint32(n))
			faults = append(faults, fault{name, place(devices, call), call})
		}
	}
	if parts > 0 {
		faults = every(faults, part, parts)
	}
	return faults, nil
}

// share reads the value of EnvSweep: which part of how many, or no parts for a sample.
func share(value string) (part, parts int, err error) {
	switch value {
	case "":
		return 0, 0, nil
	case "all":
		return 1, 1, nil
	}
	if n, _ := fmt.Sscanf(value, "%d/%d", &part, &parts); n != 2 || part < 1 || part > parts {
		return 0, 0, fmt.Errorf(`%s=%s: must be "all", or a part of all such as 2/8`, EnvSweep, value)
	}
	return part, parts, nil
}

// every returns each parts-th fault.
func every(faults []fault, part, parts int) (some []fault) {
	for i := part - 1; i < len(faults); i += parts {
		some = append(some, faults[i])
	}
	return some
}

// place is the device on which a call fails. The first call fails wherever it comes, since some
// functions are called before there is a device.
func place(devices, call int) int {
	if devices == 1 || call == 1 {
		return -1
	}
	return 1
}

// countCalls counts the calls in a trace by function, and the devices.
func countCalls(path string) (calls map[string]int, devices int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	calls = map[string]int{}
	rows := map[int]bool{}
	for line := range strings.Lines(string(text)) {
		var e struct {
			Name     string
			Category string `json:"cat"`
			Process  int    `json:"pid"`
		}
		if json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimSpace(line), ",")), &e) != nil {
			continue // the brackets of the list, or a line that was cut
		}
		switch { // ranges that the program names, and mstx, return no code; nor do the functions that make descriptors
		case !strings.HasPrefix(e.Name, "acl") && !strings.HasPrefix(e.Name, "Hccl"):
		case e.Category == "host" && !strings.HasPrefix(e.Name, "aclCreate"):
			calls[e.Name]++
		case e.Category == "stream":
			calls["run/"+e.Name]++
			rows[e.Process] = true
		}
	}
	return calls, max(len(rows), 1), nil
}
