package blas

import (
	"fmt"
	"sync"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/emu/rt"
)

// Library is the emulated libops_blas of one process.
type Library struct {
	rt *rt.Runtime

	mu       sync.Mutex
	callback uint64 // of logs
}

// New returns the functions for the runtime of a process.
func New(r *rt.Runtime) *Library { return &Library{rt: r} }

// workspaceSize is the device memory that the library takes for each handle.
const workspaceSize = 32 << 20

// Handle is an aclblasHandle.
type Handle struct {
	handle uint64
	stream rt.Handle

	memory *rt.Memory
	own    uint64 // address of the library's workspace; 0 while the program's is used
	given  uint64 // size of the program's workspace
}

// refusal is an error with the code that the library returns.
type refusal struct {
	code int32
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int32, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

func null(function, name string) error {
	if name == "handle" {
		return refuse(abi.ACLBLAS_STATUS_HANDLE_IS_NULLPTR, "%s: handle is null", function)
	}
	return refuse(abi.ACLBLAS_STATUS_INVALID_VALUE, "%s: %s is null", function, name)
}

// answer returns the code of an error. Its text, which the library logs at most, goes where package cshim finds it.
func answer(t *rt.Thread, err error) rt.Code {
	if err == nil {
		return 0
	}
	code := int32(abi.ACLBLAS_STATUS_INTERNAL_ERROR)
	if r, ok := err.(*refusal); ok {
		code = r.code
	}
	return t.Fail(code, "%v", err)
}

// legacy are the functions that call a null handle not initialised.
var legacy = map[string]bool{
	"aclblasSasum": true, "aclblasSdot": true, "aclblasCdotu": true, "aclblasCdotc": true, "aclblasSnrm2": true,
	"aclblasSnrm2Ex": true, "aclblasSrotm": true, "aclblasStpttr": true, "aclblasStrttp": true,
}

//npugen:decode aclblasHandle_t aclblasHandle
func (l *Library) handle(function string, h rt.Handle) (*Handle, error) {
	x, ok := rt.Lookup[*Handle](&l.rt.Handles, h)
	switch {
	case ok:
		return x, nil
	case h == 0 && legacy[function]:
		return nil, refuse(abi.ACLBLAS_STATUS_NOT_INITIALIZED, "%s: handle is null", function)
	case h == 0:
		return nil, null(function, "handle")
	}
	return nil, refuse(abi.ACLBLAS_STATUS_NOT_INITIALIZED, "%s: the handle was destroyed, or is none (the library uses its memory)", function)
}

func (l *Library) aclblasCreate(t *rt.Thread, handle rt.Out[rt.Handle]) error {
	if *(*uint64)(rt.Pointer(uint64(handle))) != 0 {
		return refuse(abi.ACLBLAS_STATUS_INVALID_VALUE, "aclblasCreate: *handle is not null; the library takes it for a handle that would be lost")
	}
	device, code := l.rt.CurrentDevice(t)
	if device < 0 {
		return refuse(abi.ACLBLAS_STATUS_ALLOC_FAILED, "aclblasCreate: no device is current (%d)", code)
	}
	x := &Handle{memory: l.rt.Memory(device)}
	if err := x.allocate(); err != nil {
		return err
	}
	x.handle = l.rt.Handles.New(rt.BLASKind, x)
	handle.Set(x.handle)
	return nil
}

func (x *Handle) allocate() error {
	at, ok := x.memory.Alloc(workspaceSize)
	if !ok {
		return refuse(abi.ACLBLAS_STATUS_ALLOC_FAILED, "the device has no %d bytes for the workspace of a handle", workspaceSize)
	}
	x.own, x.given = at, 0
	return nil
}

func (x *Handle) release() {
	if x.own != 0 {
		x.memory.Release(x.own)
		x.own = 0
	}
}

// await waits for the handle's stream.
func (l *Library) await(t *rt.Thread, function string, x *Handle) error {
	s, code := l.rt.Stream(t, x.stream)
	if s == nil || s.Capturing() {
		return refuse(abi.ACLBLAS_STATUS_EXECUTION_FAILED, "%s: the handle's stream is not live in this context, or captures (%d)", function, int32(code))
	}
	if f := s.Synchronize(rt.Wait{}); f != nil {
		return refuse(abi.ACLBLAS_STATUS_EXECUTION_FAILED, "%s: %v", function, f)
	}
	return nil
}

func (l *Library) aclblasDestroy(t *rt.Thread, handle *Handle) error {
	if err := l.await(t, "aclblasDestroy", handle); err != nil {
		return err
	}
	handle.release()
	l.rt.Handles.Delete(handle.handle)
	return nil
}

// aclblasSetStream waits for the former stream, and gives the handle the library's workspace again.
func (l *Library) aclblasSetStream(t *rt.Thread, handle *Handle, stream rt.Handle) error {
	if err := l.await(t, "aclblasSetStream", handle); err != nil {
		return err
	}
	handle.stream = stream
	if handle.own != 0 {
		return nil
	}
	return handle.allocate()
}

func (l *Library) aclblasGetStream(handle *Handle, stream rt.Out[rt.Handle]) error {
	stream.Set(handle.stream)
	return nil
}

// aclblasSetWorkspace takes memory of the program if there is more than before.
func (l *Library) aclblasSetWorkspace(t *rt.Thread, handle *Handle, workspace uintptr, workspaceSize uint64) error {
	switch {
	case workspace == 0 || workspaceSize == 0:
		return refuse(abi.ACLBLAS_STATUS_INVALID_VALUE, "aclblasSetWorkspace: workspace is null, or its size is 0")
	case handle.own == 0 && workspaceSize <= handle.given:
		return nil
	}
	if err := l.await(t, "aclblasSetWorkspace", handle); err != nil {
		return err
	}
	handle.release()
	handle.given = workspaceSize
	return nil
}

// aclblasGetVersion returns 1.0.0 as the sources have it; the handle may be null.
func (l *Library) aclblasGetVersion(_ rt.Handle, version rt.Out[int32]) error {
	version.Set(10000)
	return nil
}

func (l *Library) aclblasLoggerConfigure(_, _, _ int32, _ *string) error { return nil }

func (l *Library) aclblasSetLoggerCallback(userCallback uintptr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callback = uint64(userCallback)
	return nil
}

func (l *Library) aclblasGetLoggerCallback(userCallback rt.Out[rt.Address]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	userCallback.Set(rt.Address(l.callback))
	return nil
}

// Chips whose library has a function.
const (
	on910B = 1 << iota // and on the 910_93
	on950
	onBoth = on910B | on950
)

// built refuses a function that the library of the emulated chip has not.
func (l *Library) built(function string, chips int) error {
	has := 0
	switch acceptance.ChipOf(l.rt.SoC()) {
	case acceptance.Ascend910B, acceptance.Ascend910_93:
		has = on910B
	case acceptance.Ascend950:
		has = on950
	}
	if chips&has == 0 {
		return refuse(abi.ACLBLAS_STATUS_ARCH_MISMATCH, "%s: the library for %s has no such function", function, l.rt.SoC())
	}
	return nil
}
