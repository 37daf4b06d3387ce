package optest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op"
)

// callsFile is the file in which the tests of a family record calls.
const callsFile = "testdata/accepted_calls.jsonl"

var record = flag.Bool("record", false, "add the calls of the tests that run to "+callsFile)

// Main runs the tests of a family that call the operators of a table. With -record it adds the
// calls that the tests make to the recorded calls, from which the table of element types is built.
func Main(m *testing.M, family abi.Family, operators op.Table) {
	flag.Parse()
	Tested = operators
	for name := range operators {
		if is := abi.FamilyOf(name); is != family {
			fmt.Fprintf(os.Stderr, "aclnn%s is in the table of family %s; abi.FamilyOf files it under %s\n", name, family, is)
			os.Exit(1)
		}
	}
	code := m.Run()
	if code == 0 && *record {
		if err := calls.write(callsFile, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
