package rt

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/abi"
)

func TestCannAttributes(t *testing.T) {
	p, th := newProcess(t), new(Thread)
	var list, n uint64
	p.must(th, "aclGetCannAttributeList", address(&list), address(&n))
	attributes := Read[int32](list, n)
	assert.ElementsMatch(t, []int32{abi.ACL_CANN_ATTR_INF_NAN, abi.ACL_CANN_ATTR_BF16, abi.ACL_CANN_ATTR_JIT_COMPILE}, attributes)
	for _, a := range attributes {
		assert.Equal(t, uint64(1), p.out(th, "aclGetCannAttribute", 1, uint64(a)))
	}
	assert.Equal(t, invalidParam, p.call(th, "aclGetCannAttribute", 99, address(&n)))
	assert.Contains(t, takeText(th), "attribute 99")
	assert.Equal(t, invalidParam, p.call(th, "aclGetCannAttribute", 0, 0))
	assert.Equal(t, invalidParam, p.call(th, "aclGetCannAttributeList", 0, address(&n)))
	assert.Equal(t, invalidParam, p.call(th, "aclGetCannAttributeList", address(&list), 0))
}

func TestDeviceFeature(t *testing.T) {
	p, th := newProcess(t), new(Thread)
	for _, feature := range []uint64{abi.ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, abi.ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV} {
		value := int32(7)
		p.must(th, "aclrtGetDeviceCapability", 0, feature, address(&value))
		assert.Equal(t, int32(abi.ACL_DEV_FEATURE_NOT_SUPPORT), value)
	}
	var value int32
	assert.Equal(t, paramInvalid, p.call(th, "aclrtGetDeviceCapability", 0, 2, address(&value)))
	assert.Contains(t, takeText(th), "feature 2")
	assert.Equal(t, invalidDevice, p.call(th, "aclrtGetDeviceCapability", 4, 1, address(&value)))
	assert.Equal(t, invalidParam, p.call(th, "aclrtGetDeviceCapability", 0, 1, 0))
}

func TestArchCompatibility(t *testing.T) {
	p, th := newProcess(t), new(Thread)
	for soc, want := range map[string]uint64{"Ascend910B1": 1, "Ascend910_9391": 1, "Ascend310P3": 0, "": 0} {
		text := []byte(soc + "\x00")
		assert.Equal(t, want, p.out(th, "aclrtCheckArchCompatibility", 1, address(&text[0])), soc)
	}
	text := []byte("Ascend910B1\x00")
	assert.Equal(t, invalidParam, p.call(th, "aclrtCheckArchCompatibility", address(&text[0]), 0))
	assert.Equal(t, invalidParam, p.call(th, "aclrtCheckArchCompatibility", 0, address(&text[0])))
}
