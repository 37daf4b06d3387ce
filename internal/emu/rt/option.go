package rt

import "github.com/goascend/cann/internal/abi"

// The emulator stores these settings and returns them, but they change nothing: its kernels are
// deterministic and have no time limit.

func (r *Runtime) aclrtSetOpExecuteTimeOut(uint32) Code       { return 0 }
func (r *Runtime) aclrtSetOpExecuteTimeOutWithMs(uint32) Code { return 0 }
func (r *Runtime) aclrtSetOpWaitTimeout(uint32) Code          { return 0 }

func validSysParam(t *Thread, opt int32) Code {
	if opt < 0 || opt > int32(abi.ACL_OPT_ENABLE_KERNEL_EARLY_START) {
		return t.Fail(InvalidParam, "EH0001: system parameter %d is unknown", opt)
	}
	return 0
}

func (r *Runtime) aclrtSetSysParamOpt(t *Thread, opt int32, value int64) Code {
	code := validSysParam(t, opt)
	if code == 0 {
		r.sysParams.Store(opt, value)
	}
	return code
}

// aclrtGetSysParamOpt returns 0 for an option that was never set.
func (r *Runtime) aclrtGetSysParamOpt(t *Thread, opt int32, value Out[int64]) Code {
	if code := validSysParam(t, opt); code != 0 {
		return code
	}
	v, _ := r.sysParams.Load(opt)
	n, _ := v.(int64)
	value.Set(n)
	return 0
}

func (r *Runtime) aclrtCtxSetSysParamOpt(t *Thread, opt int32, value int64) Code {
	if code := validSysParam(t, opt); code != 0 {
		return code
	}
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.options[opt] = value
	return 0
}

func (r *Runtime) aclrtCtxGetSysParamOpt(t *Thread, opt int32, value Out[int64]) Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.options[opt]
	if !ok {
		return t.Fail(SysParamNotSet, "EE1018: aclrtCtxGetSysParamOpt: option %d was not set on the context", opt)
	}
	value.Set(v)
	return 0
}
