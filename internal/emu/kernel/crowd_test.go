package kernel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestCrowd: a yield that takes long counts for a while, and each later one anew.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crowd{start: time.Now()}
		c.notice(late)
		assert.False(t, c.now())
		c.notice(2 * late)
		assert.True(t, c.now())
		time.Sleep(memory / 2)
		c.notice(0)
		assert.True(t, c.now())
		c.notice(2 * late)
		time.Sleep(memory - 1)
		assert.True(t, c.now())
		time.Sleep(time.Nanosecond)
		assert.False(t, c.now())
	})
}
