package rt

import (
	"unsafe"

	"github.com/goascend/cann/internal/abi"
)

// cannAttributes is what the chips of the emulator can do: infinities and NaN in arithmetic,
// bfloat16, and operators compiled when they are called. C programs read it in place.
var cannAttributes = [...]int32{abi.ACL_CANN_ATTR_INF_NAN, abi.ACL_CANN_ATTR_BF16, abi.ACL_CANN_ATTR_JIT_COMPILE}

func (r *Runtime) capabilityFunctions() table {
	return table{
		"aclGetCannAttributeList":     cannAttributeList,
		"aclGetCannAttribute":         cannAttribute,
		"aclrtGetDeviceCapability":    r.deviceFeature,
		"aclrtCheckArchCompatibility": r.archCompatibility,
	}
}

func cannAttributeList(t *Thread, a []uint64) uint64 {
	for i, name := range []string{"cannAttrList", "num"} {
		if a[i] == 0 {
			return t.null("aclGetCannAttributeList", name)
		}
	}
	Write(a[0], uint64(uintptr(unsafe.Pointer(&cannAttributes))))
	Write(a[1], uint64(len(cannAttributes)))
	return 0
}

func cannAttribute(t *Thread, a []uint64) uint64 {
	if a[1] == 0 {
		return t.null("aclGetCannAttribute", "value")
	}
	for _, have := range cannAttributes {
		if have == int32(a[0]) {
			Write(a[1], int32(1))
			return 0
		}
	}
	return t.Fail(invalidParam, "EH0001: aclGetCannAttribute: attribute %d is unknown", int32(a[0]))
}

// deviceFeature answers for features of the task scheduler and of queues, which the emulator
// does not have.
func (r *Runtime) deviceFeature(t *Thread, a []uint64) uint64 {
	const function = "aclrtGetDeviceCapability"
	if d, code := r.device(t, int32(a[0])); d == nil {
		return code
	}
	if a[2] == 0 {
		return t.null(function, "value")
	}
	switch int64(int32(a[1])) {
	case abi.ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, abi.ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV:
		Write(a[2], int32(abi.ACL_DEV_FEATURE_NOT_SUPPORT))
		return 0
	}
	return t.Fail(paramInvalid, "EE1003: %s: feature %d is unknown", function, int32(a[1]))
}

// archCompatibility says whether operators built for a chip run on this one: all that the
// emulator knows have the same kind of cores.
func (r *Runtime) archCompatibility(t *Thread, a []uint64) uint64 {
	const function = "aclrtCheckArchCompatibility"
	for i, name := range []string{"socVersion", "canCompatible"} {
		if a[i] == 0 {
			return t.null(function, name)
		}
	}
	compatible := int32(0)
	if _, err := findSoC(CString(a[0])); err == nil {
		compatible = 1
	}
	Write(a[1], compatible)
	return 0
}
