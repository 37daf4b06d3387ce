package rt

import "github.com/goascend/cann/internal/abi"

// The emulator stores these settings and returns them, but they change nothing: its kernels are
// deterministic and have no time limit.

func (r *Runtime) aclrtSetOpExecuteTimeOut(uint32) Code       { return 0 }
func (r *Runtime) aclrtSetOpExecuteTimeOutWithMs(uint32) Code { return 0 }
func (r *Runtime) aclrtSetOpWaitTimeout(uint32) Code          { return 0 }

// The last options of the process and of a context.
const lastProcessOption, lastContextOption = int32(abi.ACL_OPT_ENABLE_KERNEL_EARLY_START), int32(abi.ACL_OPT_STRONG_CONSISTENCY)

func validSysParam(t *Thread, opt, last int32) Code {
	if opt < 0 || opt > last {
		return t.Fail(InvalidParam, "EH0001: system parameter %d is unknown; 0 to %d are possible", opt, last)
	}
	return 0
}

// validSysValue refuses what an option cannot be set to. Determinism has four levels; the others are on or off.
func validSysValue(t *Thread, opt, last int32, value int64) Code {
	if code := validSysParam(t, opt, last); code != 0 {
		return code
	}
	most := int64(1)
	if opt == int32(abi.ACL_OPT_DETERMINISTIC) {
		most = 3
	}
	if value < 0 || value > most {
		return t.Fail(ParamInvalid, "EE1003: system parameter %d cannot be %d; 0 to %d are possible", opt, value, most)
	}
	return 0
}

func (r *Runtime) aclrtSetSysParamOpt(t *Thread, opt int32, value int64) Code {
	code := validSysValue(t, opt, lastProcessOption, value)
	if code == 0 {
		r.sysParams.Store(opt, value)
	}
	return code
}

// aclrtGetSysParamOpt returns 0 for an option that was never set.
func (r *Runtime) aclrtGetSysParamOpt(t *Thread, opt int32, value Out[int64]) Code {
	if code := validSysParam(t, opt, lastProcessOption); code != 0 {
		return code
	}
	v, _ := r.sysParams.Load(opt)
	n, _ := v.(int64)
	value.Set(n)
	return 0
}

func (r *Runtime) aclrtCtxSetSysParamOpt(t *Thread, opt int32, value int64) Code {
	if code := validSysValue(t, opt, lastContextOption, value); code != 0 {
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
	if code := validSysParam(t, opt, lastContextOption); code != 0 {
		return code
	}
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
