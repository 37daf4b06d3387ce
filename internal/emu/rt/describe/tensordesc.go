package describe

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

// tensorDesc is an aclTensorDesc, with which programs describe a tensor for CANN's older operator
// and model interface. aclnn operators do not use it.
type tensorDesc struct {
	dtype  dtype.Type
	format dtype.Format
	shape  []int64    // may hold unknownDim, or a single unknownRank, for the operator to infer
	ranges [][2]int64 // lowest and highest size of each dimension, where given
	name   []byte     // with its NUL; pinned, because the program holds the address
	pin    runtime.Pinner
}

const (
	unknownDim  = int64(-1)
	unknownRank = int64(-2)
	// maxDescDims is far above the rank of any operator's tensor; it stops a wrong count from
	// reading invalid memory.
	maxDescDims = 128
)

var noName = rt.NewCString("")

func (d *tensorDesc) rankKnown() bool { return !slices.Equal(d.shape, []int64{unknownRank}) }

// elements returns the number of elements, or 0 when a dimension is unknown.
func (d *tensorDesc) elements() uint64 {
	if d == noDesc {
		return 0
	}
	n := uint64(1)
	for _, dim := range d.shape {
		if dim < 0 {
			return 0
		}
		n *= uint64(dim)
	}
	return n
}

//npugen:decode aclTensorDesc
func (r *Runtime) tensorDesc(t *rt.Thread, function string, h rt.Handle) (*tensorDesc, rt.Code) {
	d, ok := rt.Lookup[*tensorDesc](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: %#x is no description of a tensor, or it was destroyed", function, h)
	}
	return d, 0
}

// noDesc is a description without type, format, dimensions or elements.
var noDesc = &tensorDesc{dtype: dtype.Undefined, format: dtype.Format(abi.ACL_FORMAT_UNDEFINED)}

// described returns the description of a handle, or noDesc for a wrong handle, since some functions
// accept any handle.
func (r *Runtime) described(h rt.Handle) *tensorDesc {
	if d, ok := rt.Lookup[*tensorDesc](&r.Handles, h); ok {
		return d
	}
	return noDesc
}

func (r *Runtime) aclCreateTensorDesc(t *rt.Thread, dataType dtype.Type, numDims int32, dims *int64, format dtype.Format) rt.Handle {
	const function = "aclCreateTensorDesc"
	switch {
	case numDims < 0 || numDims > maxDescDims:
		t.Fail(rt.InvalidParam, "EH0001: %s: numDims is %d; 0 to %d are possible", function, numDims, maxDescDims)
		return 0
	case numDims > 0 && dims == nil:
		t.Null(function, "dims")
		return 0
	}
	d := &tensorDesc{dtype: dataType, format: format, shape: slices.Clone(unsafe.Slice(dims, numDims))}
	for i, dim := range d.shape {
		if dim < unknownDim && d.rankKnown() {
			t.Fail(rt.InvalidParam, "EH0001: %s: dimension %d is %d; use a size, -1 for one that is not known, or the single dimension -2", function, i, dim)
			return 0
		}
	}
	d.rename("")
	return r.Handles.New(rt.TensorDescKind, d)
}

func (r *Runtime) aclDestroyTensorDesc(desc rt.Handle) {
	if d, ok := rt.Lookup[*tensorDesc](&r.Handles, desc); ok {
		r.Handles.Delete(desc)
		d.pin.Unpin()
	}
}

func (r *Runtime) aclGetTensorDescType(desc rt.Handle) dtype.Type { return r.described(desc).dtype }

func (r *Runtime) aclGetTensorDescFormat(desc rt.Handle) dtype.Format {
	return r.described(desc).format
}

func (r *Runtime) aclGetTensorDescSize(desc rt.Handle) uint64 {
	d := r.described(desc)
	return (d.elements()*uint64(d.dtype.Bits()) + 7) / 8
}

func (r *Runtime) aclGetTensorDescElementCount(desc rt.Handle) uint64 {
	return r.described(desc).elements()
}

func (r *Runtime) aclGetTensorDescNumDims(desc rt.Handle) uint64 {
	d := r.described(desc)
	if !d.rankKnown() {
		return abi.ACL_UNKNOWN_RANK
	}
	return uint64(len(d.shape))
}

// aclGetTensorDescDim can report an error only by its result.
func (r *Runtime) aclGetTensorDescDim(t *rt.Thread, desc rt.Handle, index uint64) int64 {
	d := r.described(desc)
	if index >= uint64(len(d.shape)) {
		t.Fail(rt.InvalidParam, "EH0001: aclGetTensorDescDim: there is no description %#x with a dimension %d", desc, index)
		return -1
	}
	return d.shape[index]
}

// has checks that a dimension exists.
func (d *tensorDesc) has(t *rt.Thread, function string, index uint64) rt.Code {
	if index >= uint64(len(d.shape)) {
		return t.Fail(rt.InvalidParam, "EH0001: %s: dimension %d of a tensor that has %d", function, index, len(d.shape))
	}
	return 0
}

func (r *Runtime) aclGetTensorDescDimV2(t *rt.Thread, desc *tensorDesc, index uint64, dimSize rt.Out[int64]) rt.Code {
	code := desc.has(t, "aclGetTensorDescDimV2", index)
	if code == 0 {
		dimSize.Set(desc.shape[index])
	}
	return code
}

// aclGetTensorDescDimRange writes the range that was set. Without one, both ends are the size, or
// the range is 0 to unlimited when the size is unknown.
func (r *Runtime) aclGetTensorDescDimRange(t *rt.Thread, desc *tensorDesc, index, dimRangeNum uint64, dimRange rt.Out[int64]) rt.Code {
	const function = "aclGetTensorDescDimRange"
	if code := desc.has(t, function, index); code != 0 {
		return code
	}
	if dimRangeNum < 2 {
		return t.Fail(rt.InvalidParam, "EH0001: %s: dimRangeNum is %d; a range has 2 ends", function, dimRangeNum)
	}
	dim := desc.shape[index]
	ends := [2]int64{dim, dim}
	switch {
	case index < uint64(len(desc.ranges)):
		ends = desc.ranges[index]
	case dim < 0:
		ends = [2]int64{0, unknownDim}
	}
	dimRange.Fill(ends[:])
	return 0
}

func (r *Runtime) aclSetTensorShapeRange(t *rt.Thread, desc *tensorDesc, dimsCount uint64, dimsRange *[2]int64) rt.Code {
	const function = "aclSetTensorShapeRange"
	switch {
	case desc.rankKnown() && dimsCount != uint64(len(desc.shape)) || dimsCount > maxDescDims:
		return t.Fail(rt.InvalidParam, "EH0001: %s: %d ranges for %d dimensions", function, dimsCount, len(desc.shape))
	case dimsCount > 0 && dimsRange == nil:
		return t.Null(function, "dimsRange")
	}
	desc.ranges = slices.Clone(unsafe.Slice(dimsRange, dimsCount))
	return 0
}

// rename stores a name as a C string.
func (d *tensorDesc) rename(name string) {
	d.pin.Unpin()
	d.name = append([]byte(name), 0)
	d.pin.Pin(&d.name[0])
}

// aclGetTensorDescName returns an empty name for a wrong handle.
func (r *Runtime) aclGetTensorDescName(desc rt.Handle) uintptr {
	d, ok := rt.Lookup[*tensorDesc](&r.Handles, desc)
	if !ok {
		return uintptr(noName)
	}
	return uintptr(unsafe.Pointer(&d.name[0]))
}

func (r *Runtime) aclSetTensorDescName(desc *tensorDesc, name string) { desc.rename(name) }
