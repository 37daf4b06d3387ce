package dcmi

import (
	"fmt"
	"strings"

	"github.com/goascend/cann/internal/abi/soc"
	"github.com/goascend/cann/internal/emu/rt"
)

// Constant facts about emulated devices, which npu-smi reports too.
const (
	Maker           = "Ascend"        // of the chip
	ChipVersion     = "V1"            // of the chip
	SoftwareVersion = "emulated"      // of the driver and the firmware; there is none
	Product         = "emulated card" // its name
	Manufacturer    = "emulator"      // of the card
	Vendor          = 0x19e5          // of the chip, on the PCI bus
	PCIDevice       = 0xd802          // the number of the chip there
	MemoryMegahertz = 1600            // the clock of the memory on the chip
)

// ChipName returns the name of a machine's chips without their maker: 910B1 for Ascend910B1.
func ChipName(c rt.Config) string { return strings.TrimPrefix(c.SoC, Maker) }

// Chip returns what the chips of a machine are.
func Chip(c rt.Config) (soc.Chip, error) { return soc.Named(c.SoC) }

// Board returns the number of a machine's boards. Monitors tell Atlas A3 from others by it.
func Board(c rt.Config) uint32 {
	if strings.HasPrefix(c.SoC, "Ascend910_93") {
		return 0xb0
	}
	return 0
}

// Serial returns the serial number of a card.
func Serial(card int) string { return fmt.Sprintf("EMULATED%04d", card) }

// Bus returns the number of a die's bus.
func Bus(die int) uint32 { return uint32(die) + 1 }
