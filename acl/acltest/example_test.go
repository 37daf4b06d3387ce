package acltest_test

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// double stands for a user's own function: it doubles values on a device.
func double(t *testing.T, st *acl.Stream, values ...float32) ([]float32, error) {
	x, err := aclnn.FromSlice(t.Context(), st, aclnn.Float32, values, int64(len(values)))
	if err != nil {
		return nil, err
	}
	defer x.Close()
	if err := aclnn.InplaceMuls(st, aclnn.InplaceMulsParams{Self: x, Other: aclnn.Float(2)}); err != nil {
		return nil, err
	}
	return aclnn.ToSlice[float32](t.Context(), st, x)
}

func testDouble(t *testing.T) {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	got, err := double(t, st, 1, 2, 3)
	if err != nil || fmt.Sprint(got) != "[2 4 6]" {
		t.Errorf("got %v, %v", got, err)
	}
}

// In a test file, testDouble is called TestDouble, and go test -tags emu runs it.
func Example() {
	all := func(string, string) (bool, error) { return true, nil }
	fmt.Println("passed:", testing.RunTests(all, []testing.InternalTest{{Name: "TestDouble", F: testDouble}}))
	fmt.Println("left open:", len(acl.Live())-1) // the runtime itself is kept for the next test
	// Output:
	// passed: true
	// left open: 0
}
