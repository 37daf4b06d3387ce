package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/dump"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Prepare is phase one of the operator with the given id. The words are its arguments, followed by
// the addresses of workspaceSize and executor.
func (l *Library) Prepare(t *rt.Thread, id int, words []uint64) uint64 {
	o, implementation := operatorOf(id)
	if id < 0 {
		words = arranged(o, words)
	}
	sizeOut, executorOut := words[len(o.Params)], words[len(o.Params)+1]
	if sizeOut == 0 || executorOut == 0 {
		return answer(t, &op.Error{Code: op.NullPointer, ID: "EZ1011", Text: fmt.Sprintf("aclnn%s: workspaceSize or executor is null", o.Name)})
	}
	e, err := l.prepare(t, o, implementation, words)
	if err != nil {
		return answer(t, err)
	}
	rt.Write(sizeOut, uint64(e.Call.WorkspaceSize()))
	rt.Write(executorOut, l.rt.Handles.New(rt.ExecutorKind, e))
	return 0
}

func (l *Library) prepare(t *rt.Thread, o *op.Operator, p op.Prepare, words []uint64) (*prepared, error) {
	if err := l.rt.Refused(); err != nil {
		return nil, fmt.Errorf("aclnn%s: %w", o.Name, err)
	}
	args, err := l.decode(o, words)
	if err != nil {
		return nil, err
	}
	lease, x, err := l.cache.find(t, o, args)
	if err != nil {
		return nil, err
	}
	if x != nil {
		x.lease = lease
		if err := x.Rebind(args); err != nil {
			x.end(false)
			return nil, err
		}
		return x, nil
	}
	var join func(group string) (op.Communicator, error)
	if slices.ContainsFunc(o.Params, func(p op.Param) bool { return p.Class == op.StringClass }) { // may name a group
		join = func(group string) (op.Communicator, error) { return l.communicator(t, group) }
	}
	c := op.NewCall(o, args, op.Env{Join: join, Links: &l.links, Older: l.Older, Chip: l.chip, Cores: l.cores, PlainCube: l.PlainCube, Tiled: true})
	checkFormats(c)
	e, err := op.NewExecutor(p, c)
	if err != nil {
		lease.end(false)
		return nil, err
	}
	x = &prepared{Executor: e, lease: lease}
	x.task = rt.Task{Name: c.Name(), Repeatable: true, Run: x.compute}
	if lease.kept && !e.Call.Once() {
		x.task.Then = func() { l.cache.put(x) }
	}
	return x, nil
}

// unimplemented refuses a call that CANN's rules accept.
func unimplemented(c *op.Call) (op.Run, error) {
	c.Invalid("the emulator does not implement this operator")
	return nil, c.Err()
}

// Execute is phase two: it queues the prepared call on the stream.
func (l *Library) Execute(t *rt.Thread, id int, workspace, size, handle, stream uint64) uint64 {
	o, _ := operatorOf(id)
	name := o.Name
	if handle == 0 {
		return answer(t, &op.Error{Code: op.NullPointer, ID: "EZ1011", Text: fmt.Sprintf("aclnn%s: executor is null", name)})
	}
	x, ok := rt.Lookup[*prepared](&l.rt.Handles, handle)
	if !ok || x.Call.Op.Name != name {
		return answer(t, &op.Error{Code: op.InvalidParam, Text: fmt.Sprintf("aclnn%s: %#x is not a live executor of this operator", name, handle)})
	}
	if !x.Repeatable && l.rt.Handles.Delete(handle) == nil { // two threads launch one executor
		return answer(t, stale("aclOpExecutor", handle))
	}
	if err := x.fill(t); err != nil {
		return answer(t, err)
	}
	lease := x.lease // once the call is queued, x may become the executor of another
	code := l.execute(t, x, workspace, size, stream)
	lease.end(code == 0)
	return code
}

func (l *Library) execute(t *rt.Thread, x *prepared, workspace, size, stream uint64) uint64 {
	e := x.Executor
	name := e.Call.Op.Name
	if e.Call.LaunchErr() != nil {
		return answer(t, e.Call.LaunchErr())
	}
	need := e.Call.WorkspaceSize()
	switch {
	case (need > 0 || size > 0) && workspace == 0:
		return answer(t, &op.Error{Code: op.NullPointer, Text: fmt.Sprintf("aclnn%s: workspace is null, its size is %d, %d bytes are needed", name, size, need)})
	case uint64(need) > size:
		return answer(t, &op.Error{Code: op.InvalidParam, Text: fmt.Sprintf("aclnn%s: workspace of %d bytes, %d are needed", name, size, need)})
	}
	if e.Repeatable {
		var err error
		if e, err = e.Again(); err != nil {
			return answer(t, err)
		}
	}
	s, code := l.rt.Stream(t, stream)
	if code != 0 {
		return uint64(uint32(code))
	}
	if l.rt.Schedule != nil {
		return l.plan(t, s, e, workspace)
	}
	for _, p := range e.Call.Stages() {
		code := uint64(0)
		switch {
		case p.Collective != nil:
			code = l.collect(t, p.Collective, workspace, stream)
		case p.Ready != nil:
			code = l.await(t, s, e, p.Ready, workspace)
		default:
			code = l.compute(t, s, e, p.Run, workspace)
		}
		if code != 0 {
			return code
		}
	}
	if e != x.Executor || l.rt.Traces() || l.rt.Sanitizes() || l.Dumps != nil && l.Dumps.Wanted() {
		return l.compute(t, s, e, l.run(s, e), workspace)
	}
	x.memory, x.workspace, x.succeeded = s.Memory(), workspace, false
	return l.rt.Submit(t, s, x.task)
}

// compute queues a computation of a call on the stream.
func (l *Library) compute(t *rt.Thread, s *rt.Stream, e *op.Executor, run op.Run, workspace uint64) uint64 {
	memory := s.Memory()
	task := rt.Task{Name: e.Call.Name(), Repeatable: true, Run: func() error { return e.Execute(memory, workspace, run) }}
	if l.rt.Traces() {
		task.Notes = notes(e.Call)
	}
	if l.rt.Sanitizes() {
		task.Accesses = func() []sanitize.Access { return e.Call.Accesses(workspace) }
		if e.Call.Follows() {
			task.Follows = func() []sanitize.Access { return e.Followed(memory, workspace) }
		}
	}
	return l.rt.Submit(t, s, task)
}

// await queues a stage in which the stream waits until another stream or process has written the call's input.
func (l *Library) await(t *rt.Thread, s *rt.Stream, e *op.Executor, ready func(*op.Exec) (bool, error), workspace uint64) uint64 {
	memory := s.Memory()
	return l.rt.Submit(t, s, l.rt.Awaits(rt.Task{Name: e.Call.Name(), Repeatable: true, Wait: func(cancel <-chan struct{}) error {
		return e.Await(memory, workspace, ready, cancel)
	}}))
}

// run returns the call's Run, extended by a dump of its tensors afterwards. Only listeners that had
// asked for dumps when the call was queued receive it.
func (l *Library) run(s *rt.Stream, e *op.Executor) op.Run {
	if l.Dumps == nil || !l.Dumps.Wanted() {
		return e.Run
	}
	return func(x *op.Exec) error {
		err := e.Run(x)
		var tensors []dump.Tensor
		for _, t := range e.Call.AllTensors() {
			tensors = append(tensors, dumped(t, e.Call.Op.Use(t.Name) != op.Read))
		}
		if dumpErr := l.Dumps.Write(s, e.Call.Name(), tensors, err != nil); err == nil && dumpErr != nil {
			return op.Fault("%v: its dump: %v", e.Call, dumpErr)
		}
		return err
	}
}
