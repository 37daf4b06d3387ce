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

// Core holds the properties of the cores of an architecture. A number that the platform files lack is 0.
type Core struct {
	Version           string // such as "AIC-C-220"
	L0A, L0B, L0C, L1 int64  // bytes
	BiasTable         int64  // bytes
	VectorMegahertz   int64  // of vector cores
	MemoryType        string
	CubeCores         bool // the files count cube cores
	VectorCores       bool // the files count vector cores
}

var cores = map[int64]Core{
	1001: {Version: "AIC-C-100", L0A: 64 * kib, L0B: 64 * kib, L0C: 256 * kib, L1: mib},
	2002: {Version: "AIC-M-200", L0A: 64 * kib, L0B: 64 * kib, L0C: 256 * kib, L1: mib, VectorMegahertz: 1000, MemoryType: "0", VectorCores: true},
	2201: {Version: "AIC-C-220", L0A: 64 * kib, L0B: 64 * kib, L0C: 128 * kib, L1: 512 * kib, BiasTable: kib, CubeCores: true, VectorCores: true},
	3510: {Version: "AIC-C-310", L0A: 64 * kib, L0B: 64 * kib, L0C: 256 * kib, L1: 512 * kib, BiasTable: 4 * kib, VectorMegahertz: 1650, MemoryType: "0", CubeCores: true, VectorCores: true},
}

// Core returns the properties of the chip's cores.
func (c Chip) Core() Core { return cores[c.Arch] }
