package queue

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/rt"
)

// dataItem is one tensor of a dataset, or a mark without data. The program owns its memory, except
// for items that a channel delivered: those are copies that the dataset owns.
type dataItem struct {
	handle rt.Handle
	kind   int32
	dims   []int64
	dtype  dtype.Type
	addr   uint64
	size   uint64
	bytes  []byte // while in a channel: a copy of the memory
}

// dataset is an acltdtDataset: the items of one message of a channel, by handle.
type dataset struct {
	handle   rt.Handle
	items    []rt.Handle
	received []unsafe.Pointer // memory of the received items
	owns     bool             // the items were received, so the dataset owns them
}

// maxDims is far above the rank of any operator's tensor; it stops a wrong count from reading
// invalid memory.
const maxDims = 128

var noName = rt.NewCString("")

const dataTensor = int32(abi.ACL_TENSOR_DATA_TENSOR)

func (r *Runtime) acltdtCreateDataItem(t *rt.Thread, tdtType int32, dims *int64, dimNum uint64, dataType dtype.Type, data uintptr, size uint64) rt.Handle {
	const function = "acltdtCreateDataItem"
	x := &dataItem{kind: tdtType, dtype: dtype.Undefined}
	switch {
	case (dims == nil) != (dimNum == 0), dimNum > maxDims:
		t.Fail(rt.InvalidParam, "EH0001: %s: dims is null or dimNum is 0 but not both, or dimNum %d is above %d", function, dimNum, maxDims)
		return 0
	case tdtType < dataTensor || tdtType > int32(abi.ACL_TENSOR_DATA_END_TENSOR):
		t.Fail(rt.InvalidParam, "EH0001: %s: tensor type %d is unknown", function, tdtType)
		return 0
	case tdtType != dataTensor && dims != nil:
		t.Fail(rt.InvalidParam, "EH0001: %s: only an item of type ACL_TENSOR_DATA_TENSOR has dims", function)
		return 0
	case tdtType == dataTensor:
		x.dims, x.dtype, x.addr, x.size = slices.Clone(unsafe.Slice(dims, dimNum)), dataType, uint64(data), size
	}
	return r.addItem(x)
}

func (r *Runtime) addItem(x *dataItem) rt.Handle {
	x.handle = r.Handles.New(rt.DataItemKind, x)
	return x.handle
}

//npugen:decode acltdtDataItem
func (r *Runtime) dataItem(t *rt.Thread, function string, h rt.Handle) (*dataItem, rt.Code) {
	return tdtObject[*dataItem](r, t, function, "dataItem", h)
}

// item is dataItem for functions that accept any handle; for a wrong handle it returns an empty
// item.
func (r *Runtime) item(t *rt.Thread, function string, h rt.Handle) *dataItem {
	x, code := r.dataItem(t, function, h)
	if code != 0 {
		return &dataItem{kind: int32(abi.ACL_TENSOR_DATA_UNDEFINED), dtype: dtype.Undefined}
	}
	return x
}

func (r *Runtime) acltdtDestroyDataItem(dataItem *dataItem) rt.Code {
	r.Handles.Delete(dataItem.handle)
	return 0
}

func (r *Runtime) acltdtGetDataAddrFromItem(t *rt.Thread, dataItem rt.Handle) uintptr {
	return uintptr(r.item(t, "acltdtGetDataAddrFromItem", dataItem).addr)
}

func (r *Runtime) acltdtGetDataSizeFromItem(t *rt.Thread, dataItem rt.Handle) uint64 {
	return r.item(t, "acltdtGetDataSizeFromItem", dataItem).size
}

func (r *Runtime) acltdtGetDimNumFromItem(t *rt.Thread, dataItem rt.Handle) uint64 {
	return uint64(len(r.item(t, "acltdtGetDimNumFromItem", dataItem).dims))
}

func (r *Runtime) acltdtGetDataTypeFromItem(t *rt.Thread, dataItem rt.Handle) dtype.Type {
	return r.item(t, "acltdtGetDataTypeFromItem", dataItem).dtype
}

func (r *Runtime) acltdtGetTensorTypeFromItem(t *rt.Thread, dataItem rt.Handle) int32 {
	return r.item(t, "acltdtGetTensorTypeFromItem", dataItem).kind
}

func (r *Runtime) acltdtGetDimsFromItem(t *rt.Thread, dataItem *dataItem, dims *int64, dimNum uint64) rt.Code {
	if (dims == nil) != (dimNum == 0) || dimNum < uint64(len(dataItem.dims)) {
		return t.Fail(rt.InvalidParam, "EH0001: acltdtGetDimsFromItem: dimNum is %d, the item has %d dimensions", dimNum, len(dataItem.dims))
	}
	copy(unsafe.Slice(dims, dimNum), dataItem.dims)
	return 0
}

// acltdtGetSliceInfoFromItem reports a single slice, since an item of a channel is whole.
func (r *Runtime) acltdtGetSliceInfoFromItem(_ *dataItem, sliceNum, sliceID rt.Out[uint64]) rt.Code {
	sliceNum.Set(0)
	sliceID.Set(0)
	return 0
}

func (r *Runtime) acltdtCreateDataset() rt.Handle {
	s := new(dataset)
	s.handle = r.Handles.New(rt.DatasetKind, s)
	return s.handle
}

//npugen:decode acltdtDataset
func (r *Runtime) dataset(t *rt.Thread, function, parameter string, h rt.Handle) (*dataset, rt.Code) {
	return tdtObject[*dataset](r, t, function, parameter, h)
}

// clear removes the items and frees the memory of received ones.
func (s *dataset) clear(r *Runtime) {
	if s.owns {
		for _, h := range s.items {
			r.Handles.Delete(h)
		}
	}
	for _, p := range s.received {
		rt.Free(p)
	}
	s.items, s.received, s.owns = nil, nil, false
}

func (r *Runtime) acltdtDestroyDataset(dataset *dataset) rt.Code {
	r.Handles.Delete(dataset.handle)
	dataset.clear(r)
	return 0
}

func (r *Runtime) acltdtAddDataItem(t *rt.Thread, dataset *dataset, dataItem *dataItem) rt.Code {
	const function = "acltdtAddDataItem"
	if dataset.owns {
		return t.Fail(unsupported, "EH0005: %s: a channel has filled the dataset; use a new one", function)
	}
	if !dataset.fits(r, dataItem) {
		return t.Fail(rt.InvalidParam, "EH0001: %s: the items of a dataset must all lie on the host or all on the device", function)
	}
	dataset.items = append(dataset.items, dataItem.handle)
	return 0
}

// fits reports whether an item lies on the same side, host or device, as the items of the dataset.
func (s *dataset) fits(r *Runtime, x *dataItem) bool {
	for _, h := range s.items {
		first, ok := rt.Lookup[*dataItem](&r.Handles, h)
		if ok && first.addr != 0 && x.addr != 0 && r.OnDevice(first.addr) != r.OnDevice(x.addr) {
			return false
		}
	}
	return true
}

func (r *Runtime) acltdtGetDataItem(t *rt.Thread, dataset *dataset, index uint64) rt.Handle {
	if index >= uint64(len(dataset.items)) {
		t.Fail(rt.InvalidParam, "EH0001: acltdtGetDataItem: index %d, the dataset has %d items", index, len(dataset.items))
		return 0
	}
	return dataset.items[index]
}

func (r *Runtime) acltdtGetDatasetSize(dataset *dataset) uint64 { return uint64(len(dataset.items)) }

// acltdtGetDatasetName returns an empty name, since only the device side of a channel names
// datasets.
func (r *Runtime) acltdtGetDatasetName(*dataset) uintptr { return uintptr(noName) }

// copies returns the items with a copy of their data, as the device of m sees it.
func (s *dataset) copies(r *Runtime, m *rt.Memory) ([]dataItem, error) {
	var all []dataItem
	for _, h := range s.items {
		x, ok := rt.Lookup[*dataItem](&r.Handles, h)
		if !ok {
			continue // the item was destroyed after it was added
		}
		item := *x
		if x.size > 0 && x.addr != 0 {
			b, err := r.View(m, x.addr, x.size)
			if err != nil {
				return nil, err
			}
			item.bytes = append([]byte(nil), b...)
		}
		all = append(all, item)
	}
	return all, nil
}

// fill replaces the items of an earlier receive by new ones.
func (s *dataset) fill(r *Runtime, items []dataItem) {
	s.clear(r)
	s.owns = true
	for _, x := range items {
		if x.addr = 0; len(x.bytes) > 0 {
			p := rt.Malloc(len(x.bytes))
			copy(unsafe.Slice((*byte)(p), len(x.bytes)), x.bytes)
			s.received = append(s.received, p)
			x.addr = uint64(uintptr(p))
		}
		x.bytes = nil
		s.items = append(s.items, r.addItem(&x))
	}
}
