package export_test

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/export/exporttest"
	"github.com/stretchr/testify/assert"
)

func TestUnsupportedFromC(t *testing.T) {
	code, text := exporttest.Unsupported()
	assert.Equal(t, abi.ACL_ERROR_API_NOT_SUPPORT, code)
	assert.Contains(t, text, "aclmdlQuerySize: the emulator does not implement this function")
}

// Error texts belong to OS threads; their memory is allocated and freed with the thread.
func TestThreadsKeepTheirTexts(t *testing.T) {
	for range 20 {
		assert.Equal(t, 32, exporttest.Threads(32))
	}
}

func TestFloatResult(t *testing.T) {
	for bits, want := range map[uint16]float32{0x3E00: 1.5, 0x0000: 0, 0xC000: -2, 0x7BFF: 65504, 0x7C00: 65536} {
		assert.Equal(t, want, exporttest.Half(bits), "%#x", bits)
	}
}
