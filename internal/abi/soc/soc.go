package soc

import (
	"fmt"
	"maps"
	"slices"
)

// Chip holds the properties of a chip from CANN's platform file.
type Chip struct {
	Cube, Vector  int64 // cores
	Megahertz     int64
	L2            int64 // bytes
	Memory        int64 // bytes
	UnifiedBuffer int64 // bytes of a vector core
	Arch          int64 // of the cores, as aclrtGetDeviceInfo returns it
	WaitsAcross   bool  // streams can wait for events of other devices
	BFloat16      bool
}

const kib, mib, gib = int64(1) << 10, int64(1) << 20, int64(1) << 30

// chips holds the Atlas A2 (910B) and A3 (910_93) chips by name, and those that CANN's operators distinguish
// from them: the first 910s, which lack some features, 310P and 950.
var chips = map[string]Chip{
	"Ascend910A":     {32, 32, 1000, 32 * mib, 32 * gib, 256 * kib, 1001, false, false},
	"Ascend910B1":    {24, 48, 1850, 192 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910B2":    {24, 48, 1800, 192 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910B2C":   {24, 48, 1800, 192 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910B3":    {20, 40, 1800, 192 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910B4":    {20, 40, 1500, 96 * mib, 32 * gib, 192 * kib, 2201, true, true},
	"Ascend910B4-1":  {20, 40, 1500, 168 * mib, 32 * gib, 192 * kib, 2201, true, true},
	"Ascend910_9391": {24, 48, 1850, 192 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910_9392": {24, 48, 1850, 192 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910_9381": {24, 48, 1800, 192 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910_9382": {24, 48, 1800, 192 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910_9372": {20, 40, 1800, 192 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910_9362": {20, 40, 1500, 168 * mib, 64 * gib, 192 * kib, 2201, true, true},
	"Ascend910ProA":  {32, 32, 1100, 32 * mib, 32 * gib, 256 * kib, 1001, false, false},
	"Ascend910ProB":  {30, 30, 1150, 32 * mib, 32 * gib, 256 * kib, 1001, false, false},
	"Ascend310P1":    {10, 8, 1060, 16 * mib, 24e9, 256 * kib, 2002, false, false},
	"Ascend310P3":    {8, 7, 1060, 16 * mib, 24e9, 256 * kib, 2002, false, false},
	"Ascend950":      {32, 64, 1650, 128 * mib, 128 * gib, 248 * kib, 3510, true, true},
}

// Names returns the names of the chips, sorted.
func Names() []string { return slices.Sorted(maps.Keys(chips)) }

// Named returns the chip of a name, as aclrtGetSocName returns it.
func Named(name string) (Chip, error) {
	c, ok := chips[name]
	if !ok {
		return Chip{}, fmt.Errorf("unknown chip %q; known are %v", name, Names())
	}
	return c, nil
}

// Like returns the chip of a name or, for one that is not known, the first of those whose names begin most alike:
// the chips of a family differ in their cores and their memory only.
func Like(name string) Chip {
	if c, ok := chips[name]; ok {
		return c
	}
	var like Chip
	most := -1
	for _, known := range Names() {
		n := 0
		for n < min(len(known), len(name)) && known[n] == name[n] {
			n++
		}
		if n > most {
			like, most = chips[known], n
		}
	}
	return like
}
