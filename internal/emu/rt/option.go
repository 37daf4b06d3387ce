package rt

import "github.com/goascend/cann/internal/abi"

// optionFunctions are settings that the emulator keeps and answers but that change nothing
// in it: its kernels are deterministic, and they have no time limit.
func (r *Runtime) optionFunctions() table {
	return table{
		"aclrtSetSysParamOpt":            r.setSysParam,
		"aclrtGetSysParamOpt":            r.getSysParam,
		"aclrtCtxSetSysParamOpt":         r.setContextParam,
		"aclrtCtxGetSysParamOpt":         r.getContextParam,
		"aclrtSetOpExecuteTimeOut":       success,
		"aclrtSetOpExecuteTimeOutWithMs": success,
		"aclrtSetOpWaitTimeout":          success,
	}
}

func validSysParam(t *Thread, opt int32) uint64 {
	if opt < 0 || opt > int32(abi.ACL_OPT_ENABLE_KERNEL_EARLY_START) {
		return t.Fail(invalidParam, "EH0001: system parameter %d is unknown", opt)
	}
	return 0
}

func (r *Runtime) setSysParam(t *Thread, a []uint64) uint64 {
	opt := int32(a[0])
	if code := validSysParam(t, opt); code != 0 {
		return code
	}
	r.sysParams.Store(opt, int64(a[1]))
	return 0
}

// getSysParam: an option that was never set is 0.
func (r *Runtime) getSysParam(t *Thread, a []uint64) uint64 {
	if a[1] == 0 {
		return t.null("aclrtGetSysParamOpt", "value")
	}
	opt := int32(a[0])
	if code := validSysParam(t, opt); code != 0 {
		return code
	}
	v, _ := r.sysParams.Load(opt)
	n, _ := v.(int64)
	Write(a[1], n)
	return 0
}

func (r *Runtime) setContextParam(t *Thread, a []uint64) uint64 {
	opt := int32(a[0])
	if code := validSysParam(t, opt); code != 0 {
		return code
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.options[opt] = int64(a[1])
	return 0
}

func (r *Runtime) getContextParam(t *Thread, a []uint64) uint64 {
	if a[1] == 0 {
		return t.null("aclrtCtxGetSysParamOpt", "value")
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.options[int32(a[0])]
	if !ok {
		return t.Fail(sysParamNotSet, "EE1018: aclrtCtxGetSysParamOpt: option %d was not set on the context", int32(a[0]))
	}
	Write(a[1], v)
	return 0
}
