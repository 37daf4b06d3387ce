package graph

import (
	"encoding/json"
	"fmt"
	"github.com/goascend/cann/internal/emu/rt"
	"os"
	"sync"
	"sync/atomic"
)

// Graph is a captured sequence of tasks (aclmdlRI). The order of the captured calls satisfies every
// dependency between the streams, so a replay runs the tasks in that order on the one stream on
// which it was launched.
type Graph struct {
	handle rt.Handle // 0 until the graph has a handle
	id     uint32
	device *rt.Device
	held   int    // number of device streams that the graph reserves
	inside *Graph // graph whose conditional task runs this body; nil for other graphs

	captured atomic.Bool // set while a capture into the graph is under way

	mu         sync.Mutex
	name       string
	tasks      []rt.Task
	built      *building             // of a graph with bound streams; replaces tasks
	groups     []uint64              // handles of its task groups
	bodies     []*Graph              // bodies of its conditional tasks, destroyed with the graph
	conditions map[uint64]*condition // by handle
	running    int
	ended      []ending // callbacks for when the graph is destroyed
}

// ending is a C function of the program and its argument.
type ending struct{ function, argument uintptr }

// taskGroup is a set of tasks of a graph that can be replaced together.
type taskGroup struct {
	graph *Graph
	tasks []int // indexes in the graph
}

// groupUpdate replaces the tasks of a group by tasks submitted to a stream.
type groupUpdate struct {
	room  *Runtime
	group *taskGroup
	tasks []rt.Task
}

// Take collects a task submitted to the stream.
func (u *groupUpdate) Take(_ *rt.Thread, _ *rt.Stream, task rt.Task) rt.Code {
	u.tasks = append(u.tasks, u.room.watched(task))
	return 0
}

// newGraph creates a graph for a device.
func (r *Runtime) newGraph(d *rt.Device) *Graph {
	return &Graph{id: uint32(r.count.Add(1)), device: d}
}

// anyGraph is a graph argument whose capture may still be under way.
type anyGraph = Graph

//npugen:decode aclmdlRI
func (r *Runtime) anyGraph(t *rt.Thread, function string, h rt.Handle) (*anyGraph, rt.Code) {
	g, ok := rt.Lookup[*Graph](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.ParamInvalid, "EE1003: %s: %#x is no live graph; was it destroyed?", function, h)
	}
	return g, 0
}

// graph returns a graph whose capture has ended.
//
//npugen:decode aclmdlRI
func (r *Runtime) graph(t *rt.Thread, function string, h rt.Handle) (*Graph, rt.Code) {
	g, code := r.anyGraph(t, function, h)
	if g == nil {
		return nil, code
	}
	if g.captured.Load() {
		return nil, t.Fail(rt.ModelCaptured, "EE1016: %s: the graph is still being captured", function)
	}
	return g, 0
}

// run runs a replay that was launched on stream s.
func (g *Graph) run(s *rt.Stream, cancel <-chan struct{}) error {
	defer g.passed()
	if g.built != nil {
		return g.built.run(s, cancel)
	}
	return g.replay(s, cancel)
}

// replay runs the tasks on a stream and stops at the first failure.
func (g *Graph) replay(s *rt.Stream, cancel <-chan struct{}) error {
	g.mu.Lock()
	tasks := g.tasks
	g.mu.Unlock()
	if err := g.assign(s.Memory()); err != nil {
		keepPromises(tasks)
		return err
	}
	for i, task := range tasks {
		select {
		case <-cancel:
			keepPromises(tasks[i:])
			return nil
		default:
		}
		if err := s.Perform(&task, cancel); err != nil {
			keepPromises(tasks[i+1:])
			return rt.FaultOf(task.Name, err)
		}
	}
	return nil
}

// promise announces the effects of a queued replay, such as the records of events, so that later
// calls can wait for them.
func promise(tasks []rt.Task) {
	for _, task := range tasks {
		if task.Promise != nil {
			task.Promise()
		}
	}
}

// keepPromises runs the promised part of tasks that are skipped, because other streams wait for it.
func keepPromises(tasks []rt.Task) {
	for _, task := range tasks {
		if task.Promise != nil {
			_ = task.Run() // recording an event does not fail
		}
	}
}

func (g *Graph) passed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
}

// launch queues a replay.
func (r *Runtime) launch(t *rt.Thread, g *Graph, s *rt.Stream) rt.Code {
	if code := g.independent(t, "aclmdlRIExecuteAsync"); code != 0 {
		return code
	}
	if s.Context().Device() != g.device {
		return t.Fail(rt.StreamContext, "EE1010: aclmdlRIExecuteAsync: the graph is of device %d, the stream of device %d", g.device.ID(), s.Context().Device().ID())
	}
	if g.built != nil && !g.built.ended.Load() {
		return t.Fail(rt.ParamInvalid, "EE1003: aclmdlRIExecuteAsync: the graph is still being built; call aclmdlRIBuildEnd")
	}
	g.mu.Lock()
	g.running++
	tasks := g.tasks
	g.mu.Unlock()
	promise(tasks)
	drop := func() {
		keepPromises(tasks)
		g.passed()
	}
	code := r.Submit(t, s, rt.Task{Name: "aclmdlRIExecuteAsync", Drop: drop, Wait: func(cancel <-chan struct{}) error { return g.run(s, cancel) }})
	if code != 0 {
		drop()
	}
	return code
}

func (r *Runtime) aclmdlRIExecuteAsync(t *rt.Thread, modelRI *Graph, stream *rt.Stream) rt.Code {
	return r.launch(t, modelRI, stream)
}

// aclmdlRIExecute replays on the default stream and waits for the end.
func (r *Runtime) aclmdlRIExecute(t *rt.Thread, modelRI *Graph, timeout int32) rt.Code {
	w, ok := rt.NewWait(timeout)
	if !ok {
		return t.Fail(rt.ParamInvalid, "EE1003: aclmdlRIExecute: timeout %d ms; use -1 or a positive number", timeout)
	}
	s, code := r.Stream(t, 0)
	if s == nil {
		return code
	}
	if code := r.launch(t, modelRI, s); code != 0 {
		return code
	}
	if f := s.Synchronize(w); f != nil {
		return f.Report(t)
	}
	return 0
}

func (r *Runtime) aclmdlRIDestroy(t *rt.Thread, modelRI *Graph) rt.Code {
	g := modelRI
	if code := g.independent(t, "aclmdlRIDestroy"); code != 0 {
		return code
	}
	g.mu.Lock()
	running, ended := g.running, g.ended
	g.mu.Unlock()
	if running > 0 {
		return t.Fail(rt.ModelRunning, "EE1016: aclmdlRIDestroy: the graph is running; synchronise first")
	}
	g.built.unbind()
	r.Handles.Delete(g.handle)
	r.empty(g)
	for _, c := range ended {
		rt.Call(c.function, c.argument)
	}
	return 0
}

func (r *Runtime) aclmdlRIDebugPrint(modelRI *Graph) rt.Code {
	modelRI.mu.Lock()
	defer modelRI.mu.Unlock()
	names := modelRI.taskNames()
	fmt.Printf("graph %d %s: %d tasks\n", modelRI.id, modelRI.name, len(names))
	for i, name := range names {
		fmt.Printf("%6d %s\n", i, name)
	}
	return 0
}

// taskNames returns the names of the tasks in call order; in a graph with bound streams, stream by
// stream. The caller holds the lock.
func (g *Graph) taskNames() []string {
	var names []string
	for _, task := range g.tasks {
		names = append(names, task.Name)
	}
	return append(names, g.built.taskNames()...)
}

// aclmdlRIDebugJsonPrint writes the output of aclmdlRIDebugPrint to a file.
func (r *Runtime) aclmdlRIDebugJsonPrint(t *rt.Thread, modelRI *Graph, path string, _ uint32) rt.Code {
	g := modelRI
	type task struct {
		ID   int    `json:"taskId"`
		Type string `json:"taskType"`
	}
	document := struct {
		Device int    `json:"deviceId"`
		ID     uint32 `json:"modelId"`
		Name   string `json:"modelName"`
		Tasks  []task `json:"tasks"`
	}{Device: g.device.ID(), ID: g.id, Tasks: []task{}}
	g.mu.Lock()
	document.Name = g.name
	for i, name := range g.taskNames() {
		document.Tasks = append(document.Tasks, task{i, name})
	}
	g.mu.Unlock()
	text, err := json.MarshalIndent(document, "", "\t")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o644)
	}
	if err != nil {
		return t.Fail(rt.ParamInvalid, "EE1003: aclmdlRIDebugJsonPrint: %v", err)
	}
	return 0
}

func (r *Runtime) aclmdlRIGetId(modelRI *Graph, modelRIID rt.Out[uint32]) rt.Code {
	modelRIID.Set(modelRI.id)
	return 0
}

func (r *Runtime) aclmdlRISetName(modelRI *Graph, name string) rt.Code {
	modelRI.mu.Lock()
	defer modelRI.mu.Unlock()
	modelRI.name = name
	return 0
}

func (r *Runtime) aclmdlRIGetName(t *rt.Thread, modelRI *Graph, maxLen uint32, name rt.Out[byte]) rt.Code {
	modelRI.mu.Lock()
	defer modelRI.mu.Unlock()
	text := append([]byte(modelRI.name), 0)
	if len(text) > int(maxLen) {
		return t.Fail(rt.ParamInvalid, "EE1003: aclmdlRIGetName: the name has %d bytes with its NUL, there is room for %d", len(text), maxLen)
	}
	name.Fill(text)
	return 0
}

func (r *Runtime) aclmdlRIDestroyRegisterCallback(modelRI *Graph, function rt.Address, userData uintptr) rt.Code {
	modelRI.mu.Lock()
	defer modelRI.mu.Unlock()
	modelRI.ended = append(modelRI.ended, ending{function: uintptr(function), argument: userData})
	return 0
}

func (r *Runtime) aclmdlRIDestroyUnregisterCallback(t *rt.Thread, modelRI *Graph, function uintptr) rt.Code {
	g := modelRI
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, c := range g.ended {
		if c.function == function {
			g.ended = append(g.ended[:i:i], g.ended[i+1:]...)
			return 0
		}
	}
	return t.Fail(rt.ParamInvalid, "EE1003: aclmdlRIDestroyUnregisterCallback: %#x is not registered", function)
}

//npugen:decode aclrtTaskGrp
func (r *Runtime) taskGroup(t *rt.Thread, function string, h rt.Handle) (*taskGroup, rt.Code) {
	group, ok := rt.Lookup[*taskGroup](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.ParamInvalid, "EE1003: %s: %#x is no task group", function, h)
	}
	return group, 0
}

// aclmdlRICaptureTaskUpdateBegin makes the tasks submitted to the stream from now on replace the
// tasks of the group.
func (r *Runtime) aclmdlRICaptureTaskUpdateBegin(t *rt.Thread, stream *rt.Stream, handle *taskGroup) rt.Code {
	if handle.graph.captured.Load() {
		return t.Fail(rt.ModelCaptured, "EE1016: aclmdlRICaptureTaskUpdateBegin: the graph is still being captured")
	}
	if stream.Capture.Load() != nil || !stream.Update.CompareAndSwap(nil, &rt.Detour{Taker: &groupUpdate{room: r, group: handle}}) {
		return t.Fail(rt.StreamCaptured, "EE1016: aclmdlRICaptureTaskUpdateBegin: the stream is capturing or updating already")
	}
	return 0
}

func (r *Runtime) aclmdlRICaptureTaskUpdateEnd(t *rt.Thread, stream *rt.Stream) rt.Code {
	u := stream.Update.Swap(nil)
	if u == nil {
		return t.Fail(rt.StreamNotCaptured, "EE1016: aclmdlRICaptureTaskUpdateEnd: the stream updates nothing")
	}
	return u.Taker.(*groupUpdate).apply(t)
}

// apply replaces the old tasks by the new ones, which must be equal in number and of the same
// operators.
func (u *groupUpdate) apply(t *rt.Thread) rt.Code {
	g := u.group.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(u.tasks) != len(u.group.tasks) {
		return t.Fail(rt.ModelUpdateFailed, "EE1016: aclmdlRICaptureTaskUpdateEnd: %d tasks for a group of %d", len(u.tasks), len(u.group.tasks))
	}
	tasks := append([]rt.Task(nil), g.tasks...) // a replay under way keeps the old slice
	for i, at := range u.group.tasks {
		if tasks[at].Name != u.tasks[i].Name {
			return t.Fail(rt.ModelUpdateFailed, "EE1016: aclmdlRICaptureTaskUpdateEnd: task %d of the group is %s, not %s", i, tasks[at].Name, u.tasks[i].Name)
		}
		tasks[at] = u.tasks[i]
	}
	g.tasks = tasks
	return 0
}
