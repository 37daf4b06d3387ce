// Package acltest helps to test programs that use a device. It opens CANN for a test: the
// emulator with -tags emu, which runs on any machine, else what is installed. Where there is
// no CANN, or no such device, the test is skipped and logs the reason. What the test opens is closed
// when it ends, and the test fails if it leaves anything of package acl open.
//
//	func TestScale(t *testing.T) {
//		dev := acltest.Device(t, acltest.Open(t), 0)
//		st := acltest.Stream(t, dev)
//		x, err := aclnn.FromSlice(t.Context(), st, aclnn.Float32, []float32{1, 2, 3}, 3)
//		if err != nil {
//			t.Fatal(err)
//		}
//		defer x.Close()
//		...
//	}
//
//	go test -tags emu ./...
//
// Rerun gives a test a process of its own with another emulator (less memory, sanitizers), and
// Faults one in which chosen calls fail. Sweep lets all calls of a program fail in turn. Numbers are
// compared elsewhere: the package knows no tensors.
//
// Open objects are counted for the process, not for a test: tests that call Open must not run
// in parallel.
package acltest
