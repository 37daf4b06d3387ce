package graph

import (
	"cmp"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// Label is a position on a stream of a graph; it has no position until it is set.
type Label struct {
	handle rt.Handle
	place  *target
}

// together refuses streams that are bound to different graphs.
func (b *boundStream) together(t *rt.Thread, function string, other *boundStream) rt.Code {
	if b.graph != other.graph {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: the streams belong to different graphs", function)
	}
	return 0
}

func (r *Runtime) aclrtActiveStream(t *rt.Thread, activeStream, stream *boundStream) rt.Code {
	const function = "aclrtActiveStream"
	if code := stream.together(t, function, activeStream); code != 0 {
		return code
	}
	return stream.put(t, step{task: rt.Task{Name: function}, start: activeStream})
}

// conditions holds the conditions of aclrtCondition as functions of the order of the two values.
var conditions = map[int32]func(order int) bool{
	int32(abi.ACL_RT_EQUAL):            func(o int) bool { return o == 0 },
	int32(abi.ACL_RT_NOT_EQUAL):        func(o int) bool { return o != 0 },
	int32(abi.ACL_RT_GREATER):          func(o int) bool { return o > 0 },
	int32(abi.ACL_RT_GREATER_OR_EQUAL): func(o int) bool { return o >= 0 },
	int32(abi.ACL_RT_LESS):             func(o int) bool { return o < 0 },
	int32(abi.ACL_RT_LESS_OR_EQUAL):    func(o int) bool { return o <= 0 },
}

// aclrtSwitchStream continues on another stream if the comparison of two values in device memory
// holds.
func (r *Runtime) aclrtSwitchStream(t *rt.Thread, leftValue rt.Address, cond int32, rightValue rt.Address, dataType int32, trueStream *boundStream, falseStream rt.Handle, stream *boundStream) rt.Code {
	const function = "aclrtSwitchStream"
	holds, wide := conditions[cond], dataType == int32(abi.ACL_RT_SWITCH_INT64)
	switch {
	case holds == nil:
		return t.Fail(rt.ParamInvalid, "EE1003: %s: condition %d is unknown", function, cond)
	case !wide && dataType != int32(abi.ACL_RT_SWITCH_INT32):
		return t.Fail(rt.ParamInvalid, "EE1003: %s: type %d is unknown", function, dataType)
	case falseStream != 0:
		return t.Fail(rt.ParamInvalid, "EE1003: %s: falseStream is reserved; pass NULL", function)
	}
	if code := stream.together(t, function, trueStream); code != 0 {
		return code
	}
	memory := stream.stream.Memory()
	return stream.put(t, step{task: rt.Task{Name: function}, jump: func() (*target, error) {
		x, err := number(memory, uint64(leftValue), wide)
		if err != nil {
			return nil, err
		}
		y, err := number(memory, uint64(rightValue), wide)
		if err != nil || !holds(cmp.Compare(x, y)) {
			return nil, err
		}
		return &target{trueStream, 0}, nil
	}})
}

// number reads an integer from device memory.
func number(m *rt.Memory, addr uint64, wide bool) (int64, error) {
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

func (r *Runtime) aclrtCreateLabel(t *rt.Thread, label rt.Out[rt.Handle]) rt.Code {
	if c, code := r.Current(t); c == nil {
		return code
	}
	l := new(Label)
	l.handle = r.Handles.New(rt.LabelKind, l)
	label.Set(l.handle)
	return 0
}

//npugen:decode aclrtLabel
func (r *Runtime) label(t *rt.Thread, function string, h rt.Handle) (*Label, rt.Code) {
	l, ok := rt.Lookup[*Label](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.ParamInvalid, "EE1003: %s: %#x is no live label; was it destroyed?", function, h)
	}
	return l, 0
}

func (r *Runtime) aclrtDestroyLabel(label *Label) rt.Code {
	r.Handles.Delete(label.handle)
	return 0
}

func (r *Runtime) aclrtSetLabel(t *rt.Thread, label *Label, stream *boundStream) rt.Code {
	const function = "aclrtSetLabel"
	stream.graph.mu.Lock()
	defer stream.graph.mu.Unlock()
	switch {
	case stream.graph.ended.Load():
		return t.Fail(rt.ParamInvalid, "EE1003: %s: the graph of the stream is complete; call aclmdlRIUnbindStream", function)
	case label.place != nil:
		return t.Fail(rt.ParamInvalid, "EE1003: %s: the label is set already", function)
	}
	label.place = &target{stream, len(stream.steps)}
	return 0
}

// labelList is the object behind a list of aclrtCreateLabelList.
type labelList struct {
	handle rt.Handle
	labels []*Label
}

func (r *Runtime) aclrtCreateLabelList(t *rt.Thread, labels rt.In[rt.Handle], num uint64, labelList rt.Out[rt.Handle]) rt.Code {
	const function = "aclrtCreateLabelList"
	if num == 0 || num > 1<<16-1 {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: %d labels; use 1 to 65535", function, num)
	}
	list := make([]*Label, num)
	for i, h := range labels.Slice(num) {
		label, code := r.label(t, function, h)
		if label == nil {
			return code
		}
		list[i] = label
	}
	labelList.Set(r.newLabelList(list))
	return 0
}

func (r *Runtime) newLabelList(labels []*Label) rt.Handle {
	l := &labelList{labels: labels}
	l.handle = r.Handles.New(rt.LabelListKind, l)
	return l.handle
}

//npugen:decode aclrtLabelList
func (r *Runtime) labelList(t *rt.Thread, function string, h rt.Handle) (*labelList, rt.Code) {
	list, ok := rt.Lookup[*labelList](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.ParamInvalid, "EE1003: %s: %#x is no live list of labels; was it destroyed?", function, h)
	}
	return list, 0
}

func (r *Runtime) aclrtDestroyLabelList(labelList *labelList) rt.Code {
	r.Handles.Delete(labelList.handle)
	return 0
}

// aclrtSwitchLabelByIndex continues at the label whose index is in device memory. An index beyond
// the list selects the last label.
func (r *Runtime) aclrtSwitchLabelByIndex(t *rt.Thread, ptr rt.Address, maxValue uint32, labelList *labelList, stream *boundStream) rt.Code {
	const function = "aclrtSwitchLabelByIndex"
	labels := labelList.labels
	if int(maxValue) != len(labels) {
		return t.Fail(rt.ParamInvalid, "EE1003: %s: maxValue is %d, the list has %d labels", function, maxValue, len(labels))
	}
	memory := stream.stream.Memory()
	return stream.put(t, step{task: rt.Task{Name: function}, jump: func() (*target, error) {
		i, err := number(memory, uint64(ptr), false)
		if err != nil {
			return nil, err
		}
		l := labels[min(uint64(uint32(i)), uint64(len(labels)-1))]
		if l.place == nil || l.place.stream.graph != stream.graph {
			return nil, &rt.Fault{Code: rt.ParamInvalid, Text: "EE1003: " + function + ": the label was not set on a stream of this graph"}
		}
		return l.place, nil
	}})
}
