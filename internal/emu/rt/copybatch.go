package rt

import (
	"math"

	"github.com/goascend/cann/internal/abi"
)

// batchFunctions copy many ranges with one call; a failIndex of the first forms names the
// entry that is refused.
func (r *Runtime) batchFunctions() table {
	return table{
		"aclrtMemcpyBatch": func(t *Thread, a []uint64) uint64 {
			return r.copyBatch(t, "aclrtMemcpyBatch", a, a[8], r.now)
		},
		"aclrtMemcpyBatchV2": func(t *Thread, a []uint64) uint64 {
			return r.copyBatch(t, "aclrtMemcpyBatchV2", a, 0, r.now)
		},
		"aclrtMemcpyBatchAsync": func(t *Thread, a []uint64) uint64 {
			return r.copyBatch(t, "aclrtMemcpyBatchAsync", a, a[8], r.onStream(a[9]))
		},
		"aclrtMemcpyBatchAsyncV2": func(t *Thread, a []uint64) uint64 {
			return r.copyBatch(t, "aclrtMemcpyBatchAsyncV2", a, 0, r.onStream(a[8]))
		},
	}
}

// onStream is later for one stream.
func (r *Runtime) onStream(stream uint64) func(*Thread, *transfer) uint64 {
	return func(t *Thread, x *transfer) uint64 { return r.later(t, x, stream) }
}

// memLocation is C's aclrtMemLocation.
type memLocation struct {
	_    uint32 // which device
	side int32
}

// batchAttributes is C's aclrtMemcpyBatchAttr: where the ends of some entries lie.
type batchAttributes struct {
	dst, src memLocation
	_        [16]byte
}

// kind is the direction of the entries: between host and device, one way or the other.
func (b batchAttributes) kind() (kind int64, ok bool) {
	switch [2]int64{int64(b.dst.side), int64(b.src.side)} {
	case [2]int64{abi.ACL_MEM_LOCATION_TYPE_DEVICE, abi.ACL_MEM_LOCATION_TYPE_HOST}:
		return abi.ACL_MEMCPY_HOST_TO_DEVICE, true
	case [2]int64{abi.ACL_MEM_LOCATION_TYPE_HOST, abi.ACL_MEM_LOCATION_TYPE_DEVICE}:
		return abi.ACL_MEMCPY_DEVICE_TO_HOST, true
	}
	return 0, false
}

// copyBatch reads the arguments dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes,
// numAttrs, refuses the whole batch for one wrong entry, and moves the entries in their order.
func (r *Runtime) copyBatch(t *Thread, function string, a []uint64, failIndex uint64, move func(*Thread, *transfer) uint64) uint64 {
	failed := func(i uint64) {
		if failIndex != 0 {
			Write(failIndex, i)
		}
	}
	failed(math.MaxUint64)
	for i, name := range []string{"dsts", "destMaxs", "srcs", "sizes", "", "attrs", "attrsIndexes"} {
		if name != "" && a[i] == 0 {
			return t.null(function, name)
		}
	}
	n, numAttrs := a[4], a[7]
	if n == 0 || numAttrs == 0 || numAttrs > n {
		return t.Fail(paramInvalid, "EE1003: %s: numBatches %d and numAttrs %d; neither may be 0, and not more attributes than entries", function, n, numAttrs)
	}
	attributes, starts := Read[batchAttributes](a[5], numAttrs), Read[uint64](a[6], numAttrs)
	for k, start := range starts {
		if k == 0 && start != 0 || k > 0 && start <= starts[k-1] || start >= n {
			return t.Fail(paramInvalid, "EE1003: %s: attrsIndexes[%d] is %d; they begin with 0, rise, and stay below numBatches %d", function, k, start, n)
		}
	}
	var batch []transfer
	var direction int64
	dsts, rooms, srcs, sizes := Read[uint64](a[0], n), Read[uint64](a[1], n), Read[uint64](a[2], n), Read[uint64](a[3], n)
	for i, k := uint64(0), 0; i < n; i++ {
		if k+1 < len(starts) && starts[k+1] == i {
			k++
		}
		kind, ok := attributes[k].kind()
		if !ok || i > 0 && kind != direction {
			failed(i)
			return t.Fail(paramInvalid, "EE1003: %s: entry %d goes from location %d to %d; a batch goes from host to device or from device to host",
				function, i, attributes[k].src.side, attributes[k].dst.side)
		}
		direction = kind
		x, code, done := linear(t, function, []uint64{dsts[i], rooms[i], srcs[i], sizes[i], uint64(kind)})
		if done && code == 0 {
			continue
		}
		if code == 0 {
			code = x.check(r, t)
		}
		if code != 0 {
			failed(i)
			return code
		}
		batch = append(batch, x)
	}
	for i := range batch {
		if code := move(t, &batch[i]); code != 0 {
			return code
		}
	}
	return 0
}
