package nn

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// described is a program's description of a tensor. Sizes and strides are arrays in the program's
// memory.
type described struct {
	viewDims, stride, storageDims *int64
	viewRank, storageRank         uint64
}

// maxDims is how many dimensions CANN keeps of a shape.
const maxDims = 25

// tensor returns the described tensor. Null strides mean a contiguous tensor. Types and formats that CANN does not
// know become undefined.
func (x described) tensor(d dtype.Type, f dtype.Format, offset int64, addr uintptr) *op.Tensor {
	t := &op.Tensor{
		DType: d, Format: f, Offset: offset, Addr: uint64(addr),
		Shape: copied(x.viewDims, min(x.viewRank, maxDims)), Storage: copied(x.storageDims, min(x.storageRank, maxDims)),
	}
	if x.stride == nil {
		t.Strides = op.ContiguousStrides(t.Shape)
	} else {
		t.Strides = copied(x.stride, min(x.viewRank, maxDims))
	}
	if !d.Valid() {
		t.DType = dtype.Undefined
	}
	if !f.Valid() {
		t.Format = dtype.FormatUndefined
	}
	return t
}

// copied returns a copy of n values of the program, or an empty slice for a null pointer.
func copied[T any](p *T, n uint64) []T {
	if p == nil {
		return []T{}
	}
	return append([]T{}, unsafe.Slice(p, n)...)
}

func (l *Library) aclCreateTensor(viewDims *int64, viewDimsNum uint64, dataType dtype.Type, stride *int64, offset int64, format dtype.Format, storageDims *int64, storageDimsNum uint64, tensorData uintptr) rt.Handle {
	if viewDims == nil && viewDimsNum > 0 || storageDims == nil && storageDimsNum > 0 {
		return 0
	}
	t := described{viewDims, stride, storageDims, viewDimsNum, storageDimsNum}.tensor(dataType, format, offset, tensorData)
	return l.rt.Handles.New(rt.TensorKind, t)
}

// aclInitTensor changes an existing tensor. A null or empty shape, and a null data address, keep the old ones.
func (l *Library) aclInitTensor(tensor rt.Handle, viewDims *int64, viewDimsNum uint64, dataType dtype.Type, stride *int64, offset int64, format dtype.Format, storageDims *int64, storageDimsNum uint64, tensorDataAddr uintptr) error {
	old, ok := rt.Lookup[*op.Tensor](&l.rt.Handles, tensor)
	if !ok {
		return stale("aclTensor", tensor)
	}
	t := described{viewDims, stride, storageDims, viewDimsNum, storageDimsNum}.tensor(dataType, format, offset, tensorDataAddr)
	if len(t.Shape) == 0 {
		t.Shape = old.Shape
		if stride == nil {
			t.Strides = op.ContiguousStrides(t.Shape)
		} else {
			t.Strides = copied(stride, min(viewDimsNum, maxDims))
		}
	}
	if len(t.Storage) == 0 {
		t.Storage = old.Storage
	}
	if t.Addr == 0 {
		t.Addr = old.Addr
	}
	*old = *t
	return nil
}

// destroy removes an object of type T. Destroying null succeeds. Destroying an object twice, or one of
// another type, is an error; on the device it corrupts memory.
func destroy[T any](l *Library, what string, h rt.Handle) error {
	if h == 0 {
		return nil
	}
	if _, ok := rt.Lookup[T](&l.rt.Handles, h); !ok {
		return stale(what, h)
	}
	l.rt.Handles.Delete(h)
	return nil
}

func (l *Library) aclDestroyTensor(tensor rt.Handle) error {
	return destroy[*op.Tensor](l, "aclTensor", tensor)
}

func (l *Library) aclDestroyScalar(scalar rt.Handle) error {
	return destroy[*op.Scalar](l, "aclScalar", scalar)
}

func (l *Library) aclDestroyIntArray(array rt.Handle) error {
	return destroy[*intArray](l, "aclIntArray", array)
}

func (l *Library) aclDestroyFloatArray(array rt.Handle) error {
	return destroy[*floatArray](l, "aclFloatArray", array)
}

func (l *Library) aclDestroyBoolArray(array rt.Handle) error {
	return destroy[*boolArray](l, "aclBoolArray", array)
}

// scalarTypes are the element types of which CANN makes scalars. A scalar takes up whole bytes.
var scalarTypes = map[dtype.Type]bool{
	dtype.Float32: true, dtype.Float16: true, dtype.Int8: true, dtype.Int32: true, dtype.Uint8: true, dtype.Int16: true, dtype.Uint16: true,
	dtype.Uint32: true, dtype.Int64: true, dtype.Uint64: true, dtype.Float64: true, dtype.Bool: true, dtype.Complex64: true, dtype.Complex128: true,
	dtype.BFloat16: true, dtype.HiFloat8: true, dtype.Float8E5M2: true, dtype.Float8E4M3: true, dtype.Float8E8M0: true, dtype.Float6E3M2: true,
	dtype.Float6E2M3: true, dtype.Float4E2M1: true, dtype.Float4E1M2: true,
}

// aclCreateScalar returns null for a null value and for a type of which CANN makes no scalar.
func (l *Library) aclCreateScalar(value uintptr, dataType dtype.Type) rt.Handle {
	if value == 0 || !scalarTypes[dataType] {
		return 0
	}
	s := &op.Scalar{DType: dataType}
	copy(s.Bits[:], rt.In[byte](value).Slice(uint64(dataType.Bytes(1))))
	return l.rt.Handles.New(rt.ScalarKind, s)
}

func (l *Library) aclCreateTensorList(value *rt.Handle, size uint64) rt.Handle {
	return l.rt.Handles.New(rt.TensorListKind, &tensorList{members: copied(value, size)})
}

func (l *Library) aclDestroyTensorList(array rt.Handle) error {
	if array == 0 {
		return nil
	}
	list, ok := rt.Lookup[*tensorList](&l.rt.Handles, array)
	if !ok {
		return stale("aclTensorList", array)
	}
	l.rt.Handles.Delete(array)
	return destroyMembers(list.members, l.aclDestroyTensor)
}

func (l *Library) aclCreateScalarList(value *rt.Handle, size uint64) rt.Handle {
	list := &scalarList{members: copied(value, size)}
	for _, h := range list.members {
		s, ok := rt.Lookup[*op.Scalar](&l.rt.Handles, h)
		if !ok && h != 0 {
			return 0
		}
		list.values = append(list.values, s)
	}
	return l.rt.Handles.New(rt.ScalarListKind, list)
}

func (l *Library) aclDestroyScalarList(array rt.Handle) error {
	if array == 0 {
		return nil
	}
	list, ok := rt.Lookup[*scalarList](&l.rt.Handles, array)
	if !ok {
		return stale("aclScalarList", array)
	}
	l.rt.Handles.Delete(array)
	return destroyMembers(list.members, l.aclDestroyScalar)
}

// destroyMembers destroys the members of a list, which are never lists themselves. It continues
// after a stale handle and returns the last error.
func destroyMembers(members []rt.Handle, destroy func(rt.Handle) error) (err error) {
	for _, h := range members {
		if e := destroy(h); e != nil {
			err = e
		}
	}
	return err
}

func (l *Library) aclCreateIntArray(value *int64, size uint64) rt.Handle {
	return l.rt.Handles.New(rt.IntArrayKind, &intArray{copied(value, size)})
}

func (l *Library) aclCreateFloatArray(value *float32, size uint64) rt.Handle {
	return l.rt.Handles.New(rt.FloatArrayKind, &floatArray{copied(value, size)})
}

// aclCreateBoolArray copies bytes; every value other than 0 is true.
func (l *Library) aclCreateBoolArray(value *byte, size uint64) rt.Handle {
	values := make([]bool, 0, size)
	for _, b := range copied(value, size) {
		values = append(values, b != 0)
	}
	return l.rt.Handles.New(rt.BoolArrayKind, &boolArray{values})
}

func (l *Library) aclGetTensorListSize(tensorList rt.Handle, size rt.Out[uint64]) error {
	return l.size(tensorList, size)
}

func (l *Library) aclGetScalarListSize(scalarList rt.Handle, size rt.Out[uint64]) error {
	return l.size(scalarList, size)
}

func (l *Library) aclGetIntArraySize(array rt.Handle, size rt.Out[uint64]) error {
	return l.size(array, size)
}

func (l *Library) aclGetFloatArraySize(array rt.Handle, size rt.Out[uint64]) error {
	return l.size(array, size)
}

func (l *Library) aclGetBoolArraySize(array rt.Handle, size rt.Out[uint64]) error {
	return l.size(array, size)
}

// size returns the length of any list or array.
func (l *Library) size(h rt.Handle, size rt.Out[uint64]) error {
	var n int
	switch o := l.rt.Handles.Get(h).(type) {
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
		return stale("list or array", h)
	}
	size.Set(uint64(n))
	return nil
}

// tensor looks up the tensor that a program queries.
//
//npugen:decode aclTensor
func (l *Library) tensor(function, parameter string, h rt.Handle) (*op.Tensor, error) {
	if h == 0 {
		return nil, null(function, parameter)
	}
	x, ok := rt.Lookup[*op.Tensor](&l.rt.Handles, h)
	if !ok {
		return nil, stale("aclTensor", h)
	}
	return x, nil
}

func (l *Library) aclGetViewShape(tensor *op.Tensor, viewDims rt.Out[rt.Address], viewDimsNum rt.Out[uint64]) error {
	return dims(tensor.Shape, viewDims, viewDimsNum)
}

func (l *Library) aclGetViewStrides(tensor *op.Tensor, stridesValue rt.Out[rt.Address], stridesNum rt.Out[uint64]) error {
	return dims(tensor.Strides, stridesValue, stridesNum)
}

func (l *Library) aclGetStorageShape(tensor *op.Tensor, storageDims rt.Out[rt.Address], storageDimsNum rt.Out[uint64]) error {
	return dims(tensor.Storage, storageDims, storageDimsNum)
}

// dims returns a copy in C heap memory that the caller must free, as CANN does.
func dims(d []int64, values rt.Out[rt.Address], n rt.Out[uint64]) error {
	values.Set(inC(d))
	n.Set(uint64(len(d)))
	return nil
}

func (l *Library) aclGetViewOffset(tensor *op.Tensor, offset rt.Out[int64]) error {
	offset.Set(tensor.Offset)
	return nil
}

func (l *Library) aclGetDataType(tensor *op.Tensor, dataType rt.Out[int32]) error {
	dataType.Set(int32(tensor.DType))
	return nil
}

func (l *Library) aclGetFormat(tensor *op.Tensor, format rt.Out[int32]) error {
	format.Set(int32(tensor.Format))
	return nil
}

func (l *Library) aclGetRawTensorAddr(tensor *op.Tensor, addr rt.Out[rt.Address]) error {
	addr.Set(rt.Address(tensor.Addr))
	return nil
}

func (l *Library) aclSetRawTensorAddr(tensor *op.Tensor, addr uintptr) error {
	tensor.Addr = uint64(addr)
	return nil
}
