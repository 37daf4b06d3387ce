package rt_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func TestCannAttributes(t *testing.T) {
	p, th := newProcess(t), new(rt.Thread)
	var list, n uint64
	p.Must(th, "aclGetCannAttributeList", rttest.Address(&list), rttest.Address(&n))
	attributes := rt.Read[int32](list, n)
	assert.ElementsMatch(t, []int32{abi.ACL_CANN_ATTR_INF_NAN, abi.ACL_CANN_ATTR_BF16, abi.ACL_CANN_ATTR_JIT_COMPILE}, attributes)
	for _, a := range attributes {
		assert.Equal(t, uint64(1), p.Out(th, "aclGetCannAttribute", 1, uint64(a)))
	}
	assert.Equal(t, rt.InvalidParam, p.Call(th, "aclGetCannAttribute", 99, rttest.Address(&n)))
	assert.Contains(t, rttest.Text(th), "attribute 99")
	assert.Equal(t, rt.InvalidParam, p.Call(th, "aclGetCannAttribute", 0, 0))
	assert.Equal(t, rt.InvalidParam, p.Call(th, "aclGetCannAttributeList", 0, rttest.Address(&n)))
	assert.Equal(t, rt.InvalidParam, p.Call(th, "aclGetCannAttributeList", rttest.Address(&list), 0))
}

func TestDeviceFeature(t *testing.T) {
	p, th := newProcess(t), new(rt.Thread)
	for _, feature := range []uint64{abi.ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, abi.ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV} {
		value := int32(7)
		p.Must(th, "aclrtGetDeviceCapability", 0, feature, rttest.Address(&value))
		assert.Equal(t, int32(abi.ACL_DEV_FEATURE_NOT_SUPPORT), value)
	}
	var value int32
	assert.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtGetDeviceCapability", 0, 2, rttest.Address(&value)))
	assert.Contains(t, rttest.Text(th), "feature 2")
	assert.Equal(t, rt.InvalidDevice, p.Call(th, "aclrtGetDeviceCapability", 4, 1, rttest.Address(&value)))
	assert.Equal(t, rt.InvalidParam, p.Call(th, "aclrtGetDeviceCapability", 0, 1, 0))
}

func TestArchCompatibility(t *testing.T) {
	p, th := newProcess(t), new(rt.Thread)
	for soc, want := range map[string]uint64{"Ascend910B1": 1, "Ascend910_9391": 1, "Ascend310P3": 0, "": 0} {
		text := []byte(soc + "\x00")
		assert.Equal(t, want, p.Out(th, "aclrtCheckArchCompatibility", 1, rttest.Address(&text[0])), soc)
	}
	text := []byte("Ascend910B1\x00")
	assert.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtCheckArchCompatibility", rttest.Address(&text[0]), 0))
	assert.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtCheckArchCompatibility", 0, rttest.Address(&text[0])))
}
