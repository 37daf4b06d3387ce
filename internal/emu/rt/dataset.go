package rt

import (
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
)

// dataItem is one tensor of a dataset, or a mark without data. Its memory is the program's, but
// for items that a channel received: those are copies that the dataset owns.
type dataItem struct {
	kind  int32
	dims  []int64
	dtype dtype.Type
	addr  uint64
	size  uint64
	bytes []byte // in a channel, a copy of the memory
}

// dataset is an acltdtDataset: the items of one message of a channel, by handle.
type dataset struct {
	items    []uint64
	received []unsafe.Pointer // memory of the items that a channel filled it with
	owns     bool             // a channel filled it, so the items end with it
}

func (r *Runtime) datasetFunctions() table {
	number := func(function string, part func(*dataItem) uint64) Func {
		return func(t *Thread, a []uint64) uint64 {
			x, code := tdtObject[*dataItem](r, t, function, "dataItem", a[0])
			if code != 0 {
				return 0
			}
			return part(x)
		}
	}
	noType, noKind := dtype.Undefined, int32(abi.ACL_TENSOR_DATA_UNDEFINED)
	return table{
		"acltdtCreateDataItem": r.createDataItem,
		"acltdtDestroyDataItem": func(t *Thread, a []uint64) uint64 {
			return destroyed[*dataItem](r, t, "acltdtDestroyDataItem", "dataItem", a[0])
		},
		"acltdtGetDataAddrFromItem": number("acltdtGetDataAddrFromItem", func(x *dataItem) uint64 { return x.addr }),
		"acltdtGetDataSizeFromItem": number("acltdtGetDataSizeFromItem", func(x *dataItem) uint64 { return x.size }),
		"acltdtGetDimNumFromItem":   number("acltdtGetDimNumFromItem", func(x *dataItem) uint64 { return uint64(len(x.dims)) }),
		"acltdtGetDataTypeFromItem": func(t *Thread, a []uint64) uint64 {
			x, code := tdtObject[*dataItem](r, t, "acltdtGetDataTypeFromItem", "dataItem", a[0])
			if code != 0 {
				return uint64(int64(noType))
			}
			return uint64(int64(x.dtype))
		},
		"acltdtGetTensorTypeFromItem": func(t *Thread, a []uint64) uint64 {
			x, code := tdtObject[*dataItem](r, t, "acltdtGetTensorTypeFromItem", "dataItem", a[0])
			if code != 0 {
				return uint64(int64(noKind))
			}
			return uint64(int64(x.kind))
		},
		"acltdtGetDimsFromItem":      r.itemDims,
		"acltdtGetSliceInfoFromItem": r.itemSlice,
		"acltdtCreateDataset":        func(*Thread, []uint64) uint64 { return r.Handles.New(DatasetKind, &dataset{}) },
		"acltdtDestroyDataset":       r.destroyDataset,
		"acltdtAddDataItem":          r.addDataItem,
		"acltdtGetDataItem":          r.getDataItem,
		"acltdtGetDatasetSize":       r.datasetSize,
		"acltdtGetDatasetName": func(t *Thread, a []uint64) uint64 {
			if _, code := tdtObject[*dataset](r, t, "acltdtGetDatasetName", "dataset", a[0]); code != 0 {
				return 0
			}
			return noName // only the device's side of a channel names datasets
		},
	}
}

const dataTensor = int32(abi.ACL_TENSOR_DATA_TENSOR)

func (r *Runtime) createDataItem(t *Thread, a []uint64) uint64 {
	const function = "acltdtCreateDataItem"
	x := &dataItem{kind: int32(a[0]), dtype: dtype.Undefined}
	switch {
	case (a[1] == 0) != (a[2] == 0), a[2] > maxDescDims:
		t.Fail(invalidParam, "EH0001: %s: dims is null or dimNum is 0 but not both, or dimNum %d is above %d", function, a[2], maxDescDims)
		return 0
	case x.kind < dataTensor || x.kind > int32(abi.ACL_TENSOR_DATA_END_TENSOR):
		t.Fail(invalidParam, "EH0001: %s: tensor type %d is unknown", function, x.kind)
		return 0
	case x.kind != dataTensor && a[1] != 0:
		t.Fail(invalidParam, "EH0001: %s: only an item of type ACL_TENSOR_DATA_TENSOR has dims", function)
		return 0
	case x.kind == dataTensor:
		x.dims, x.dtype, x.addr, x.size = Read[int64](a[1], a[2]), dtype.Type(int32(a[3])), a[4], a[5]
	}
	return r.Handles.New(DataItemKind, x)
}

func (r *Runtime) itemDims(t *Thread, a []uint64) uint64 {
	const function = "acltdtGetDimsFromItem"
	x, code := tdtObject[*dataItem](r, t, function, "dataItem", a[0])
	if code != 0 {
		return code
	}
	if (a[1] == 0) != (a[2] == 0) || a[2] < uint64(len(x.dims)) {
		return t.Fail(invalidParam, "EH0001: %s: dimNum is %d, the item has %d dimensions", function, a[2], len(x.dims))
	}
	for i, d := range x.dims {
		Write(a[1]+8*uint64(i), d)
	}
	return 0
}

// itemSlice: an item of a channel is whole.
func (r *Runtime) itemSlice(t *Thread, a []uint64) uint64 {
	const function = "acltdtGetSliceInfoFromItem"
	if _, code := tdtObject[*dataItem](r, t, function, "dataItem", a[0]); code != 0 {
		return code
	}
	if a[1] == 0 || a[2] == 0 {
		return t.null(function, "sliceNum or sliceId")
	}
	Write[uint64](a[1], 0)
	Write[uint64](a[2], 0)
	return 0
}

// clear ends the items and the memory that a channel gave.
func (s *dataset) clear(r *Runtime) {
	if s.owns {
		for _, h := range s.items {
			r.Handles.Delete(h)
		}
	}
	for _, p := range s.received {
		Free(p)
	}
	*s = dataset{}
}

func (r *Runtime) destroyDataset(t *Thread, a []uint64) uint64 {
	s, code := tdtObject[*dataset](r, t, "acltdtDestroyDataset", "dataset", a[0])
	if code != 0 {
		return code
	}
	r.Handles.Delete(a[0])
	s.clear(r)
	return 0
}

func (r *Runtime) addDataItem(t *Thread, a []uint64) uint64 {
	const function = "acltdtAddDataItem"
	s, code := tdtObject[*dataset](r, t, function, "dataset", a[0])
	if code != 0 {
		return code
	}
	x, code := tdtObject[*dataItem](r, t, function, "dataItem", a[1])
	if code != 0 {
		return code
	}
	if s.owns {
		return t.Fail(queueUnsupported, "EH0005: %s: a channel has filled the dataset; use a new one", function)
	}
	for _, h := range s.items {
		first, ok := Lookup[*dataItem](&r.Handles, h)
		if ok && first.addr != 0 && x.addr != 0 && r.placeOf(first.addr, 1).onDevice() != r.placeOf(x.addr, 1).onDevice() {
			return t.Fail(invalidParam, "EH0001: %s: the items of a dataset must all lie on the host or all on the device", function)
		}
	}
	s.items = append(s.items, a[1])
	return 0
}

func (r *Runtime) getDataItem(t *Thread, a []uint64) uint64 {
	const function = "acltdtGetDataItem"
	s, code := tdtObject[*dataset](r, t, function, "dataset", a[0])
	if code != 0 {
		return 0
	}
	if a[1] >= uint64(len(s.items)) {
		t.Fail(invalidParam, "EH0001: %s: index %d, the dataset has %d items", function, a[1], len(s.items))
		return 0
	}
	return s.items[a[1]]
}

func (r *Runtime) datasetSize(t *Thread, a []uint64) uint64 {
	s, code := tdtObject[*dataset](r, t, "acltdtGetDatasetSize", "dataset", a[0])
	if code != 0 {
		return 0
	}
	return uint64(len(s.items))
}

// copies are the items with their data, which lies where the device of m sees it.
func (s *dataset) copies(r *Runtime, m *Memory) ([]dataItem, error) {
	var all []dataItem
	for _, h := range s.items {
		x, ok := Lookup[*dataItem](&r.Handles, h)
		if !ok {
			continue // destroyed since it was added
		}
		item := *x
		if x.size > 0 && x.addr != 0 {
			b, err := r.bytes(m, x.addr, x.size, r.placeOf(x.addr, x.size))
			if err != nil {
				return nil, err
			}
			item.bytes = append([]byte(nil), b...)
		}
		all = append(all, item)
	}
	return all, nil
}

// fill replaces what a channel gave before by new items.
func (s *dataset) fill(r *Runtime, items []dataItem) {
	s.clear(r)
	s.owns = true
	for _, x := range items {
		if x.addr = 0; len(x.bytes) > 0 {
			p := Malloc(len(x.bytes))
			copy(bytes(p, int64(len(x.bytes))), x.bytes)
			s.received = append(s.received, p)
			x.addr = uint64(uintptr(p))
		}
		x.bytes = nil
		s.items = append(s.items, r.Handles.New(DataItemKind, &x))
	}
}
