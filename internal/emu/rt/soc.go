package rt

import (
	"fmt"
	"maps"
	"slices"
)

// soc holds the properties of a chip from CANN's platform file.
type soc struct {
	cube, vector int64
	megahertz    int64
	l2           int64 // bytes
	memory       int64 // bytes
	arch         int64 // of the cores, as aclrtGetDeviceInfo returns it
	waitsAcross  bool  // streams can wait for events of other devices
	bfloat16     bool
}

const mib, gib = int64(1) << 20, int64(1) << 30

// socs holds the Atlas A2 (910B) and A3 (910_93) chips by name, and those that CANN's operators tell
// apart from them: the first 910s, which lack some features, 310P and 950.
var socs = map[string]soc{
	"Ascend910A":     {32, 32, 1000, 32 * mib, 32 * gib, 1001, false, false},
	"Ascend910B1":    {24, 48, 1850, 192 * mib, 64 * gib, 2201, true, true},
	"Ascend910B2":    {24, 48, 1800, 192 * mib, 64 * gib, 2201, true, true},
	"Ascend910B2C":   {24, 48, 1800, 192 * mib, 64 * gib, 2201, true, true},
	"Ascend910B3":    {20, 40, 1800, 192 * mib, 64 * gib, 2201, true, true},
	"Ascend910B4":    {20, 40, 1500, 96 * mib, 32 * gib, 2201, true, true},
	"Ascend910B4-1":  {20, 40, 1500, 168 * mib, 32 * gib, 2201, true, true},
	"Ascend910_9391": {24, 48, 1850, 192 * mib, 64 * gib, 2201, true, true},
	"Ascend910_9392": {24, 48, 1850, 192 * mib, 64 * gib, 2201, true, true},
	"Ascend910_9381": {24, 48, 1800, 192 * mib, 64 * gib, 2201, true, true},
	"Ascend910_9382": {24, 48, 1800, 192 * mib, 64 * gib, 2201, true, true},
	"Ascend910_9372": {20, 40, 1800, 192 * mib, 64 * gib, 2201, true, true},
	"Ascend910_9362": {20, 40, 1500, 168 * mib, 64 * gib, 2201, true, true},
	"Ascend910ProA":  {32, 32, 1100, 32 * mib, 32 * gib, 1001, false, false},
	"Ascend910ProB":  {30, 30, 1150, 32 * mib, 32 * gib, 1001, false, false},
	"Ascend310P1":    {10, 8, 1060, 16 * mib, 24e9, 2002, false, false},
	"Ascend310P3":    {8, 7, 1060, 16 * mib, 24e9, 2002, false, false},
	"Ascend950":      {32, 64, 1650, 128 * mib, 128 * gib, 3510, true, true},
}

func findSoC(name string) (soc, error) {
	s, ok := socs[name]
	if !ok {
		return soc{}, fmt.Errorf("CANN_EMU_SOC: unknown chip %q; known are %v", name, slices.Sorted(maps.Keys(socs)))
	}
	return s, nil
}

// SoC returns the name of the chip.
func (r *Runtime) SoC() string { return r.config.SoC }
