package kernel

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCrew: each item is computed once, by crews of any size on any number of cores, one after the other and
// several at a time.
func TestCrew(t *testing.T) {
	for _, parts := range []int64{1, 2, 3, 4, 8, 17} {
		t.Run(fmt.Sprint(parts), func(t *testing.T) {
			t.Parallel()
			for n := range int64(300) {
				seen := make([]atomic.Int32, n)
				c := newCrew(n, 1+n%7, parts, func(lo, hi int64) {
					for i := lo; i < hi; i++ {
						seen[i].Add(1)
					}
				})
				recruit(c, int(parts-1))
				c.work()
				c.dismiss()
				for i := range seen {
					require.EqualValues(t, 1, seen[i].Load(), "item %d of %d", i, n)
				}
			}
		})
	}
}

// TestDismiss: a crew waits for helpers at work, and a late helper finds nothing to do.
func TestDismiss(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	c := newCrew(1, 1, 2, func(_, _ int64) { close(begun); <-end })
	go c.help()
	<-begun
	gone := make(chan struct{})
	go func() { c.dismiss(); close(gone) }()
	select {
	case <-gone:
		t.Fatal("dismiss did not wait for the helper")
	case <-time.After(20 * time.Millisecond):
	}
	c.help()
	close(end)
	<-gone

	c = newCrew(1, 1, 2, func(_, _ int64) { t.Error("a late helper called f") })
	c.dismiss()
	c.help()
}

// TestHelperWaits: a helper takes the kernel that is offered while it waits, and leaves the list of those that wait
// when it takes one and when none comes.
func TestHelperWaits(t *testing.T) {
	waits := func(h *helper) bool {
		idle.Lock()
		defer idle.Unlock()
		return slices.Contains(idle.helpers, h)
	}
	h := new(helper)
	assert.Nil(t, h.wait())
	assert.False(t, waits(h))

	c, taken := newCrew(0, 1, 2, nil), make(chan *crew)
	go func() {
		offer := h.wait()
		for offer == nil {
			offer = h.wait()
		}
		taken <- offer
	}()
	for offered := false; !offered; {
		recruit(c, 1) // another helper may take it
		select {
		case got := <-taken:
			assert.Same(t, c, got)
			offered = true
		case <-time.After(patience / 4):
		}
	}
	assert.False(t, waits(h))
}
