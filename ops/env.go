package ops

import "github.com/goascend/cann/acl"

// Parallel is how work is split among ranks: what a kernel must know to say whether it
// fits. A size of 0 means 1.
type Parallel struct {
	Tensor, Sequence, Context, Expert, Pipeline int
}

// Env is what kernels are chosen by. Selection is a pure function of it and of the
// arguments' signature.
type Env struct {
	SoC           string // aclrtGetSocName, such as "Ascend910B1"
	CANN          string // CANN version, "" when unknown
	UnifiedBuffer int    // bytes of Unified Buffer per vector core
	Parallel      Parallel
}

// unifiedBuffer is the Unified Buffer of the chips that acl supports: 192 KiB on Atlas A2
// and A3, 248 KiB on Ascend 950.
func unifiedBuffer(soc string) int {
	if len(soc) >= 9 && soc[:9] == "Ascend950" {
		return 248 << 10
	}
	return 192 << 10
}

// EnvOf describes a device that runs alone; set Parallel when it does not.
func EnvOf(dev *acl.Device) Env {
	rt := dev.Runtime()
	soc := rt.SoC()
	version, err := rt.CANNVersion()
	if err != nil {
		version = "" // a runtime without version files still runs kernels
	}
	return Env{SoC: soc, CANN: version, UnifiedBuffer: unifiedBuffer(soc)}
}
