package rt

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/goascend/cann/internal/abi"
)

// Graph is a captured sequence of tasks (aclmdlRI). The order of the calls that were
// captured satisfies every dependency among its streams, so a replay runs the tasks in that
// order on the one stream it was launched on.
type Graph struct {
	id     uint32
	device *Device
	held   int    // streams of the device that the graph takes up
	inside *Graph // whose conditional task runs this one, nil for a graph of its own

	mu         sync.Mutex
	name       string
	tasks      []Task
	built      *building // of a graph whose streams were bound to it, instead of tasks
	groups     []uint64  // handles of its task groups
	bodies     []body
	conditions map[uint64]*condition // by handle
	running    int
	ended      []callback // to run when the graph is destroyed
}

// taskGroup is a part of a graph whose tasks can be replaced.
type taskGroup struct {
	graph *Graph
	tasks []int // places in the graph
}

// groupUpdate replaces the tasks of a group by those that a stream is given.
type groupUpdate struct {
	group *taskGroup
	tasks []Task
}

func (r *Runtime) graphFunctions() table {
	return table{
		"aclmdlRIExecuteAsync":              r.executeGraphAsync,
		"aclmdlRIExecute":                   r.executeGraph,
		"aclmdlRIDestroy":                   r.destroyGraph,
		"aclmdlRIDebugPrint":                r.printGraph,
		"aclmdlRIDebugJsonPrint":            r.printGraphJSON,
		"aclmdlRIGetId":                     r.graphID,
		"aclmdlRISetName":                   r.setGraphName,
		"aclmdlRIGetName":                   r.graphName,
		"aclmdlRIDestroyRegisterCallback":   r.registerGraphEnd,
		"aclmdlRIDestroyUnregisterCallback": r.unregisterGraphEnd,
		"aclmdlRICaptureTaskUpdateBegin":    r.beginTaskUpdate,
		"aclmdlRICaptureTaskUpdateEnd":      r.endTaskUpdate,
	}
}

// graph finds a graph that can be used: its capture has ended.
func (r *Runtime) graph(t *Thread, function string, h uint64) (*Graph, uint64) {
	if h == 0 {
		return nil, t.null(function, "modelRI")
	}
	g, ok := Lookup[*Graph](&r.Handles, h)
	if !ok {
		return nil, t.Fail(paramInvalid, "EE1003: %s: %#x is no live graph; was it destroyed?", function, h)
	}
	if r.captures.of(g) != nil {
		return nil, t.Fail(modelCaptured, "EE1016: %s: the graph is still being captured", function)
	}
	return g, 0
}

// run is a replay that was launched.
func (g *Graph) run(s *Stream, cancel <-chan struct{}) error {
	defer g.passed()
	if g.built != nil {
		return g.built.run(s, cancel)
	}
	return g.replay(s, cancel)
}

// replay runs the tasks on a stream; the first failure ends it.
func (g *Graph) replay(s *Stream, cancel <-chan struct{}) error {
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
		if err := s.perform(&task, cancel); err != nil {
			keepPromises(tasks[i+1:])
			return faultOf(task.Name, err)
		}
	}
	return nil
}

// promise tells whoever asks from now on what a replay that was queued will do.
func promise(tasks []Task) {
	for _, task := range tasks {
		if task.Promise != nil {
			task.Promise()
		}
	}
}

// keepPromises does what tasks promised that will not run: others wait for it.
func keepPromises(tasks []Task) {
	for _, task := range tasks {
		if task.Promise != nil {
			_ = task.Run() // it records an event, which does not fail
		}
	}
}

func (g *Graph) passed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
}

// launch queues a replay.
func (r *Runtime) launch(t *Thread, g *Graph, s *Stream) uint64 {
	if code := g.independent(t, "aclmdlRIExecuteAsync"); code != 0 {
		return code
	}
	if s.ctx.device != g.device {
		return t.Fail(streamContext, "EE1010: aclmdlRIExecuteAsync: the graph is of device %d, the stream of device %d", g.device.id, s.ctx.device.id)
	}
	if g.built != nil && !g.built.ended.Load() {
		return t.Fail(paramInvalid, "EE1003: aclmdlRIExecuteAsync: the graph is still being built; call aclmdlRIBuildEnd")
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
	code := r.Submit(t, s, Task{Name: "aclmdlRIExecuteAsync", Drop: drop, Wait: func(cancel <-chan struct{}) error { return g.run(s, cancel) }})
	if code != 0 {
		drop()
	}
	return code
}

func (r *Runtime) executeGraphAsync(t *Thread, a []uint64) uint64 {
	g, code := r.graph(t, "aclmdlRIExecuteAsync", a[0])
	if g == nil {
		return code
	}
	s, streamCode := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(streamCode))
	}
	return r.launch(t, g, s)
}

// executeGraph replays on the default stream and waits.
func (r *Runtime) executeGraph(t *Thread, a []uint64) uint64 {
	w, ok := newWait(int32(a[1]))
	if !ok {
		return t.Fail(paramInvalid, "EE1003: aclmdlRIExecute: timeout %d ms; use -1 or a positive number", int32(a[1]))
	}
	g, code := r.graph(t, "aclmdlRIExecute", a[0])
	if g == nil {
		return code
	}
	s, streamCode := r.Stream(t, 0)
	if s == nil {
		return uint64(uint32(streamCode))
	}
	if code := r.launch(t, g, s); code != 0 {
		return code
	}
	if f := s.synchronize(w); f != nil {
		return f.report(t)
	}
	return 0
}

func (r *Runtime) destroyGraph(t *Thread, a []uint64) uint64 {
	g, code := r.graph(t, "aclmdlRIDestroy", a[0])
	if g == nil {
		return code
	}
	if code := g.independent(t, "aclmdlRIDestroy"); code != 0 {
		return code
	}
	g.mu.Lock()
	running, ended := g.running, g.ended
	g.mu.Unlock()
	if running > 0 {
		return t.Fail(modelRunning, "EE1016: aclmdlRIDestroy: the graph is running; synchronise first")
	}
	g.built.unbind()
	r.Handles.Delete(a[0])
	r.empty(g)
	for _, c := range ended {
		call(c.function, c.argument)
	}
	return 0
}

func (r *Runtime) printGraph(t *Thread, a []uint64) uint64 {
	g, code := r.graph(t, "aclmdlRIDebugPrint", a[0])
	if g == nil {
		return code
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	names := g.taskNames()
	fmt.Printf("graph %d %s: %d tasks\n", g.id, g.name, len(names))
	for i, name := range names {
		fmt.Printf("%6d %s\n", i, name)
	}
	return 0
}

// taskNames are the tasks in the order of the calls, stream by stream in a graph that was
// built. The caller holds the lock.
func (g *Graph) taskNames() []string {
	var names []string
	for _, task := range g.tasks {
		names = append(names, task.Name)
	}
	return append(names, g.built.taskNames()...)
}

// printGraphJSON writes what printGraph prints to a file.
func (r *Runtime) printGraphJSON(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRIDebugJsonPrint"
	g, code := r.graph(t, function, a[0])
	if g == nil {
		return code
	}
	if a[1] == 0 {
		return t.null(function, "path")
	}
	type task struct {
		ID   int    `json:"taskId"`
		Type string `json:"taskType"`
	}
	document := struct {
		Device int    `json:"deviceId"`
		ID     uint32 `json:"modelId"`
		Name   string `json:"modelName"`
		Tasks  []task `json:"tasks"`
	}{Device: g.device.id, ID: g.id, Tasks: []task{}}
	g.mu.Lock()
	document.Name = g.name
	for i, name := range g.taskNames() {
		document.Tasks = append(document.Tasks, task{i, name})
	}
	g.mu.Unlock()
	text, err := json.MarshalIndent(document, "", "\t")
	if err == nil {
		err = os.WriteFile(CString(a[1]), append(text, '\n'), 0o644)
	}
	if err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %v", function, err)
	}
	return 0
}

func (r *Runtime) graphID(t *Thread, a []uint64) uint64 {
	g, code := r.graph(t, "aclmdlRIGetId", a[0])
	if g == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclmdlRIGetId", "modelRIId")
	}
	Write(a[1], g.id)
	return 0
}

func (r *Runtime) setGraphName(t *Thread, a []uint64) uint64 {
	g, code := r.graph(t, "aclmdlRISetName", a[0])
	if g == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclmdlRISetName", "name")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.name = CString(a[1])
	return 0
}

func (r *Runtime) graphName(t *Thread, a []uint64) uint64 {
	g, code := r.graph(t, "aclmdlRIGetName", a[0])
	if g == nil {
		return code
	}
	if a[2] == 0 {
		return t.null("aclmdlRIGetName", "name")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if uint64(len(g.name))+1 > uint64(uint32(a[1])) {
		return t.Fail(paramInvalid, "EE1003: aclmdlRIGetName: the name has %d bytes with its NUL, there is room for %d", len(g.name)+1, uint32(a[1]))
	}
	for i := range len(g.name) {
		Write(a[2]+uint64(i), g.name[i])
	}
	Write(a[2]+uint64(len(g.name)), byte(0))
	return 0
}

func (r *Runtime) registerGraphEnd(t *Thread, a []uint64) uint64 {
	g, code := r.graph(t, "aclmdlRIDestroyRegisterCallback", a[0])
	if g == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclmdlRIDestroyRegisterCallback", "func")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = append(g.ended, callback{function: a[1], argument: a[2]})
	return 0
}

func (r *Runtime) unregisterGraphEnd(t *Thread, a []uint64) uint64 {
	g, code := r.graph(t, "aclmdlRIDestroyUnregisterCallback", a[0])
	if g == nil {
		return code
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, c := range g.ended {
		if c.function == a[1] {
			g.ended = append(g.ended[:i:i], g.ended[i+1:]...)
			return 0
		}
	}
	return t.Fail(paramInvalid, "EE1003: aclmdlRIDestroyUnregisterCallback: %#x is not registered", a[1])
}

// beginTaskUpdate: what the stream is given from now on replaces the tasks of the group.
func (r *Runtime) beginTaskUpdate(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	group, ok := Lookup[*taskGroup](&r.Handles, a[1])
	if !ok {
		return t.Fail(paramInvalid, "EE1003: aclmdlRICaptureTaskUpdateBegin: %#x is no task group", a[1])
	}
	if r.captures.of(group.graph) != nil {
		return t.Fail(modelCaptured, "EE1016: aclmdlRICaptureTaskUpdateBegin: the graph is still being captured")
	}
	if s.capture.Load() != nil || !s.update.CompareAndSwap(nil, &groupUpdate{group: group}) {
		return t.Fail(streamCaptured, "EE1016: aclmdlRICaptureTaskUpdateBegin: the stream is capturing or updating already")
	}
	return 0
}

func (r *Runtime) endTaskUpdate(t *Thread, a []uint64) uint64 {
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	u := s.update.Swap(nil)
	if u == nil {
		return t.Fail(streamNotCaptured, "EE1016: aclmdlRICaptureTaskUpdateEnd: the stream updates nothing")
	}
	return u.apply(t)
}

// apply puts the new tasks in the places of the old ones: as many, of the same operators.
func (u *groupUpdate) apply(t *Thread) uint64 {
	g := u.group.graph
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(u.tasks) != len(u.group.tasks) {
		return t.Fail(modelUpdateFailed, "EE1016: aclmdlRICaptureTaskUpdateEnd: %d tasks for a group of %d", len(u.tasks), len(u.group.tasks))
	}
	tasks := append([]Task(nil), g.tasks...) // a replay under way keeps its own
	for i, at := range u.group.tasks {
		if tasks[at].Name != u.tasks[i].Name {
			return t.Fail(modelUpdateFailed, "EE1016: aclmdlRICaptureTaskUpdateEnd: task %d of the group is %s, not %s", i, tasks[at].Name, u.tasks[i].Name)
		}
		tasks[at] = u.tasks[i]
	}
	g.tasks = tasks
	return 0
}

// Codes of graphs and captures.
const (
	modelCaptured      = int32(abi.ACL_ERROR_RT_MODEL_CAPTURED)
	modelRunning       = int32(abi.ACL_ERROR_RT_MODEL_RUNNING)
	modelUpdateFailed  = int32(abi.ACL_ERROR_RT_MODEL_UPDATE_FAILED)
	captureDependency  = int32(abi.ACL_ERROR_RT_CAPTURE_DEPENDENCY)
	streamUnjoined     = int32(abi.ACL_ERROR_RT_STREAM_UNJOINED)
	streamCaptured     = int32(abi.ACL_ERROR_RT_STREAM_CAPTURED)
	eventCaptured      = int32(abi.ACL_ERROR_RT_EVENT_CAPTURED)
	streamNotCaptured  = int32(abi.ACL_ERROR_RT_STREAM_NOT_CAPTURED)
	captureForbids     = int32(abi.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT)
	captureImplicit    = int32(abi.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT)
	captureUnmatched   = int32(abi.ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED)
	captureWrongThread = int32(abi.ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD)
	captureBlocksAsync = int32(107041) // ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, which the headers of the table lack
	captureInvalidated = int32(abi.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED)
)
