package fft

import (
	"sync"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Library is the emulated libcann_ops_fft of one process.
type Library struct{ rt *rt.Runtime }

// New returns the functions for the runtime of a process.
func New(r *rt.Runtime) *Library { return &Library{rt: r} }

// plan is an aclfftHandle. Calls with one plan must not overlap, as in the library.
type plan struct {
	handle  uint64
	lengths []int // of the dimensions; none until the plan is made
	stride  int   // between the numbers of one transform
	batch   int
	kind    int32 // aclfftType
	stream  rt.Handle
}

// refusal is an error with the code that the library returns.
type refusal struct {
	code int32
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int32, text string) error { return &refusal{code, text} }

func null(function, name string) error {
	return refuse(abi.ACLFFT_INVALID_VALUE, function+": "+name+" is null")
}

// answer returns the code of an error. Its text, which the library prints at most, goes where package cshim finds it.
func answer(t *rt.Thread, err error) rt.Code {
	if err == nil {
		return 0
	}
	code := int32(abi.ACLFFT_INTERNAL_ERROR)
	if r, ok := err.(*refusal); ok {
		code = r.code
	}
	return t.Fail(code, "%v", err)
}

//npugen:decode aclfftHandle
func (l *Library) plan(function string, h rt.Handle) (*plan, error) {
	p, ok := rt.Lookup[*plan](&l.rt.Handles, h)
	switch {
	case h == 0:
		return nil, null(function, "plan")
	case !ok:
		return nil, refuse(abi.ACLFFT_INVALID_PLAN, function+": the plan was destroyed, or is none")
	}
	return p, nil
}

func (l *Library) aclfftCreate(plan rt.Out[rt.Handle]) error {
	plan.Set(l.create().handle)
	return nil
}

func (l *Library) create() *plan {
	p := new(plan)
	p.handle = l.rt.Handles.New(rt.PlanKind, p)
	return p
}

func (l *Library) aclfftDestroy(plan *plan) error {
	l.rt.Handles.Delete(plan.handle)
	return nil
}

func (l *Library) aclfftSetStream(plan *plan, stream rt.Handle) error {
	plan.stream = stream
	return nil
}

// check refuses sizes, a direction and a kind that no plan has.
func check(function string, sizes []int32, dimension, kind int32) error {
	for _, n := range sizes {
		if n <= 0 {
			return refuse(abi.ACLFFT_INVALID_SIZE, function+": a length or the batch is not positive")
		}
	}
	if dimension != abi.ACLFFT_HORIZONTAL && dimension != abi.ACLFFT_VERTICAL {
		return refuse(abi.ACLFFT_INVALID_VALUE, function+": dimType is neither ACLFFT_HORIZONTAL nor ACLFFT_VERTICAL")
	}
	if kind < abi.ACLFFT_C2C || kind > abi.ACLFFT_Z2D {
		return refuse(abi.ACLFFT_INVALID_TYPE, function+": type is no aclfftType")
	}
	return nil
}

// make sets what a plan transforms. workSize is always 0: the library allocates by itself.
func (p *plan) make(function string, lengths []int32, kind, batch, dimension int32, workSize *uint64) error {
	if len(p.lengths) > 0 {
		return refuse(abi.ACLFFT_INVALID_VALUE, function+": the plan is made already")
	}
	if err := check(function, append(lengths, batch), dimension, kind); err != nil {
		return err
	}
	p.kind, p.batch, p.stride = kind, int(batch), 1
	if dimension == abi.ACLFFT_VERTICAL {
		p.batch, p.stride = 1, int(batch)
	}
	for _, n := range lengths {
		p.lengths = append(p.lengths, int(n))
	}
	if workSize != nil {
		*workSize = 0
	}
	return nil
}

// planned makes a new plan and writes its handle; null if the sizes are refused, after the plan was created.
func (l *Library) planned(function string, out rt.Out[rt.Handle], lengths []int32, kind, batch, dimension int32) error {
	if err := check(function, append(lengths, batch), dimension, kind); err != nil {
		return err
	}
	p := l.create()
	out.Set(p.handle)
	return p.make(function, lengths, kind, batch, dimension, nil)
}

func (l *Library) aclfftPlan1d(plan rt.Out[rt.Handle], nx, kind, batch, dimType int32) error {
	return l.planned("aclfftPlan1d", plan, []int32{nx}, kind, batch, dimType)
}

func (l *Library) aclfftPlan2d(plan rt.Out[rt.Handle], batch, nx, ny, kind int32) error {
	return l.planned("aclfftPlan2d", plan, []int32{nx, ny}, kind, batch, abi.ACLFFT_HORIZONTAL)
}

func (l *Library) aclfftPlan3d(plan rt.Out[rt.Handle], nx, ny, nz, kind int32) error {
	if err := check("aclfftPlan3d", []int32{nx, ny, nz}, abi.ACLFFT_HORIZONTAL, kind); err != nil {
		return err
	}
	plan.Set(0)
	return unimplemented("aclfftPlan3d")
}

func (l *Library) aclfftMakePlan1d(plan *plan, nx, kind, batch, stride int32, workSize *uint64) error {
	return plan.make("aclfftMakePlan1d", []int32{nx}, kind, batch, stride, workSize)
}

func (l *Library) aclfftMakePlan2d(plan *plan, batch, nx, ny, kind int32, workSize *uint64) error {
	return plan.make("aclfftMakePlan2d", []int32{nx, ny}, kind, batch, abi.ACLFFT_HORIZONTAL, workSize)
}

// texts are those of aclfftGetErrorString. They stay where they are while the process lives, as constants of C do.
var texts = sync.OnceValue(func() map[int32]uint64 {
	all := make(map[int32]uint64)
	for code, text := range map[int32]string{
		abi.ACLFFT_SUCCESS: "Success", abi.ACLFFT_INVALID_PLAN: "Invalid plan handle",
		abi.ACLFFT_ALLOC_FAILED: "Memory allocation failed", abi.ACLFFT_INVALID_TYPE: "Invalid data type",
		abi.ACLFFT_INVALID_VALUE: "Invalid parameter value", abi.ACLFFT_INTERNAL_ERROR: "Internal error",
		abi.ACLFFT_EXEC_FAILED: "Execution failed", abi.ACLFFT_SETUP_FAILED: "Setup failed",
		abi.ACLFFT_INVALID_SIZE: "Invalid size parameter", abi.ACLFFT_UNALIGNED_DATA: "Data not aligned",
		abi.ACLFFT_INCOMPLETE_PARAMETER_LIST: "Incomplete parameter list", abi.ACLFFT_INVALID_DEVICE: "Invalid device",
		abi.ACLFFT_PARSE_ERROR: "Parse error", abi.ACLFFT_NO_WORKSPACE: "No workspace available",
		abi.ACLFFT_NOT_IMPLEMENTED: "Feature not implemented", abi.ACLFFT_NOT_SUPPORTED: "Feature not supported",
		unknown: "Unknown error",
	} {
		all[code] = rt.NewCString(text)
	}
	return all
})

const unknown = -1

func (l *Library) aclfftGetErrorString(result int32) uintptr {
	text, ok := texts()[result]
	if !ok {
		text = texts()[unknown]
	}
	return uintptr(text)
}

func unimplemented(function string) error {
	return refuse(abi.ACLFFT_NOT_IMPLEMENTED, function+": the library does not implement it")
}
