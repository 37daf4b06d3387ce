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
	tensors  int
}

// Reset drops the arguments and sets the operator.
func (l *Launch) Reset(op *Operator) {
	l.op, l.words, l.floats, l.floating, l.used, l.tensors = op, 0, 0, 0, 0, 0
	l.head.records, l.head.stage = 0, stageDone
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
	if h.stage != stageWorkspace {
		if err := l.start(); err != nil {
			return 0, err
		}
	} else if size < h.need {
		return h.need, nil
	}
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

// start finds the operator and fills the head for phase one.
func (l *Launch) start() error {
	if err := l.op.Available(); err != nil {
		return err
	}
	if l.words > maxWords || l.floats > len(l.head.floats) {
		return refuse("%s: %d words and %d floating-point arguments, at most %d and %d can be passed",
			l.op.Symbol, l.words, l.floats, maxWords, len(l.head.floats))
	}
	h := &l.head
	h.prepare, h.execute = l.op.prepare.Load(), l.op.execute.Load()
	h.words = uint32(l.words)
	return nil
}

// first is the address of the records.
func (l *Launch) first() *uint64 { return unsafe.SliceData(l.records) }

// Abandon gives up a launch that waits for workspace.
func (l *Launch) Abandon() {
	if l.head.stage == stageWorkspace {
		l.head.release()
	}
}

// failure makes the error of a failed launch, named after the C function that failed.
func (l *Launch) failure() error {
	h := &l.head
	e := &Error{Code: h.code, Message: takeText(h.message)}
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
	h.context = context
	h.prepareOnly(l.first(), &p.tensors[0])
	if h.stage != stageDone {
		return nil, l.failure()
	}
	p.launch.op, p.launch.head, p.launch.tensors = l.op, *h, l.tensors
	return p, nil
}

// Operator is the operator that was prepared.
func (p *Prepared) Operator() *Operator { return p.launch.op }

// Workspace is the number of bytes of scratch memory that Run needs.
func (p *Prepared) Workspace() uint64 { return p.launch.head.need }

// Bind gives tensor i (in declaration order, list members one by one, absent ones not
// counted) the address it has from the next Run on. CANN holds addresses at run time only,
// so a captured or queued run keeps the old one.
func (p *Prepared) Bind(i int, address uint64) error {
	if i < 0 || i >= p.launch.tensors {
		return refuse("%s: there is no tensor %d, the call has %d", p.launch.op.Symbol, i, p.launch.tensors)
	}
	p.addresses[i] = address
	return nil
}

// Run queues phase two on the stream.
func (p *Prepared) Run(stream, workspace, size uint64) error {
	h := &p.launch.head
	if h.need > size {
		return refuse("%s: workspace of %d bytes, %d are needed", p.launch.op.Symbol, size, h.need)
	}
	h.stream, h.workspace, h.size = stream, workspace, size
	h.run(&p.tensors[0], &p.addresses[0], uint32(p.launch.tensors))
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
