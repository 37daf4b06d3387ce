package cshim

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFirstLaunches starts the first launches of an operator from several goroutines at once. Each
// launch must find the addresses of both phases.
func TestFirstLaunches(t *testing.T) {
	if _, err := Opened(Op); err != nil {
		t.Skip(err)
	}
	operators := make([]Operator, 1e5)
	for i := range operators {
		operators[i].Symbol = "aclnnAdd"
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range operators {
				l := Launch{op: &operators[i]}
				assert.NoError(t, l.start())
				if l.head.prepare == 0 || l.head.execute == 0 {
					t.Error("a phase is missing")
				}
			}
		})
	}
	group.Wait()
}
