package nn

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

// newTensor reads the arguments that aclCreateTensor and aclInitTensor share. A count with
// null dimensions gives nil; null strides mean contiguous.
func newTensor(a []uint64) *Tensor {
	viewDims, rank, storageDims, storageRank := a[0], a[1], a[6], a[7]
	if viewDims == 0 && rank > 0 || storageDims == 0 && storageRank > 0 {
		return nil
	}
	t := &Tensor{
		Shape: rt.Read[int64](viewDims, rank), DType: dtype.Type(int32(a[2])), Offset: int64(a[4]),
		Format: dtype.Format(int32(a[5])), Storage: rt.Read[int64](storageDims, storageRank), Addr: a[8],
	}
	if a[3] == 0 {
		t.Strides = ContiguousStrides(t.Shape)
	} else {
		t.Strides = rt.Read[int64](a[3], rank)
	}
	return t
}

func (l *Library) createTensor(_ *rt.Thread, a []uint64) uint64 {
	t := newTensor(a)
	if t == nil {
		return 0
	}
	return l.rt.Handles.New(rt.TensorKind, t)
}

// initTensor rewrites an existing tensor; a null data address leaves the old one.
func (l *Library) initTensor(t *rt.Thread, a []uint64) uint64 {
	old, ok := rt.Lookup[*Tensor](&l.rt.Handles, a[0])
	if !ok {
		return l.stale(t, "aclTensor", a[0])
	}
	n := newTensor(a[1:])
	if n == nil {
		return l.null(t, "aclInitTensor", "viewDims or storageDims")
	}
	if n.Addr == 0 {
		n.Addr = old.Addr
	}
	*old = *n
	return 0
}

// destroy forgets any object but a list. Destroying null succeeds; so does destroying an
// object twice, which on the device corrupts memory: here it is an error.
func (l *Library) destroy(t *rt.Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return 0
	}
	if l.rt.Handles.Delete(a[0]) == nil {
		return l.stale(t, "aclnn object", a[0])
	}
	return 0
}

func (l *Library) createScalar(_ *rt.Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return 0
	}
	s := &Scalar{DType: dtype.Type(int32(a[1]))}
	copy(s.Bits[:], rt.Read[byte](a[0], uint64(s.DType.Size())))
	return l.rt.Handles.New(rt.ScalarKind, s)
}

func (l *Library) createTensorList(_ *rt.Thread, a []uint64) uint64 {
	return l.rt.Handles.New(rt.TensorListKind, &tensorList{members: array[uint64](a)})
}

func (l *Library) destroyTensorList(t *rt.Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return 0
	}
	list, ok := rt.Lookup[*tensorList](&l.rt.Handles, a[0])
	if !ok {
		return l.stale(t, "aclTensorList", a[0])
	}
	l.rt.Handles.Delete(a[0])
	return l.destroyMembers(t, list.members)
}

func (l *Library) createScalarList(_ *rt.Thread, a []uint64) uint64 {
	list := &scalarList{members: array[uint64](a)}
	for _, h := range list.members {
		s, ok := rt.Lookup[*Scalar](&l.rt.Handles, h)
		if !ok {
			return 0
		}
		list.values = append(list.values, s)
	}
	return l.rt.Handles.New(rt.ScalarListKind, list)
}

func (l *Library) destroyScalarList(t *rt.Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return 0
	}
	list, ok := rt.Lookup[*scalarList](&l.rt.Handles, a[0])
	if !ok {
		return l.stale(t, "aclScalarList", a[0])
	}
	l.rt.Handles.Delete(a[0])
	return l.destroyMembers(t, list.members)
}

// destroyMembers destroys the members of a list, which own nothing else. It goes on after
// a stale one and reports the last.
func (l *Library) destroyMembers(t *rt.Thread, members []uint64) (code uint64) {
	for _, h := range members {
		if c := l.destroy(t, []uint64{h}); c != 0 {
			code = c
		}
	}
	return code
}

func (l *Library) createIntArray(_ *rt.Thread, a []uint64) uint64 {
	return l.rt.Handles.New(rt.IntArrayKind, &intArray{array[int64](a)})
}

func (l *Library) createFloatArray(_ *rt.Thread, a []uint64) uint64 {
	return l.rt.Handles.New(rt.FloatArrayKind, &floatArray{array[float32](a)})
}

func (l *Library) createBoolArray(_ *rt.Thread, a []uint64) uint64 {
	bytes := array[uint8](a)
	values := make([]bool, len(bytes))
	for i, b := range bytes {
		values[i] = b != 0
	}
	return l.rt.Handles.New(rt.BoolArrayKind, &boolArray{values})
}

// array reads (pointer, count); a null pointer gives an empty array.
func array[T any](a []uint64) []T {
	if a[0] == 0 {
		return []T{}
	}
	return rt.Read[T](a[0], a[1])
}

// size answers the …Size functions of lists and arrays.
func (l *Library) size(t *rt.Thread, a []uint64) uint64 {
	if a[1] == 0 {
		return l.null(t, "aclGet…Size", "size")
	}
	var n int
	switch o := l.rt.Handles.Get(a[0]).(type) {
	case *tensorList:
		n = len(o.members)
	case *scalarList:
		n = len(o.members)
	case *intArray:
		n = len(o.values)
	case *floatArray:
		n = len(o.values)
	case *boolArray:
		n = len(o.values)
	default:
		return l.stale(t, "list or array", a[0])
	}
	rt.Write(a[1], uint64(n))
	return 0
}

func (l *Library) viewShape(t *rt.Thread, a []uint64) uint64 {
	return l.dims(t, a, func(x *Tensor) []int64 { return x.Shape })
}

func (l *Library) viewStrides(t *rt.Thread, a []uint64) uint64 {
	return l.dims(t, a, func(x *Tensor) []int64 { return x.Strides })
}

func (l *Library) storageShape(t *rt.Thread, a []uint64) uint64 {
	return l.dims(t, a, func(x *Tensor) []int64 { return x.Storage })
}

// dims hands out a copy in C heap memory that the caller frees, as CANN does.
func (l *Library) dims(t *rt.Thread, a []uint64, of func(*Tensor) []int64) uint64 {
	return l.field(t, a, func(x *Tensor) {
		d := of(x)
		p := rt.Malloc(8 * len(d))
		copy(unsafe.Slice((*int64)(p), len(d)), d)
		rt.Write(a[1], p)
		rt.Write(a[2], uint64(len(d)))
	})
}

func (l *Library) viewOffset(t *rt.Thread, a []uint64) uint64 {
	return l.field(t, a, func(x *Tensor) { rt.Write(a[1], x.Offset) })
}

func (l *Library) dataType(t *rt.Thread, a []uint64) uint64 {
	return l.field(t, a, func(x *Tensor) { rt.Write(a[1], int32(x.DType)) })
}

func (l *Library) format(t *rt.Thread, a []uint64) uint64 {
	return l.field(t, a, func(x *Tensor) { rt.Write(a[1], int32(x.Format)) })
}

func (l *Library) rawAddr(t *rt.Thread, a []uint64) uint64 {
	return l.field(t, a, func(x *Tensor) { rt.Write(a[1], x.Addr) })
}

// field runs get on the tensor a[0] after checking it and that no out pointer is null.
func (l *Library) field(t *rt.Thread, a []uint64, get func(*Tensor)) uint64 {
	if slices.Contains(a, 0) {
		return l.null(t, "aclGet…", "an argument")
	}
	x, ok := rt.Lookup[*Tensor](&l.rt.Handles, a[0])
	if !ok {
		return l.stale(t, "aclTensor", a[0])
	}
	get(x)
	return 0
}

func (l *Library) setRawAddr(t *rt.Thread, a []uint64) uint64 {
	x, ok := rt.Lookup[*Tensor](&l.rt.Handles, a[0])
	if !ok {
		return l.stale(t, "aclTensor", a[0])
	}
	x.Addr = a[1]
	return 0
}
