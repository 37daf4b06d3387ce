package kernel

import (
	"math"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// sortKeys returns the elements of x, in row-major order, as integers that compare as the elements
// do: a NaN is larger than every number, and all NaN and the two zeros are equal. With descending the
// order of the integers is reversed.
func sortKeys(x View, descending bool) (keys []uint64, release func(), err error) {
	kind, err := keyType(x.DType)
	if err != nil {
		return nil, func() {}, err
	}
	packed, release := temporary(kind, x.Shape)
	if err := Copy(packed, x); err != nil {
		return nil, release, err
	}
	const sign = 1 << 63
	keys = unsafe.Slice((*uint64)(packed.Data), x.Len())
	flip := uint64(0)
	if descending {
		flip = math.MaxUint64
	}
	Parallel(int64(len(keys)), grain, func(lo, hi int64) {
		part := keys[lo:hi]
		switch kind {
		case dtype.Float64:
			for i, b := range part {
				switch b &^ sign {
				case 0:
					b = 0
				default:
					if b&^sign > 0x7ff<<52 {
						b = math.MaxInt64
					}
				}
				part[i] = b ^ (uint64(int64(b)>>63) | sign) ^ flip
			}
		case dtype.Int64:
			for i, b := range part {
				part[i] = b ^ sign ^ flip
			}
		default:
			for i, b := range part {
				part[i] = b ^ flip
			}
		}
	})
	return keys, release, nil
}
