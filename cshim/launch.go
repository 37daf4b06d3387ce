package cshim

// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Launch is one operator launch: the arguments, and the state between crossings.
// Keep launches in a pool; Reset readies one for its next use without allocating. A Launch
// serves one goroutine at a time.
type Launch struct {
	op       *Operator
	head     C.struct_cann_launch
	words    int      // arguments in head.word, those that C fills in included
	floats   int      // arguments in head.floats
	floating uint64   // bit i: parameter i is floating-point
	records  []uint64 // what C makes objects of, the first used of them
	used     int
	tensors  int
}

// maxWords leaves room for the two results of phase one.
const maxWords = C.CANN_MAX_PARAMS - 2

// Reset drops the arguments and sets the operator.
func (l *Launch) Reset(op *Operator) {
	l.op, l.words, l.floats, l.floating, l.used, l.tensors = op, 0, 0, 0, 0, 0
	l.head.records, l.head.stage = 0, C.CANN_DONE
}

// Operator is the operator being launched.
func (l *Launch) Operator() *Operator { return l.op }

// Run makes the context current on the OS thread, builds the arguments, runs phase one and
// phase two on the stream, and destroys the arguments, in one crossing.
//
// If the operator needs more scratch memory than size it stops before phase two and returns
// the number of bytes needed; the next Run goes on from there and must bring at least that
// much (or Abandon gives up). The workspace must stay untouched until the stream has passed
// the operator.
func (l *Launch) Run(context, stream, workspace, size uint64) (need uint64, err error) {
	h := &l.head
	if h.stage != C.CANN_WORKSPACE {
		if err := l.start(); err != nil {
			return 0, err
		}
	} else if size < uint64(h.need) {
		return uint64(h.need), nil
	}
	h.context, h.stream = C.uint64_t(context), C.uint64_t(stream)
	h.workspace, h.size = C.uint64_t(workspace), C.uint64_t(size)
	C.cann_launch(h, l.first())
	switch h.stage {
	case C.CANN_DONE:
		return 0, nil
	case C.CANN_WORKSPACE:
		return uint64(h.need), nil
	}
	return 0, l.failure()
}

// start finds the operator and fills the head for phase one.
func (l *Launch) start() error {
	if err := l.op.Available(); err != nil {
		return err
	}
	if l.words > maxWords || l.floats > len(l.head.floats) {
		return fmt.Errorf("%s: %d words and %d floating-point arguments, at most %d and %d can be passed",
			l.op.Symbol, l.words, l.floats, maxWords, len(l.head.floats))
	}
	h := &l.head
	h.prepare, h.execute = C.uint64_t(l.op.prepare.Load()), C.uint64_t(l.op.execute.Load())
	h.words = C.uint32_t(l.words)
	return nil
}

// first is the address of the records.
func (l *Launch) first() *C.uint64_t { return (*C.uint64_t)(unsafe.SliceData(l.records)) }

// Abandon gives up a launch that waits for workspace.
func (l *Launch) Abandon() {
	if l.head.stage == C.CANN_WORKSPACE {
		C.cann_release(&l.head)
	}
}

// failure makes the error of a failed launch, named after the C function that failed.
func (l *Launch) failure() error {
	h := &l.head
	e := &Error{Code: int32(h.code), Message: takeText(uint64(h.message))}
	h.message = 0
	switch h.stage {
	case C.CANN_BIND:
		e.Func = "aclrtSetCurrentContext"
	case C.CANN_BUILD:
		e.Func = "aclCreateTensor"
		e.Code = codeNullPointer
		if e.Message == "" {
			e.Message = "CANN could not create an argument of the call"
		}
	case C.CANN_PREPARE:
		e.Func = l.op.Symbol + "GetWorkspaceSize"
	default:
		e.Func = l.op.Symbol
	}
	return e
}

// codeNullPointer is ACLNN_ERR_PARAM_NULLPTR: what the call would have met.
const codeNullPointer = 161001

// Prepared is an operator with a fixed set of arguments whose phase one is done: Run only
// rebinds addresses and queues phase two. It serves one goroutine at a time.
type Prepared struct {
	launch    Launch
	tensors   []uint64 // descriptors, in declaration order, list members one by one
	addresses []uint64
}

// Prepare runs phase one of a launch and keeps its executor. CANN refuses some operators
// here (code 561000). The launch itself is free for another use afterwards.
func Prepare(l *Launch, context uint64) (*Prepared, error) {
	if err := l.start(); err != nil {
		return nil, err
	}
	p := &Prepared{tensors: make([]uint64, l.tensors+1), addresses: make([]uint64, l.tensors+1)}
	h := &l.head
	h.context = C.uint64_t(context)
	C.cann_prepare(h, l.first(), (*C.uint64_t)(&p.tensors[0]))
	if h.stage != C.CANN_DONE {
		return nil, l.failure()
	}
	p.launch.op, p.launch.head, p.launch.tensors = l.op, *h, l.tensors
	return p, nil
}

// Operator is the operator that was prepared.
func (p *Prepared) Operator() *Operator { return p.launch.op }

// Workspace is the number of bytes of scratch memory that Run needs.
func (p *Prepared) Workspace() uint64 { return uint64(p.launch.head.need) }

// Bind gives tensor i (in declaration order, list members one by one, absent ones not
// counted) the address it has from the next Run on. CANN holds addresses at run time only,
// so a captured or queued run keeps the old one.
func (p *Prepared) Bind(i int, address uint64) error {
	if i < 0 || i >= p.launch.tensors {
		return fmt.Errorf("%s: there is no tensor %d, the call has %d", p.launch.op.Symbol, i, p.launch.tensors)
	}
	p.addresses[i] = address
	return nil
}

// Run queues phase two on the stream.
func (p *Prepared) Run(stream, workspace, size uint64) error {
	h := &p.launch.head
	if uint64(h.need) > size {
		return fmt.Errorf("%s: workspace of %d bytes, %d are needed", p.launch.op.Symbol, size, uint64(h.need))
	}
	h.stream, h.workspace, h.size = C.uint64_t(stream), C.uint64_t(workspace), C.uint64_t(size)
	C.cann_run(h, (*C.uint64_t)(&p.tensors[0]), (*C.uint64_t)(&p.addresses[0]), C.uint32_t(p.launch.tensors))
	clear(p.addresses)
	if h.stage != C.CANN_DONE {
		return p.launch.failure()
	}
	return nil
}

// Close destroys the executor and the descriptors; a second Close does nothing.
func (p *Prepared) Close() {
	C.cann_release(&p.launch.head)
	p.launch.head.executor = 0
	runtime.KeepAlive(p)
}
