package rt

import (
	"strconv"

	"github.com/goascend/cann/internal/abi"
)

// aclplatformGetDeviceInfo writes what the platform file of the chip has, as a C string. It refuses what that file
// lacks: the bytes of memory of the first 910s and the 910B2C, for example.
func (r *Runtime) aclplatformGetDeviceInfo(t *Thread, infoType int32, value Out[byte], maxLen uint32) Code {
	const function = "aclplatformGetDeviceInfo"
	chip := r.chip()
	core := chip.Core()
	memory := chip.Memory
	if core.Version == "AIC-C-100" || r.config.SoC == "Ascend910B2C" {
		memory = 0
	}
	numbers := map[int64]int64{
		abi.ACL_PLATFORM_AICORE_CNT: chip.Cube, abi.ACL_PLATFORM_AICORE_UB_SIZE: chip.UnifiedBuffer, abi.ACL_PLATFORM_L2_SIZE: chip.L2,
		abi.ACL_PLATFORM_MEMORY_SIZE: memory, abi.ACL_PLATFORM_CUBE_FREQ: chip.Megahertz, abi.ACL_PLATFORM_VEC_FREQ: core.VectorMegahertz,
		abi.ACL_PLATFORM_BT_SIZE: core.BiasTable, abi.ACL_PLATFORM_L0_A_SIZE: core.L0A, abi.ACL_PLATFORM_L0_B_SIZE: core.L0B,
		abi.ACL_PLATFORM_L0_C_SIZE: core.L0C, abi.ACL_PLATFORM_L1_SIZE: core.L1, abi.ACL_PLATFORM_NPU_ARCH: chip.Arch,
	}
	texts := map[int64]string{
		abi.ACL_PLATFORM_SOC_VERSION: r.config.SoC, abi.ACL_PLATFORM_AIC_VERSION: core.Version, abi.ACL_PLATFORM_MEMORY_TYPE: core.MemoryType,
		abi.ACL_PLATFORM_CUBE_CORE_CNT: "", abi.ACL_PLATFORM_VECTOR_CORE_CNT: "0",
	}
	if core.CubeCores {
		numbers[abi.ACL_PLATFORM_CUBE_CORE_CNT] = chip.Cube
	}
	if core.VectorCores {
		numbers[abi.ACL_PLATFORM_VECTOR_CORE_CNT] = chip.Vector
	}
	text, known := texts[int64(infoType)]
	if n, counted := numbers[int64(infoType)]; counted {
		known = true
		if n > 0 {
			text = strconv.FormatInt(n, 10)
		}
	}
	switch {
	case !known:
		return t.Fail(InvalidParam, "EH0001: %s: information %d is unknown", function, infoType)
	case text == "":
		return t.Fail(InvalidParam, "EH0001: %s: the platform file of %s has no information %d", function, r.config.SoC, infoType)
	case uint64(len(text)) >= uint64(maxLen):
		return t.Fail(InvalidParam, "EH0001: %s: the text has %d bytes with its NUL, the buffer %d", function, len(text)+1, maxLen)
	}
	value.Fill(append([]byte(text), 0))
	return 0
}
