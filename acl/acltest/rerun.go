package acltest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goascend/cann/cshim"
)

// rerunVariable holds, in the process of a Rerun, the name of its test.
const rerunVariable = "CANN_TEST_RERUN"

// Rerun runs body in a process of its own: the test's program with this test alone and with
// variables, such as "CANN_EMU_MEMORY=64M", added to the environment. The emulator reads its
// settings once per process, so that this is how a test gets another one. If body fails there,
// or is skipped, so is the test, with what the process printed.
//
// What the test does before the call it does in both processes. TestMain runs again, too.
func Rerun(t *testing.T, body func(t *testing.T), variables ...string) {
	t.Helper()
	if os.Getenv(rerunVariable) == t.Name() {
		body(t)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run=" + pattern(t.Name()), "-test.v", "-test.count=1"}
	if deadline, ok := t.Deadline(); ok {
		args = append(args, fmt.Sprintf("-test.timeout=%v", max(time.Until(deadline), time.Second)))
	}
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = append(append(os.Environ(), variables...), rerunVariable+"="+t.Name())
	out, err := c.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("with %s: %v\n%s", strings.Join(variables, " "), err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skipf("with %s:\n%s", strings.Join(variables, " "), out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Fatalf("with %s the test did not run:\n%s", strings.Join(variables, " "), out)
	}
}

// pattern is the regular expression that -test.run takes for one test.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// Faults runs body in a process of its own, see Rerun, in which the emulator lets chosen calls
// fail. Rules are those of CANN_EMU_FAULTS, separated by semicolons:
//
//	aclrtMallocAlign32:3=207001          the third call fails with that code
//	aclnnAddGetWorkspaceSize@1:2+=561000 on device 1, the second launch and all after it
//	run/aclnnMul:5%=507015               each execution on a stream fails with probability 5 %
//	aclrtMemcpy=507899                   every call
//
// so that a test of what happens when the device has no memory is
//
//	acltest.Faults(t, "aclrtMallocAlign32=207001", func(t *testing.T) {
//		st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
//		_, err := st.Malloc(1 << 20)
//		if !errors.Is(err, acl.ErrOutOfMemory) {
//			t.Error(err)
//		}
//	})
//
// Without the emulator, whose faults they are, the test is skipped.
func Faults(t *testing.T, rules string, body func(t *testing.T)) {
	t.Helper()
	if !cshim.Emulated {
		t.Skip("only the emulator fails on demand: go test -tags emu")
	}
	Rerun(t, body, "CANN_EMU_FAULTS="+rules)
}
