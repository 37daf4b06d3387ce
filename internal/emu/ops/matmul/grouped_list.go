package matmul

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// groupList holds the sizes of the groups: a host array with running sums (V1, V2), a device
// tensor that can only be read while the operator runs (V3 and later), or neither.
type groupList struct {
	host   []int64
	device *op.Tensor
}

func (g *grouped) groupList() groupList {
	const name = "groupListOptional"
	if g.Class(name) == op.IntArrayClass {
		return groupList{host: g.Ints(name)}
	}
	return groupList{device: g.Optional(name)}
}

func (l groupList) null() bool { return l.host == nil && l.device == nil }

// check refuses a list of the wrong kind.
func (l groupList) check(g *grouped) {
	if t := l.device; t != nil {
		rank := 1
		if g.listType == 2 {
			rank = 2
		}
		switch {
		case t.Rank() != rank || rank == 2 && t.Dim(1) != 2:
			g.Invalid("%v: with groupListType %d it must be [groups] for 0 and 1, [groups,2] for 2", t, g.listType)
		case t.DType != dtype.Int64:
			g.Invalid("%v must be int64", t)
		case t.Dim(0) == 0:
			g.Invalid("%v is empty; pass null for one group", t)
		}
	}
	if l.host != nil && len(l.host) == 0 {
		g.Invalid("groupListOptional is empty; pass null for one group")
	}
}

// checkLength refuses a list of the wrong length and a host list with inconsistent values. With
// one group the length is not compared, as on the device.
func (l groupList) checkLength(g *grouped, count int64) {
	if l.null() {
		return
	}
	length, limit := int64(len(l.host)), int64(maxGroupTensor)
	if l.device != nil {
		length = l.device.Dim(0)
		if len(g.weight) == 1 && len(g.x) == 1 {
			limit = maxGroups
		}
	}
	if length > limit {
		g.Invalid("groupListOptional has %d groups; at most %d are supported here", length, limit)
	}
	if count > 1 && length != count {
		g.Invalid("groupListOptional has %d groups, but there are %d", length, count)
	}
	if l.host == nil || g.Err() != nil || g.groupType == ungrouped {
		return
	}
	sizes := l.hostSizes()
	for i, n := range sizes {
		switch {
		case n < 0:
			g.Invalid("groupListOptional %s must not decrease", op.Dims(l.host))
		case len(g.x) > 1 && n != g.x[i].Dim(0):
			g.Invalid("groupListOptional %s gives group %d %d rows; %v has %d", op.Dims(l.host), i, n, g.x[i], g.x[i].Dim(0))
		}
	}
	if last, want := l.host[len(l.host)-1], g.extent(); last != want {
		g.Invalid("groupListOptional %s ends at %d; the grouped dimension has %d", op.Dims(l.host), last, want)
	}
}

// hostSizes returns the group sizes of a host list.
func (l groupList) hostSizes() []int64 {
	sizes := slices.Clone(l.host)
	for i := len(sizes) - 1; i > 0; i-- {
		sizes[i] -= sizes[i-1]
	}
	return sizes
}

// extent returns the size of the dimension that the groups divide.
func (g *grouped) extent() int64 {
	if g.groupType == groupSum {
		return g.x[0].Dim(1)
	}
	n := int64(0)
	for _, x := range g.x {
		n += x.Dim(0)
	}
	return n
}

// span is the range of the grouped dimension that belongs to one group.
type span struct{ group, first, size int64 }

// spans returns the groups in memory order. Inconsistent values, which make the device access
// memory out of bounds, are an error. Valid inside Run.
func (g *grouped) spans() ([]span, error) {
	sizes, ids, err := g.sizes()
	if err != nil {
		return nil, err
	}
	var out []span
	first, extent := int64(0), g.extent()
	for i, n := range sizes {
		s := span{group: int64(i), first: first, size: n}
		if ids != nil {
			s.group = ids[i]
		}
		first += n
		switch {
		case n < 0:
			return nil, fmt.Errorf("group %d has %d elements (groupListType %d); is the list one of running sums, or of sizes?", s.group, n, g.listType)
		case first > extent:
			return nil, fmt.Errorf("groups 0 to %d have %d elements, the grouped dimension only %d (groupListType %d)", i, first, extent, g.listType)
		case s.group < 0 || s.group >= g.count():
			return nil, fmt.Errorf("the group list names group %d of %d", s.group, g.count())
		case len(g.x) > 1 && n != g.x[s.group].Dim(0):
			return nil, fmt.Errorf("the group list gives group %d %d rows, %v has %d", s.group, n, g.x[s.group], g.x[s.group].Dim(0))
		}
		out = append(out, s)
	}
	return out, nil
}

// sizes returns the sizes of the groups, and their indices if the list holds pairs.
func (g *grouped) sizes() (sizes, ids []int64, err error) {
	l := g.groups
	switch {
	case l.device != nil:
		values := l.read(g.count())
		if g.listType == 0 {
			return groupList{host: values}.hostSizes(), nil, nil
		}
		if g.listType == 1 {
			return values, nil, nil
		}
		for i := 0; i < len(values); i += 2 {
			if slices.Contains(ids, values[i]) {
				return nil, nil, fmt.Errorf("the group list names group %d twice", values[i])
			}
			ids, sizes = append(ids, values[i]), append(sizes, values[i+1])
		}
		return sizes, ids, nil
	case l.host != nil:
		return l.hostSizes(), nil, nil
	case len(g.x) > 1:
		for _, x := range g.x {
			sizes = append(sizes, x.Dim(0))
		}
	case g.groupType == groupSum:
		for _, w := range g.weight {
			sizes = append(sizes, w.Dim(0))
		}
	default:
		sizes = []int64{g.extent()}
	}
	return sizes, nil, nil
}

// read reads the entries of the first count groups from the device tensor.
func (l groupList) read(count int64) []int64 {
	t := l.device
	var out []int64
	for i := range min(count, t.Dim(0)) {
		for j := range t.Len() / t.Dim(0) {
			at := i * t.Strides[0]
			if t.Rank() == 2 {
				at += j * t.Strides[1]
			}
			out = append(out, *(*int64)(unsafe.Add(t.Data, at*8)))
		}
	}
	return out
}
