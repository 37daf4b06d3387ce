package acltest

import (
	"slices"
	"testing"
)

// Eight shares of a sweep have each failure once.
func TestShares(t *testing.T) {
	var all, together []fault
	for call := range 100 {
		all = append(all, fault{"aclrtMalloc", -1, call})
	}
	for _, value := range []string{"1/8", "2/8", "3/8", "4/8", "5/8", "6/8", "7/8", "8/8"} {
		part, parts, err := share(value)
		if err != nil {
			t.Fatal(err)
		}
		some := every(all, part, parts)
		if len(some) != 12 && len(some) != 13 {
			t.Errorf("%s has %d of 100", value, len(some))
		}
		together = append(together, some...)
	}
	slices.SortFunc(together, func(a, b fault) int { return a.call - b.call })
	if !slices.Equal(all, together) {
		t.Errorf("together they have %v", together)
	}
	if part, parts, err := share("all"); err != nil || !slices.Equal(every(all, part, parts), all) {
		t.Errorf("all is not all: %v", err)
	}
	for _, value := range []string{"some", "0/8", "9/8", "1/0", "-1/8", "2"} {
		if _, _, err := share(value); err == nil {
			t.Errorf("%q is a share", value)
		}
	}
}
