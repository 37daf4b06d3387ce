package element

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/goascend/cann/internal/dtype"
)

func convertIntegers(dst []byte, to dtype.Type, src []byte, from dtype.Type) error {
	low, high := bounds(to)
	var values [block]int64
	for first := 0; len(src) > 0; first += block {
		n := min(block, len(src)/from.Size())
		decodeIntegers(values[:n], src, from)
		for i, v := range values[:n] {
			switch {
			case from == dtype.Uint64 && v < 0:
				return &RangeError{first + i, strconv.FormatUint(uint64(v), 10), to}
			case v < low || v > high:
				return &RangeError{first + i, strconv.FormatInt(v, 10), to}
			}
		}
		encodeIntegers(dst, to, values[:n])
		src, dst = src[n*from.Size():], dst[n*to.Size():]
	}
	return nil
}

// bounds returns the least and the largest value of an integer type, limited to the range of int64.
func bounds(t dtype.Type) (low, high int64) {
	switch t {
	case dtype.Int8:
		return math.MinInt8, math.MaxInt8
	case dtype.Int16:
		return math.MinInt16, math.MaxInt16
	case dtype.Int32:
		return math.MinInt32, math.MaxInt32
	case dtype.Uint8:
		return 0, math.MaxUint8
	case dtype.Uint16:
		return 0, math.MaxUint16
	case dtype.Uint32:
		return 0, math.MaxUint32
	case dtype.Uint64:
		return 0, math.MaxInt64
	}
	return math.MinInt64, math.MaxInt64
}

// decodeIntegers reads integers and bools. A uint64 above the largest int64 becomes negative.
func decodeIntegers(dst []int64, src []byte, from dtype.Type) {
	le := binary.LittleEndian
	switch from {
	case dtype.Int64, dtype.Uint64:
		for i := range dst {
			dst[i] = int64(le.Uint64(src[8*i:]))
		}
	case dtype.Int32:
		for i := range dst {
			dst[i] = int64(int32(le.Uint32(src[4*i:])))
		}
	case dtype.Uint32:
		for i := range dst {
			dst[i] = int64(le.Uint32(src[4*i:]))
		}
	case dtype.Int16:
		for i := range dst {
			dst[i] = int64(int16(le.Uint16(src[2*i:])))
		}
	case dtype.Uint16:
		for i := range dst {
			dst[i] = int64(le.Uint16(src[2*i:]))
		}
	case dtype.Int8:
		for i := range dst {
			dst[i] = int64(int8(src[i]))
		}
	case dtype.Uint8:
		for i := range dst {
			dst[i] = int64(src[i])
		}
	case dtype.Bool:
		for i := range dst {
			dst[i] = int64(min(src[i], 1))
		}
	}
}

// encodeIntegers encodes values that must lie within the bounds of the type.
func encodeIntegers(dst []byte, to dtype.Type, values []int64) {
	le := binary.LittleEndian
	switch to.Size() {
	case 8:
		for i, v := range values {
			le.PutUint64(dst[8*i:], uint64(v))
		}
	case 4:
		for i, v := range values {
			le.PutUint32(dst[4*i:], uint32(v))
		}
	case 2:
		for i, v := range values {
			le.PutUint16(dst[2*i:], uint16(v))
		}
	case 1:
		for i, v := range values {
			dst[i] = byte(v)
		}
	}
}
