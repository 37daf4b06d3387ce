package acltest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goascend/cann/cshim"
)

// traceVariable names the file of the emulator's trace.
const traceVariable = "CANN_EMU_TRACE"

// Call is an operator that the emulator ran.
type Call struct {
	Name     string   // of the C function, such as "aclnnSort"
	AICPU    string   // the kernel that a 910B would run on its slow AI CPU, such as "Sort of int64", or ""
	Expanded []string // tensors with stride 0 that CANN would copy to dense ones before the call
}

// Trace runs body in a process of its own, see Rerun, with the emulator's trace, and passes the
// operators that ran there to check, in the order in which they ended. What check does is done in
// the first process. Without the emulator, whose trace it is, the test is skipped.
//
//	acltest.Trace(t, step, func(t *testing.T, calls []acltest.Call) {
//		for _, c := range calls {
//			if c.AICPU != "" {
//				t.Errorf("%s leaves the AI Core: %s", c.Name, c.AICPU)
//			}
//		}
//	})
func Trace(t *testing.T, body func(t *testing.T), check func(t *testing.T, calls []Call), variables ...string) {
	t.Helper()
	if !cshim.Emulated {
		t.Skip("only the emulator writes a trace: go test -tags emu")
	}
	path := filepath.Join(t.TempDir(), "trace.json")
	Rerun(t, body, append([]string{traceVariable + "=" + path}, variables...)...)
	if os.Getenv(rerunVariable) == t.Name() {
		return
	}
	calls, err := readTrace(path)
	if err != nil {
		t.Fatal(err)
	}
	check(t, calls)
}

// readTrace reads the operators from a trace, whose list has no end. The last line may be cut where
// the process ended; it is a host call, because streams write what they did when they become idle.
func readTrace(path string) (calls []Call, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	text = append(bytes.TrimRight(bytes.TrimSpace(whole), ",]"), ']')
	var events []struct {
		Name     string
		Category string `json:"cat"`
		Args     struct {
			AICPU    string
			Expanded []string
		}
	}
	if err := json.Unmarshal(text, &events); err != nil {
		return nil, err
	}
	for _, e := range events {
		if e.Category == "stream" && strings.HasPrefix(e.Name, "aclnn") {
			calls = append(calls, Call{e.Name, e.Args.AICPU, e.Args.Expanded})
		}
	}
	return calls, nil
}
