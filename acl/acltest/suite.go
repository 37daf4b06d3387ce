package acltest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/goascend/cann/acl"
)

// Suite runs a package's tests with the runtime open all the time, where there is one. Without
// it the last Close of each test finalises CANN and frees the device's cache, which the next
// test makes again. Where there is no CANN it leaves out the examples, which cannot skip
// themselves.
//
//	func TestMain(m *testing.M) { os.Exit(acltest.Suite{M: m}.Run()) }
type Suite struct{ M *testing.M }

// Run runs the tests and returns the program's exit code: that of the tests, or 1 if they leave
// objects of package acl open. It has the form that goleak.VerifyTestMain takes.
func (s Suite) Run() int {
	if os.Getenv(sweptVariable) != "" {
		return s.M.Run()
	}
	rt, err := acl.Open(acl.Config{})
	if errors.Is(err, acl.ErrNotInstalled) {
		skipExamples()
		return s.M.Run() // each test that needs the runtime logs why there is none
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := s.M.Run()
	if err := rt.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if left := more(acl.Live(), nil); left != "" {
		fmt.Fprintln(os.Stderr, "the tests left open:", left)
		code = max(code, 1)
	}
	return code
}

// skipExamples is the flag -skip=^Example, beside what the command line has.
func skipExamples() {
	flag.Parse()
	f := flag.Lookup("test.skip")
	pattern := "^Example"
	if asked := f.Value.String(); asked != "" {
		pattern = asked + "|" + pattern
	}
	_ = f.Value.Set(pattern) // any text is taken
}
