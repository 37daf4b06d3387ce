package rt

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/soc"
)

// cannAttributes lists the features of the emulated chips: infinities and NaN in arithmetic,
// operators compiled at the call, and bfloat16, which the oldest lack. C programs read the array in
// place.
var cannAttributes = [...]int32{abi.ACL_CANN_ATTR_INF_NAN, abi.ACL_CANN_ATTR_JIT_COMPILE, abi.ACL_CANN_ATTR_BF16}

func (r *Runtime) attributes() []int32 {
	if r.chip().BFloat16 {
		return cannAttributes[:]
	}
	return cannAttributes[:2]
}

func (r *Runtime) aclGetCannAttributeList(cannAttrList Out[Address], num Out[uint64]) Code {
	cannAttrList.Set(Address(uintptr(unsafe.Pointer(&cannAttributes))))
	num.Set(uint64(len(r.attributes())))
	return 0
}

func (r *Runtime) aclGetCannAttribute(t *Thread, cannAttr int32, value Out[int32]) Code {
	if !slices.Contains(r.attributes(), cannAttr) {
		return t.Fail(InvalidParam, "EH0001: aclGetCannAttribute: attribute %d is unknown", cannAttr)
	}
	value.Set(1)
	return 0
}

// aclrtGetDeviceCapability reports features of the task scheduler and of queues as missing, since
// the emulator has none of them.
func (r *Runtime) aclrtGetDeviceCapability(t *Thread, _ *Device, devFeatureType int32, value Out[int32]) Code {
	switch int64(devFeatureType) {
	case abi.ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, abi.ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV:
		value.Set(int32(abi.ACL_DEV_FEATURE_NOT_SUPPORT))
		return 0
	}
	return t.Fail(ParamInvalid, "EE1003: aclrtGetDeviceCapability: feature %d is unknown", devFeatureType)
}

// aclrtCheckArchCompatibility reports whether operators built for a chip run on this one.
func (r *Runtime) aclrtCheckArchCompatibility(socVersion string, canCompatible Out[int32]) Code {
	chip, err := soc.Named(socVersion)
	canCompatible.Set(truth(err == nil && chip.Arch == r.chip().Arch))
	return 0
}
