package cshim

import (
	"runtime"
	"unsafe"
)

// Launch is one operator launch: the arguments, and the state between crossings.
// Keep launches in a pool; Reset readies one for its next use without allocating. A Launch
// serves one goroutine at a time.
type Launch struct {
	op       *Operator
	head     head
	words    int      // arguments in head.word, those that C fills in included
	floats   int      // arguments in head.floats
	floating uint64   // bit i: parameter i is floating-point
	records  []uint64 // what C makes objects of, the first used of them
	used     int
}

// Reset drops the arguments and sets the operator.
func (l *Launch) Reset(op *Operator) {
	l.op, l.words, l.floats, l.floating, l.used = op, 0, 0, 0, 0
	l.head.records = 0
}

// Operator is the operator being launched.
func (l *Launch) Operator() *Operator { return l.op }

// Run makes the context current on the OS thread, builds the arguments, runs phase one and
// phase two on the stream, and destroys the arguments, in one crossing and so on one OS thread.
//
// If the operator needs more scratch memory than size, nothing is queued and Run returns the
// number of bytes needed; the next Run begins again and must bring at least that much. The
// workspace must stay untouched until the stream has passed the operator.
func (l *Launch) Run(context, stream, workspace, size uint64) (need uint64, err error) {
	if err := l.start(); err != nil {
		return 0, err
	}
	h := &l.head
	h.context, h.stream = context, stream
	h.workspace, h.size = workspace, size
	h.launch(l.first())
	switch h.stage {
	case stageDone:
		return 0, nil
	case stageWorkspace:
		return h.need, nil
	}
	return 0, l.failure()
}

// start fills the head for phase one.
func (l *Launch) start() error {
	h := &l.head
	found := l.op.found.Load()
	if found == nil || l.words > maxWords || l.floats > len(h.floats) {
		if err := l.impossible(); err != nil {
			return err
		}
		found = l.op.found.Load()
	}
	h.prepare, h.execute = found.prepare, found.execute
	h.words = uint32(l.words)
	return nil
}

// impossible finds the operator, or returns why the launch cannot be made.
func (l *Launch) impossible() error {
	if err := l.op.Available(); err != nil {
		return err
	}
	if l.words > maxWords || l.floats > len(l.head.floats) {
		return refuse("%s: %d words and %d floating-point arguments, at most %d and %d can be passed",
			l.op.Symbol, l.words, l.floats, maxWords, len(l.head.floats))
	}
	return nil
}

// first is the address of the records.
func (l *Launch) first() *uint64 { return unsafe.SliceData(l.records) }

// failure makes the error of a failed launch, named after the C function that failed.
func (l *Launch) failure() error {
	h := &l.head
	e := &Error{Code: h.code, Message: readable(h.code, takeText(h.message))}
	h.message = 0
	switch h.stage {
	case stageBind:
		e.Func = "aclrtSetCurrentContext"
	case stageBuild:
		e.Func = "aclCreateTensor"
		e.Code = codeNullPointer
		if e.Message == "" {
			e.Message = "CANN could not create an argument of the call"
		}
	case stagePrepare:
		e.Func = l.op.Symbol + "GetWorkspaceSize"
	default:
		e.Func = l.op.Symbol
	}
	return e
}

// codeNullPointer is ACLNN_ERR_PARAM_NULLPTR: what the call would have returned.
const codeNullPointer = 161001

// Prepared is an operator with a fixed set of arguments whose phase one is done: Run only
// rebinds addresses and queues phase two. It serves one goroutine at a time.
type Prepared struct {
	launch    Launch
	tensors   []uint64 // descriptors, in declaration order, list members one by one
	places    []uint64
	addresses []uint64
}

// Prepare runs phase one of a launch and keeps its executor. CANN refuses some operators
// here (code 561000). It also refuses an executor that its cache has, which Prepare avoids where
// CANN exports how (InitPTACacheThreadLocal). The launch itself is free for another use afterwards.
func Prepare(l *Launch, context uint64) (*Prepared, error) {
	if err := l.start(); err != nil {
		return nil, err
	}
	places := l.places()
	p := &Prepared{tensors: make([]uint64, len(places)+1), places: append(places, 0), addresses: make([]uint64, len(places)+1)}
	h := &l.head
	h.context = context
	h.prepareOnly(l.first(), &p.tensors[0])
	if h.stage != stageDone {
		return nil, l.failure()
	}
	p.launch.op, p.launch.head = l.op, *h
	return p, nil
}

// addressUnit divides every address that CANN's functions for setting addresses accept.
const addressUnit = 32

// places lists where CANN's executors look for each tensor of the call: twice the index among the
// inputs, or among the outputs and one. Absent tensors, scalars, arrays and the members of lists
// each take a place.
func (l *Launch) places() []uint64 {
	var places []uint64
	var members [maxParams + maxFloats]int
	l.Each(func(param, member int, _ *TensorDesc) { members[param] = max(members[param], member) })
	l.Each(func(param, member int, _ *TensorDesc) {
		output := l.op.slot(param) == 'o'
		index := max(member, 0)
		for earlier := range param {
			if slot := l.op.slot(earlier); slot != '-' && (slot == 'o') == output {
				index += members[earlier] + 1
			}
		}
		place := uint64(index) << 1
		if output {
			place |= 1
		}
		places = append(places, place)
	})
	return places
}

// slot is the letter of a parameter. Of an operator without Slots every parameter counts.
func (o *Operator) slot(param int) byte {
	if param < len(o.Slots) {
		return o.Slots[param]
	}
	return 'i'
}

// Operator is the operator that was prepared.
func (p *Prepared) Operator() *Operator { return p.launch.op }

// Workspace is the number of bytes of scratch memory that Run needs.
func (p *Prepared) Workspace() uint64 { return p.launch.head.need }

// Bind gives tensor i (in declaration order, list members one by one, absent ones not
// counted) the address it has from the next Run on; it must be a multiple of 32. CANN holds
// addresses at run time only, so a captured or queued run keeps the old one.
func (p *Prepared) Bind(i int, address uint64) error {
	switch {
	case i < 0 || i >= p.count():
		return refuse("%s: there is no tensor %d, the call has %d", p.launch.op.Symbol, i, p.count())
	case address%addressUnit != 0:
		return refuse("%s: the address %#x of tensor %d is not a multiple of %d", p.launch.op.Symbol, address, i, addressUnit)
	}
	p.addresses[i] = address
	return nil
}

// count is how many tensors the call has. The slices have one element more, so that all have a first.
func (p *Prepared) count() int { return len(p.tensors) - 1 }

// Run queues phase two on the stream.
func (p *Prepared) Run(stream, workspace, size uint64) error {
	h := &p.launch.head
	if h.need > size {
		return refuse("%s: workspace of %d bytes, %d are needed", p.launch.op.Symbol, size, h.need)
	}
	h.stream, h.workspace, h.size = stream, workspace, size
	h.run(&p.tensors[0], &p.places[0], &p.addresses[0], uint32(p.count()))
	clear(p.addresses)
	if h.stage != stageDone {
		return p.launch.failure()
	}
	return nil
}

// Close destroys the executor and the descriptors; a second Close does nothing.
func (p *Prepared) Close() {
	p.launch.head.release()
	p.launch.head.executor = 0
	runtime.KeepAlive(p)
}
