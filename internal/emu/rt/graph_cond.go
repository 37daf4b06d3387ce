package rt

import "github.com/goascend/cann/internal/abi"

// condition is a number of 64 bits in device memory that decides which bodies of a graph run.
type condition struct {
	graph  *Graph
	addr   uint64
	value  uint64 // what each run of the graph begins with
	assign bool   // it begins with value, not with what the program left there
}

// body is a graph inside another: what a conditional task runs. Its handle is good for a capture
// into it, and ends with the graph around it.
type body struct {
	*Graph
	handle uint64
}

func (r *Runtime) conditionFunctions() table {
	return table{
		"aclmdlRICondHandleCreate":      r.createCondition,
		"aclmdlRICondHandleGetCondPtr":  r.conditionAddress,
		"aclmdlRIAddCondTask":           r.addConditional,
		"aclmdlRICaptureToModelRIBegin": r.captureBody,
	}
}

// createCondition takes a graph whose capture is under way or has ended, or a body.
func (r *Runtime) createCondition(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRICondHandleCreate"
	if a[0] == 0 || a[3] == 0 {
		return t.null(function, "modelRI or handle")
	}
	g, ok := Lookup[*Graph](&r.Handles, a[0])
	flag := uint32(a[2])
	switch {
	case !ok:
		return t.Fail(paramInvalid, "EE1003: %s: %#x is no live graph; was it destroyed?", function, a[0])
	case g.built != nil:
		return t.Fail(featureNotSupported, "EE1005: %s: the graph is built of streams; conditions are for captures", function)
	case flag > uint32(abi.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT):
		return t.Fail(paramInvalid, "EE1003: %s: flag %d is unknown; use 0 or ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT", function, flag)
	}
	m := g.device.opened()
	if m == nil {
		return t.Fail(paramInvalid, "EE1003: %s: device %d of the graph was reset", function, g.device.id)
	}
	addr, ok := m.alloc(8)
	if !ok {
		return t.Fail(memoryAllocation, "EL0004: Failed to allocate memory: %s of 8 bytes", function)
	}
	x := &condition{graph: g, addr: addr, value: uint64(uint32(a[1])), assign: flag != 0}
	if err := x.set(m, 0); err != nil {
		return t.Fail(runtimeInternal, "EE9999: %s: %v", function, err)
	}
	h := r.Handles.New(ConditionKind, x)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conditions == nil {
		g.conditions = make(map[uint64]*condition)
	}
	g.conditions[h] = x
	Write(a[3], h)
	return 0
}

func (r *Runtime) condition(t *Thread, function string, h uint64) (*condition, uint64) {
	if h == 0 {
		return nil, t.null(function, "handle")
	}
	x, ok := Lookup[*condition](&r.Handles, h)
	if !ok {
		return nil, t.Fail(paramInvalid, "EE1003: %s: %#x is no live condition; was its graph destroyed?", function, h)
	}
	return x, 0
}

func (r *Runtime) conditionAddress(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRICondHandleGetCondPtr"
	x, code := r.condition(t, function, a[0])
	if x == nil {
		return code
	}
	if a[1] == 0 {
		return t.null(function, "ptr")
	}
	Write(a[1], x.addr)
	return 0
}

func (x *condition) set(m *Memory, value uint64) error {
	p, err := m.Resolve(x.addr, 8)
	if err == nil {
		*(*uint64)(p) = value
	}
	return err
}

func (x *condition) get(m *Memory) (uint64, error) {
	value, err := number(m, x.addr, true)
	return uint64(value), err
}

// assign gives the conditions of a graph that runs the values they begin with.
func (g *Graph) assign(m *Memory) error {
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
	condition uint64
	kind      int32
	size      uint32
	graphs    uint64 // address of an array of handles
}

// bodyCounts are how many bodies a kind of task can have.
var bodyCounts = map[int32][2]uint32{
	int32(abi.ACL_MODEL_RI_COND_TYPE_IF):     {1, 2},
	int32(abi.ACL_MODEL_RI_COND_TYPE_WHILE):  {1, 1},
	int32(abi.ACL_MODEL_RI_COND_TYPE_SWITCH): {1, 1 << 16},
}

// addConditional captures a task that runs bodies as the condition says. The bodies are made here,
// empty; a capture fills each.
func (r *Runtime) addConditional(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRIAddCondTask"
	params := *(*condParams)(Pointer(a[0]))
	x, code := r.condition(t, function, params.condition)
	if x == nil {
		return code
	}
	s, c, code := r.underWay(t, function, a[1])
	if c == nil {
		return code
	}
	count, known := bodyCounts[params.kind]
	switch {
	case params.graphs == 0:
		return t.null(function, "modelRIArray")
	case uint32(a[2]) != 0:
		return t.Fail(paramInvalid, "EE1003: %s: flags are %d; they must be 0", function, uint32(a[2]))
	case !known:
		return t.Fail(paramInvalid, "EE1003: %s: type %d is unknown; use if (0), while (1) or switch (2)", function, params.kind)
	case params.size < count[0] || params.size > count[1]:
		return t.Fail(paramInvalid, "EE1003: %s: size is %d; a task of type %d has %d to %d bodies", function, params.size, params.kind, count[0], count[1])
	case x.graph != c.graph:
		return t.Fail(paramInvalid, "EE1003: %s: the condition is of another graph than the one that the stream is captured into", function)
	}
	bodies := make([]body, params.size)
	for i := range bodies {
		g := &Graph{id: uint32(r.graphCount.Add(1)), device: c.graph.device, inside: c.graph}
		bodies[i] = body{g, r.Handles.New(GraphKind, g)}
		Write(params.graphs+8*uint64(i), bodies[i].handle)
	}
	c.graph.mu.Lock()
	c.graph.bodies = append(c.graph.bodies, bodies...)
	c.graph.mu.Unlock()
	return c.add(t, s, Task{Name: function, Repeatable: true, Conditional: func(on *Stream, cancel <-chan struct{}) error {
		return x.choose(on, params.kind, bodies, cancel)
	}})
}

// choose runs the bodies that the condition asks for. A switch without a body for the number runs
// none.
func (x *condition) choose(s *Stream, kind int32, bodies []body, cancel <-chan struct{}) error {
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

// captureBody begins a capture that fills a body.
func (r *Runtime) captureBody(t *Thread, a []uint64) uint64 {
	const function = "aclmdlRICaptureToModelRIBegin"
	g, code := r.graph(t, function, a[1])
	if g == nil {
		return code
	}
	if g.inside == nil {
		return t.Fail(paramInvalid, "EE1003: %s: the graph is no body of a conditional task; use aclmdlRICaptureBegin", function)
	}
	g.mu.Lock()
	filled := len(g.tasks) > 0
	g.mu.Unlock()
	if filled {
		return t.Fail(paramInvalid, "EE1003: %s: the body was captured already", function)
	}
	return r.startCapture(t, function, a[0], int32(a[2]), g, a[1])
}

// empty ends all that lies in a graph.
func (r *Runtime) empty(g *Graph) {
	g.mu.Lock()
	bodies, conditions, groups, held := g.bodies, g.conditions, g.groups, g.held
	g.tasks, g.bodies, g.conditions, g.groups, g.held = nil, nil, nil, nil, 0
	g.mu.Unlock()
	for _, b := range bodies {
		r.Handles.Delete(b.handle)
		r.empty(b.Graph)
	}
	for h, x := range conditions {
		r.Handles.Delete(h)
		if m := g.device.opened(); m != nil {
			m.release(x.addr)
		}
	}
	for _, h := range groups {
		r.Handles.Delete(h)
	}
	g.device.giveStreams(held)
}

// independent refuses what a body cannot do by itself.
func (g *Graph) independent(t *Thread, function string) uint64 {
	if g.inside == nil {
		return 0
	}
	return t.Fail(paramInvalid, "EE1003: %s: the graph is a body of a conditional task; it runs and ends with graph %d around it", function, g.inside.id)
}
