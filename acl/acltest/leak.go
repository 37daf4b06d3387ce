package acltest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goascend/cann/acl"
)

// NoLeaks requires that, when the test ends, no more objects of package acl are open than now:
// tensors' memory, streams, events and so on. Open calls it; a test that opens the runtime
// itself calls it first.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := acl.Live() // not empty if an earlier test has failed
	t.Cleanup(func() {
		t.Helper()
		if left := more(acl.Live(), before); left != "" {
			t.Errorf("the test left open: %s", left)
		}
	})
}

// more names the kinds of objects of which there are more than before.
func more(now, before map[acl.Kind]int) string {
	var left []string
	for kind, n := range now {
		if n > before[kind] {
			left = append(left, fmt.Sprintf("%d of kind %v", n-before[kind], kind))
		}
	}
	slices.Sort(left)
	return strings.Join(left, ", ")
}
