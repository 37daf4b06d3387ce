package graph

import (
	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
)

// condition is a 64-bit value in device memory that decides which bodies of a graph run.
type condition struct {
	graph  *Graph
	addr   uint64
	value  uint64 // value at the start of each run of the graph
	assign bool   // whether each run resets the condition to value
}

// aclmdlRICondHandleCreate accepts a finished graph, a graph that is being captured, or a body.
func (r *Runtime) aclmdlRICondHandleCreate(t *rt.Thread, modelRI *anyGraph, defaultLaunchValue uint32, flag int32, handle rt.Out[rt.Handle]) rt.Code {
	const function = "aclmdlRICondHandleCreate"
	g := modelRI
	switch {
	case g.built != nil:
		return t.Fail(rt.FeatureNotSupported, "EE1005: %s: the graph is built of streams; conditions are for captures", function)
	case uint32(flag) > uint32(abi.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT):
		return t.Fail(rt.ParamInvalid, "EE1003: %s: flag %d is unknown; use 0 or ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT", function, uint32(flag))
	}
	m := g.device.Memory()
	if m == nil {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: device %d of the graph was reset", function, g.device.ID())
	}
	addr, ok := m.Alloc(8)
	if !ok {
		return t.Fail(rt.MemoryAllocation, "EL0004: Failed to allocate memory: %s of 8 bytes", function)
	}
	x := &condition{graph: g, addr: addr, value: uint64(defaultLaunchValue), assign: flag != 0}
	if err := x.set(m, 0); err != nil {
		return t.Fail(rt.RuntimeInternal, "EE9999: %s: %v", function, err)
	}
	h := r.Handles.New(rt.ConditionKind, x)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conditions == nil {
		g.conditions = make(map[uint64]*condition)
	}
	g.conditions[h] = x
	handle.Set(h)
	return 0
}

//npugen:decode aclmdlRICondHandle
func (r *Runtime) condition(t *rt.Thread, function string, h rt.Handle) (*condition, rt.Code) {
	x, ok := rt.Lookup[*condition](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.ParamInvalid, "EE1003: %s: %#x is no live condition; was its graph destroyed?", function, h)
	}
	return x, 0
}

func (r *Runtime) aclmdlRICondHandleGetCondPtr(handle *condition, ptr rt.Out[rt.Address]) rt.Code {
	ptr.Set(rt.Address(handle.addr))
	return 0
}

func (x *condition) set(m *rt.Memory, value uint64) error {
	p, err := m.Resolve(x.addr, 8)
	if err == nil {
		*(*uint64)(p) = value
	}
	return err
}

func (x *condition) get(m *rt.Memory) (uint64, error) {
	value, err := number(m, x.addr, true)
	return uint64(value), err
}

// assign resets the conditions of a graph before a run.
func (g *Graph) assign(m *rt.Memory) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.conditions {
		if !x.assign {
			continue
		}
		if err := x.set(m, x.value); err != nil {
			return err
		}
	}
	return nil
}

// condParams is C's aclmdlRICondTaskParams.
type condParams struct {
	condition rt.Handle
	kind      int32
	size      uint32
	graphs    rt.Out[rt.Handle]
}

// bodyCounts holds the least and the largest number of bodies for each kind of conditional task.
var bodyCounts = map[int32][2]uint32{
	int32(abi.ACL_MODEL_RI_COND_TYPE_IF):     {1, 2},
	int32(abi.ACL_MODEL_RI_COND_TYPE_WHILE):  {1, 1},
	int32(abi.ACL_MODEL_RI_COND_TYPE_SWITCH): {1, 1 << 16},
}

// aclmdlRIAddCondTask captures a task that runs bodies according to the condition. It creates the
// bodies empty; a separate capture fills each of them.
func (r *Runtime) aclmdlRIAddCondTask(t *rt.Thread, params condParams, stream *capturable, flags uint32) rt.Code {
	const function = "aclmdlRIAddCondTask"
	x, code := r.condition(t, function, params.condition)
	if x == nil {
		return code
	}
	c, code := underWay(t, function, stream)
	if c == nil {
		return code
	}
	count, known := bodyCounts[params.kind]
	switch {
	case params.graphs == 0:
		return t.Null(function, "modelRIArray")
	case flags != 0:
		return t.Fail(rt.ParamInvalid, "EE1003: %s: flags are %d; they must be 0", function, flags)
	case !known:
		return t.Fail(rt.ParamInvalid, "EE1003: %s: type %d is unknown; use if (0), while (1) or switch (2)", function, params.kind)
	case params.size < count[0] || params.size > count[1]:
		return t.Fail(rt.ParamInvalid, "EE1003: %s: size is %d; a task of type %d has %d to %d bodies", function, params.size, params.kind, count[0], count[1])
	case x.graph != c.graph:
		return t.Fail(rt.ParamInvalid, "EE1003: %s: the condition is of another graph than the one that the stream is captured into", function)
	}
	bodies, handles := make([]*Graph, params.size), make([]rt.Handle, params.size)
	for i := range bodies {
		g := r.newGraph(c.graph.device)
		g.inside, g.handle = c.graph, r.Handles.New(rt.GraphKind, g)
		bodies[i] = g
		handles[i] = g.handle
	}
	params.graphs.Fill(handles)
	c.graph.mu.Lock()
	c.graph.bodies = append(c.graph.bodies, bodies...)
	c.graph.mu.Unlock()
	return c.Take(t, stream, rt.Task{Name: function, Repeatable: true, Conditional: func(on *rt.Stream, cancel <-chan struct{}) error {
		return x.choose(on, params.kind, bodies, cancel)
	}})
}

// choose runs the bodies that the condition selects. A switch whose value has no body runs nothing.
func (x *condition) choose(s *rt.Stream, kind int32, bodies []*Graph, cancel <-chan struct{}) error {
	for {
		value, err := x.get(s.Memory())
		if err != nil {
			return err
		}
		i := value
		if kind != int32(abi.ACL_MODEL_RI_COND_TYPE_SWITCH) {
			i = 1
			if value != 0 {
				i = 0
			}
		}
		if i >= uint64(len(bodies)) {
			return nil
		}
		if err := bodies[i].replay(s, cancel); err != nil {
			return err
		}
		if kind != int32(abi.ACL_MODEL_RI_COND_TYPE_WHILE) {
			return nil
		}
		select {
		case <-cancel:
			return nil
		default:
		}
	}
}

// aclmdlRICaptureToModelRIBegin begins a capture that fills a body.
func (r *Runtime) aclmdlRICaptureToModelRIBegin(t *rt.Thread, stream *capturable, modelRI *Graph, mode int32) rt.Code {
	const function = "aclmdlRICaptureToModelRIBegin"
	g := modelRI
	if g.inside == nil {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: the graph is no body of a conditional task; use aclmdlRICaptureBegin", function)
	}
	g.mu.Lock()
	filled := len(g.tasks) > 0
	g.mu.Unlock()
	if filled {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: the body was captured already", function)
	}
	return r.startCapture(t, function, stream, mode, g)
}

// empty releases everything that belongs to a graph.
func (r *Runtime) empty(g *Graph) {
	g.mu.Lock()
	bodies, conditions, groups, held := g.bodies, g.conditions, g.groups, g.held
	g.tasks, g.bodies, g.conditions, g.groups, g.held = nil, nil, nil, nil, 0
	g.mu.Unlock()
	for _, b := range bodies {
		r.Handles.Delete(b.handle)
		r.empty(b)
	}
	for h, x := range conditions {
		r.Handles.Delete(h)
		if m := g.device.Memory(); m != nil {
			m.Release(x.addr)
		}
	}
	for _, h := range groups {
		r.Handles.Delete(h)
	}
	g.device.GiveStreams(held)
}

// independent refuses a body for operations that need a graph of its own.
func (g *Graph) independent(t *rt.Thread, function string) rt.Code {
	if g.inside == nil {
		return 0
	}
	return t.Fail(rt.ParamInvalid, "EE1003: %s: the graph is a body of a conditional task; it runs and ends with graph %d around it", function, g.inside.id)
}
