package thread

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseThreads(t *testing.T) {
	for text, want := range map[string]int{"": 0, "1": 1, "16": 16, "4096": 4096} {
		n, err := ParseThreads(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, n)
	}
	for _, text := range []string{"0", "-2", "two", "4097", "1.5", " 3", "99999999999999999999"} {
		_, err := ParseThreads(text)
		assert.ErrorContains(t, err, "CANN_EMU_THREADS", text)
	}
}
