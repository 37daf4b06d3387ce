package rt

import (
	"cmp"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
)

// Label is a place on a stream of a graph, once it is set.
type Label struct {
	place *target
}

// boundPair are two streams of one graph.
func (r *Runtime) boundPair(t *Thread, function string, to, from uint64) (other, b *boundStream, code uint64) {
	if other, code = r.boundStream(t, function, to); other == nil {
		return nil, nil, code
	}
	if b, code = r.boundStream(t, function, from); b == nil {
		return nil, nil, code
	}
	if b.graph != other.graph {
		return nil, nil, t.Fail(paramInvalid, "EE1003: %s: the streams belong to different graphs", function)
	}
	return other, b, 0
}

func (r *Runtime) activateStream(t *Thread, a []uint64) uint64 {
	const function = "aclrtActiveStream"
	other, b, code := r.boundPair(t, function, a[0], a[1])
	if other == nil {
		return code
	}
	return b.put(t, step{task: Task{Name: function}, start: other})
}

// conditions are those of aclrtCondition, of the order of the values.
var conditions = map[int32]func(order int) bool{
	int32(abi.ACL_RT_EQUAL):            func(o int) bool { return o == 0 },
	int32(abi.ACL_RT_NOT_EQUAL):        func(o int) bool { return o != 0 },
	int32(abi.ACL_RT_GREATER):          func(o int) bool { return o > 0 },
	int32(abi.ACL_RT_GREATER_OR_EQUAL): func(o int) bool { return o >= 0 },
	int32(abi.ACL_RT_LESS):             func(o int) bool { return o < 0 },
	int32(abi.ACL_RT_LESS_OR_EQUAL):    func(o int) bool { return o <= 0 },
}

// switchStream goes on on another stream if two values on the device compare as asked.
func (r *Runtime) switchStream(t *Thread, a []uint64) uint64 {
	const function = "aclrtSwitchStream"
	left, right, wide := a[0], a[2], int32(a[3]) == int32(abi.ACL_RT_SWITCH_INT64)
	holds := conditions[int32(a[1])]
	switch {
	case left == 0 || right == 0:
		return t.null(function, "leftValue or rightValue")
	case holds == nil:
		return t.Fail(paramInvalid, "EE1003: %s: condition %d is unknown", function, int32(a[1]))
	case !wide && int32(a[3]) != int32(abi.ACL_RT_SWITCH_INT32):
		return t.Fail(paramInvalid, "EE1003: %s: type %d is unknown", function, int32(a[3]))
	case a[5] != 0:
		return t.Fail(paramInvalid, "EE1003: %s: falseStream is reserved; pass NULL", function)
	}
	other, b, code := r.boundPair(t, function, a[4], a[6])
	if other == nil {
		return code
	}
	memory := b.stream.Memory()
	return b.put(t, step{task: Task{Name: function}, jump: func() (*target, error) {
		x, err := number(memory, left, wide)
		if err != nil {
			return nil, err
		}
		y, err := number(memory, right, wide)
		if err != nil || !holds(cmp.Compare(x, y)) {
			return nil, err
		}
		return &target{other, 0}, nil
	}})
}

// number reads a whole number from the device.
func number(m *Memory, addr uint64, wide bool) (int64, error) {
	n := int64(4)
	if wide {
		n = 8
	}
	p, err := m.Resolve(addr, n)
	if err != nil {
		return 0, err
	}
	if wide {
		return *(*int64)(p), nil
	}
	return int64(*(*int32)(p)), nil
}

func (r *Runtime) createLabel(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtCreateLabel", "label")
	}
	if c, code := r.current(t); c == nil {
		return code
	}
	Write(a[0], r.Handles.New(LabelKind, &Label{}))
	return 0
}

func (r *Runtime) label(t *Thread, function string, h uint64) (*Label, uint64) {
	if h == 0 {
		return nil, t.null(function, "label")
	}
	l, ok := Lookup[*Label](&r.Handles, h)
	if !ok {
		return nil, t.Fail(paramInvalid, "EE1003: %s: %#x is no live label; was it destroyed?", function, h)
	}
	return l, 0
}

func (r *Runtime) destroyLabel(t *Thread, a []uint64) uint64 {
	l, code := r.label(t, "aclrtDestroyLabel", a[0])
	if l != nil {
		r.Handles.Delete(a[0])
	}
	return code
}

func (r *Runtime) setLabel(t *Thread, a []uint64) uint64 {
	const function = "aclrtSetLabel"
	l, code := r.label(t, function, a[0])
	if l == nil {
		return code
	}
	b, code := r.boundStream(t, function, a[1])
	if b == nil {
		return code
	}
	b.graph.mu.Lock()
	defer b.graph.mu.Unlock()
	switch {
	case b.graph.ended.Load():
		return t.Fail(paramInvalid, "EE1003: %s: the graph of the stream is complete; call aclmdlRIUnbindStream", function)
	case l.place != nil:
		return t.Fail(paramInvalid, "EE1003: %s: the label is set already", function)
	}
	l.place = &target{b, len(b.steps)}
	return 0
}

func (r *Runtime) createLabelList(t *Thread, a []uint64) uint64 {
	const function = "aclrtCreateLabelList"
	if a[0] == 0 || a[2] == 0 {
		return t.null(function, "labels or labelList")
	}
	if a[1] == 0 || a[1] > 1<<16-1 {
		return t.Fail(paramInvalid, "EE1003: %s: %d labels; use 1 to 65535", function, a[1])
	}
	list := make([]*Label, a[1])
	for i, h := range unsafe.Slice((*uint64)(Pointer(a[0])), a[1]) {
		l, code := r.label(t, function, h)
		if l == nil {
			return code
		}
		list[i] = l
	}
	Write(a[2], r.Handles.New(LabelListKind, list))
	return 0
}

func (r *Runtime) labelList(t *Thread, function string, h uint64) ([]*Label, uint64) {
	if h == 0 {
		return nil, t.null(function, "labelList")
	}
	list, ok := Lookup[[]*Label](&r.Handles, h)
	if !ok {
		return nil, t.Fail(paramInvalid, "EE1003: %s: %#x is no live list of labels; was it destroyed?", function, h)
	}
	return list, 0
}

func (r *Runtime) destroyLabelList(t *Thread, a []uint64) uint64 {
	list, code := r.labelList(t, "aclrtDestroyLabelList", a[0])
	if list != nil {
		r.Handles.Delete(a[0])
	}
	return code
}

// switchLabel goes on at the label that a number on the device names; a number beyond the
// list names the last one.
func (r *Runtime) switchLabel(t *Thread, a []uint64) uint64 {
	const function = "aclrtSwitchLabelByIndex"
	at := a[0]
	if at == 0 {
		return t.null(function, "ptr")
	}
	list, code := r.labelList(t, function, a[2])
	if list == nil {
		return code
	}
	if n := uint64(uint32(a[1])); n != uint64(len(list)) {
		return t.Fail(paramInvalid, "EE1003: %s: maxValue is %d, the list has %d labels", function, n, len(list))
	}
	b, code := r.boundStream(t, function, a[3])
	if b == nil {
		return code
	}
	memory := b.stream.Memory()
	return b.put(t, step{task: Task{Name: function}, jump: func() (*target, error) {
		i, err := number(memory, at, false)
		if err != nil {
			return nil, err
		}
		l := list[min(uint64(uint32(i)), uint64(len(list)-1))]
		if l.place == nil || l.place.stream.graph != b.graph {
			return nil, &Fault{Code: paramInvalid, Text: "EE1003: " + function + ": the label was not set on a stream of this graph"}
		}
		return l.place, nil
	}})
}
