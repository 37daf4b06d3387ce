package acl

import (
	"errors"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Properties describe a device. A number that this CANN version does not report is 0.
type Properties struct {
	Name        string // chip, such as "Ascend910B1"
	Memory      int    // bytes of device memory, without what the system reserves
	L2          int    // bytes of the level 2 cache
	AICores     int
	CubeCores   int // from CANN 8.5
	VectorCores int
	AICPUs      int // from CANN 8.5
	Arch        int // 2201 on Atlas A2 and A3, 3510 on Ascend 950; from CANN 8.5
}

// Properties asks for them (aclrtGetDeviceInfo, or aclGetDeviceCapability before CANN 8.5).
func (d *Device) Properties() (Properties, error) {
	p := Properties{Name: d.Runtime().SoC()}
	_, total, err := d.MemInfo()
	if err != nil {
		return p, err
	}
	p.Memory = total
	for _, q := range []struct {
		to        *int
		attribute aclrtDevAttr
		older     aclDeviceInfo // of aclGetDeviceCapability, -1 for none
	}{
		{&p.AICores, abi.ACL_DEV_ATTR_AICORE_CORE_NUM, abi.ACL_DEVICE_INFO_AI_CORE_NUM},
		{&p.CubeCores, abi.ACL_DEV_ATTR_CUBE_CORE_NUM, -1},
		{&p.VectorCores, abi.ACL_DEV_ATTR_VECTOR_CORE_NUM, abi.ACL_DEVICE_INFO_VECTOR_CORE_NUM},
		{&p.AICPUs, abi.ACL_DEV_ATTR_AICPU_CORE_NUM, -1},
		{&p.L2, abi.ACL_DEV_ATTR_L2_CACHE_SIZE, abi.ACL_DEVICE_INFO_L2_SIZE},
		{&p.Arch, abi.ACL_DEV_ATTR_NPU_ARCH, -1},
	} {
		if *q.to, err = d.attribute(q.attribute, q.older); err != nil {
			return p, err
		}
	}
	return p, nil
}

// attribute asks in the newer way, or in the older one where that is missing.
func (d *Device) attribute(attribute aclrtDevAttr, older aclDeviceInfo) (int, error) {
	v, err := aclrtGetDeviceInfo(d.scope.handle, uint32(d.ID()), attribute)
	var missing *cshim.SymbolError
	if !errors.As(err, &missing) {
		return int(v), d.scope.wrap(err)
	}
	if older < 0 {
		return 0, nil
	}
	v, err = aclGetDeviceCapability(d.scope.handle, uint32(d.ID()), older)
	return int(v), d.scope.wrap(err)
}
