package layout

import (
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestMain(m *testing.M) { optest.Main(m, abi.Layout, Table) }
