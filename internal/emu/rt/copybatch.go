package rt

import (
	"math"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
)

// A batch copies many ranges with one call. The first versions of these functions have a parameter
// failIndex for the index of the entry that was refused.

func (r *Runtime) aclrtMemcpyBatch(t *Thread, dsts *Address, destMaxs *uint64, srcs *Address, sizes *uint64, numBatches uint64,
	attrs *batchAttributes, attrsIndexes *uint64, numAttrs uint64, failIndex *uint64) Code {
	b := batch{"aclrtMemcpyBatch", dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex}
	return b.copy(t, r, r.now)
}

func (r *Runtime) aclrtMemcpyBatchV2(t *Thread, dsts *Address, destMaxs *uint64, srcs *Address, sizes *uint64, numBatches uint64,
	attrs *batchAttributes, attrsIndexes *uint64, numAttrs uint64) Code {
	b := batch{"aclrtMemcpyBatchV2", dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, nil}
	return b.copy(t, r, r.now)
}

func (r *Runtime) aclrtMemcpyBatchAsync(t *Thread, dsts *Address, destMaxs *uint64, srcs *Address, sizes *uint64, numBatches uint64,
	attrs *batchAttributes, attrsIndexes *uint64, numAttrs uint64, failIndex *uint64, stream Handle) Code {
	b := batch{"aclrtMemcpyBatchAsync", dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex}
	return b.copy(t, r, r.onStream(stream))
}

func (r *Runtime) aclrtMemcpyBatchAsyncV2(t *Thread, dsts *Address, destMaxs *uint64, srcs *Address, sizes *uint64, numBatches uint64,
	attrs *batchAttributes, attrsIndexes *uint64, numAttrs uint64, stream Handle) Code {
	b := batch{"aclrtMemcpyBatchAsyncV2", dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, nil}
	return b.copy(t, r, r.onStream(stream))
}

// onStream returns the function that queues transfers on the stream.
func (r *Runtime) onStream(stream Handle) func(*Thread, *transfer) Code {
	return func(t *Thread, x *transfer) Code { return r.later(t, x, stream) }
}

// batch holds the arguments of a call that copies many ranges.
type batch struct {
	function     string
	dsts         *Address
	destMaxs     *uint64
	srcs         *Address
	sizes        *uint64
	n            uint64
	attrs        *batchAttributes
	attrsIndexes *uint64
	numAttrs     uint64
	failIndex    *uint64
}

// memLocation is C's aclrtMemLocation.
type memLocation struct {
	_    uint32 // device id
	side int32
}

// batchAttributes is C's aclrtMemcpyBatchAttr: the places of the source and destination of some
// entries.
type batchAttributes struct {
	dst, src memLocation
	_        [16]byte
}

// kind returns the direction of the entries. Only host to device and device to host are supported.
func (b batchAttributes) kind() (kind int64, ok bool) {
	switch [2]int64{int64(b.dst.side), int64(b.src.side)} {
	case [2]int64{abi.ACL_MEM_LOCATION_TYPE_DEVICE, abi.ACL_MEM_LOCATION_TYPE_HOST}:
		return abi.ACL_MEMCPY_HOST_TO_DEVICE, true
	case [2]int64{abi.ACL_MEM_LOCATION_TYPE_HOST, abi.ACL_MEM_LOCATION_TYPE_DEVICE}:
		return abi.ACL_MEMCPY_DEVICE_TO_HOST, true
	}
	return 0, false
}

// failed writes the index of the refused entry to failIndex.
func (b *batch) failed(entry uint64) {
	if b.failIndex != nil {
		*b.failIndex = entry
	}
}

// copy copies the entries in order, or refuses the whole batch when one entry is wrong.
func (b *batch) copy(t *Thread, r *Runtime, move func(*Thread, *transfer) Code) Code {
	b.failed(math.MaxUint64)
	transfers, code := b.transfers(t, r)
	for i := range transfers {
		if code := move(t, &transfers[i]); code != 0 {
			return code
		}
	}
	return code
}

// check refuses null arrays and inconsistent counts.
func (b *batch) check(t *Thread) Code {
	for _, array := range []struct {
		name string
		null bool
	}{
		{"dsts", b.dsts == nil}, {"destMaxs", b.destMaxs == nil}, {"srcs", b.srcs == nil}, {"sizes", b.sizes == nil},
		{"attrs", b.attrs == nil}, {"attrsIndexes", b.attrsIndexes == nil},
	} {
		if array.null {
			return t.Null(b.function, array.name)
		}
	}
	if b.n == 0 {
		return t.Fail(InvalidParam, "EH0001: %s: numBatches is 0", b.function)
	}
	if b.numAttrs == 0 || b.numAttrs > b.n {
		return t.Fail(ParamInvalid, "EE1003: %s: numAttrs %d; 1 to numBatches %d are possible", b.function, b.numAttrs, b.n)
	}
	starts := unsafe.Slice(b.attrsIndexes, b.numAttrs)
	for k, start := range starts {
		if k == 0 && start != 0 || k > 0 && start <= starts[k-1] || start >= b.n {
			return t.Fail(ParamInvalid, "EE1003: %s: attrsIndexes[%d] is %d; they begin with 0, rise, and stay below numBatches %d", b.function, k, start, b.n)
		}
	}
	return 0
}

// transfers returns the entries with a size above zero.
func (b *batch) transfers(t *Thread, r *Runtime) (all []transfer, code Code) {
	if code := b.check(t); code != 0 {
		return nil, code
	}
	attributes, starts := unsafe.Slice(b.attrs, b.numAttrs), unsafe.Slice(b.attrsIndexes, b.numAttrs)
	dsts, rooms, srcs, sizes := unsafe.Slice(b.dsts, b.n), unsafe.Slice(b.destMaxs, b.n), unsafe.Slice(b.srcs, b.n), unsafe.Slice(b.sizes, b.n)
	var direction int64
	for i, k := uint64(0), 0; i < b.n; i++ {
		if k+1 < len(starts) && starts[k+1] == i {
			k++
		}
		kind, ok := attributes[k].kind()
		if !ok || i > 0 && kind != direction {
			b.failed(i)
			return nil, t.Fail(ParamInvalid, "EE1003: %s: entry %d goes from location %d to %d; a batch goes from host to device or from device to host",
				b.function, i, attributes[k].src.side, attributes[k].dst.side)
		}
		direction = kind
		x, code, done := linear(t, b.function, uintptr(dsts[i]), rooms[i], uintptr(srcs[i]), sizes[i], int32(kind))
		if done && code == 0 {
			continue
		}
		if code == 0 {
			code = x.check(r, t)
		}
		if code != 0 {
			b.failed(i)
			return nil, code
		}
		all = append(all, x)
	}
	return all, 0
}
