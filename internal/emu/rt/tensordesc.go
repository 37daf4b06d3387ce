package rt

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
)

// tensorDesc is an aclTensorDesc: what programs of CANN's older operator and model interface
// say of a tensor. Operators of aclnn do not read it.
type tensorDesc struct {
	dtype  dtype.Type
	format dtype.Format
	shape  []int64    // unknownDim, or a single unknownRank, is settled by the operator
	ranges [][2]int64 // lowest and highest size of each dimension, as far as given
	name   []byte     // with its NUL; the program holds the address, so pin keeps it in place
	pin    runtime.Pinner
}

const (
	unknownDim  = int64(-1)
	unknownRank = int64(-2)
	// maxDescDims is far above what an operator takes; it keeps a wrong count from reading on.
	maxDescDims = 128
)

var noName = NewCString("")

func (d *tensorDesc) rankKnown() bool { return !slices.Equal(d.shape, []int64{unknownRank}) }

// elements is the number of elements, 0 when a dimension is not known.
func (d *tensorDesc) elements() uint64 {
	n := uint64(1)
	for _, dim := range d.shape {
		if dim < 0 {
			return 0
		}
		n *= uint64(dim)
	}
	return n
}

func (r *Runtime) tensorDescFunctions() table {
	// get answers a question about a description, and absent about none.
	get := func(absent int64, answer func(*tensorDesc) uint64) Func {
		return func(_ *Thread, a []uint64) uint64 {
			if d, ok := Lookup[*tensorDesc](&r.Handles, a[0]); ok {
				return answer(d)
			}
			return uint64(absent)
		}
	}
	return table{
		"aclCreateTensorDesc":  r.createTensorDesc,
		"aclDestroyTensorDesc": r.destroyTensorDesc,
		"aclGetTensorDescType": get(abi.ACL_DT_UNDEFINED, func(d *tensorDesc) uint64 { return uint64(d.dtype) }),
		"aclGetTensorDescFormat": get(abi.ACL_FORMAT_UNDEFINED, func(d *tensorDesc) uint64 {
			return uint64(d.format)
		}),
		"aclGetTensorDescSize": get(0, func(d *tensorDesc) uint64 {
			return (d.elements()*uint64(d.dtype.Bits()) + 7) / 8
		}),
		"aclGetTensorDescElementCount": get(0, (*tensorDesc).elements),
		"aclGetTensorDescNumDims": get(0, func(d *tensorDesc) uint64 {
			if !d.rankKnown() {
				return abi.ACL_UNKNOWN_RANK
			}
			return uint64(len(d.shape))
		}),
		"aclGetTensorDescDim":      r.tensorDescDim,
		"aclGetTensorDescDimV2":    r.tensorDescDimV2,
		"aclGetTensorDescDimRange": r.tensorDescDimRange,
		"aclSetTensorShapeRange":   r.setTensorShapeRange,
		"aclGetTensorDescName":     r.tensorDescName,
		"aclSetTensorDescName":     r.setTensorDescName,
	}
}

func (t *Thread) noTensorDesc(function string, handle uint64) uint64 {
	return t.Fail(invalidParam, "EH0001: %s: %#x is no description of a tensor, or it was destroyed", function, handle)
}

func (r *Runtime) createTensorDesc(t *Thread, a []uint64) uint64 {
	const function = "aclCreateTensorDesc"
	n := int32(a[1])
	switch {
	case n < 0 || n > maxDescDims:
		t.Fail(invalidParam, "EH0001: %s: numDims is %d; 0 to %d are possible", function, n, maxDescDims)
		return 0
	case n > 0 && a[2] == 0:
		t.null(function, "dims")
		return 0
	}
	d := &tensorDesc{dtype: dtype.Type(int32(a[0])), format: dtype.Format(int32(a[3])), shape: Read[int64](a[2], uint64(n))}
	for i, dim := range d.shape {
		if dim < unknownDim && d.rankKnown() {
			t.Fail(invalidParam, "EH0001: %s: dimension %d is %d; use a size, -1 for one that is not known, or the single dimension -2", function, i, dim)
			return 0
		}
	}
	d.rename("")
	return r.Handles.New(TensorDescKind, d)
}

func (r *Runtime) destroyTensorDesc(_ *Thread, a []uint64) uint64 {
	if d, ok := Lookup[*tensorDesc](&r.Handles, a[0]); ok {
		r.Handles.Delete(a[0])
		d.pin.Unpin()
	}
	return 0
}

// tensorDescDim has no way to say what is wrong but its result.
func (r *Runtime) tensorDescDim(t *Thread, a []uint64) uint64 {
	d, ok := Lookup[*tensorDesc](&r.Handles, a[0])
	if !ok || a[1] >= uint64(len(d.shape)) {
		t.Fail(invalidParam, "EH0001: aclGetTensorDescDim: there is no description %#x with a dimension %d", a[0], a[1])
		return ^uint64(0)
	}
	return uint64(d.shape[a[1]])
}

// describedDim finds the description and checks the index of one of its dimensions.
func (r *Runtime) describedDim(t *Thread, function string, a []uint64) (*tensorDesc, uint64) {
	d, ok := Lookup[*tensorDesc](&r.Handles, a[0])
	if !ok {
		return nil, t.noTensorDesc(function, a[0])
	}
	if a[1] >= uint64(len(d.shape)) {
		return nil, t.Fail(invalidParam, "EH0001: %s: dimension %d of a tensor that has %d", function, a[1], len(d.shape))
	}
	return d, 0
}

func (r *Runtime) tensorDescDimV2(t *Thread, a []uint64) uint64 {
	const function = "aclGetTensorDescDimV2"
	d, code := r.describedDim(t, function, a)
	if d == nil {
		return code
	}
	if a[2] == 0 {
		return t.null(function, "dimSize")
	}
	Write(a[2], d.shape[a[1]])
	return 0
}

// tensorDescDimRange answers the range that was set. Without one it is the size, from zero
// without end where that is not known.
func (r *Runtime) tensorDescDimRange(t *Thread, a []uint64) uint64 {
	const function = "aclGetTensorDescDimRange"
	d, code := r.describedDim(t, function, a)
	if d == nil {
		return code
	}
	if a[3] == 0 {
		return t.null(function, "dimRange")
	}
	if a[2] < 2 {
		return t.Fail(invalidParam, "EH0001: %s: dimRangeNum is %d; a range has 2 ends", function, a[2])
	}
	dim := d.shape[a[1]]
	ends := [2]int64{dim, dim}
	switch {
	case a[1] < uint64(len(d.ranges)):
		ends = d.ranges[a[1]]
	case dim < 0:
		ends = [2]int64{0, unknownDim}
	}
	Write(a[3], ends)
	return 0
}

func (r *Runtime) setTensorShapeRange(t *Thread, a []uint64) uint64 {
	const function = "aclSetTensorShapeRange"
	d, ok := Lookup[*tensorDesc](&r.Handles, a[0])
	switch {
	case !ok:
		return t.noTensorDesc(function, a[0])
	case d.rankKnown() && a[1] != uint64(len(d.shape)) || a[1] > maxDescDims:
		return t.Fail(invalidParam, "EH0001: %s: %d ranges for %d dimensions", function, a[1], len(d.shape))
	case a[1] > 0 && a[2] == 0:
		return t.null(function, "dimsRange")
	}
	d.ranges = Read[[2]int64](a[2], a[1])
	return 0
}

// rename keeps a name as C text.
func (d *tensorDesc) rename(name string) {
	d.pin.Unpin()
	d.name = append([]byte(name), 0)
	d.pin.Pin(&d.name[0])
}

// tensorDescName answers an empty name for no description.
func (r *Runtime) tensorDescName(_ *Thread, a []uint64) uint64 {
	d, ok := Lookup[*tensorDesc](&r.Handles, a[0])
	if !ok {
		return noName
	}
	return uint64(uintptr(unsafe.Pointer(&d.name[0])))
}

func (r *Runtime) setTensorDescName(t *Thread, a []uint64) uint64 {
	d, ok := Lookup[*tensorDesc](&r.Handles, a[0])
	switch {
	case !ok:
		return t.noTensorDesc("aclSetTensorDescName", a[0])
	case a[1] == 0:
		return t.null("aclSetTensorDescName", "name")
	}
	d.rename(CString(a[1]))
	return 0
}
