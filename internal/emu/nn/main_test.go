package nn

import (
	"os"
	"testing"

	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) {
	optest.Tested = implementations
	os.Exit(m.Run())
}
