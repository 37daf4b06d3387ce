package knob

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUnknown(t *testing.T) {
	assert.NoError(t, Unknown(nil))
	assert.NoError(t, Unknown([]string{"HOME=/", "CANN_EMU_MEMORY=1G", "CANN_EMU_TEST_KEYS=1", "CANN_EMULATION=x"}))
	assert.ErrorContains(t, Unknown([]string{"CANN_EMU_MEMORY=1G", "CANN_EMU_MEMROY=1G"}), "CANN_EMU_MEMROY is no variable of the emulator")
}
