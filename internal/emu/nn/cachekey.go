package nn

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/goascend/cann/internal/emu/op"
)

// keyLimit is the size of CANN's buffer for the description of a call. Longer calls are not cached.
const keyLimit = 8192

// appendCall appends what CANN's cache knows of a call: the operator and its arguments with the
// descriptions of tensors, but neither addresses nor the stream. It also contains which tensors are
// the same object. Different calls have different descriptions: lengths come before what they count.
func appendCall(key []byte, o *op.Operator, args []any) []byte {
	key = append(append(key, o.Name...), ',')
	var few [16]*op.Tensor
	tensors := few[:0]
	for _, a := range args {
		key = appendBool(key, a != nil)
		switch a := a.(type) {
		case *op.Tensor:
			key, tensors = appendTensor(key, a), append(tensors, a)
		case []*op.Tensor:
			key = appendLength(key, len(a))
			for _, t := range a {
				key = appendTensor(key, t)
			}
			tensors = append(tensors, a...)
		case *op.Scalar:
			key = appendScalar(key, a)
		case []*op.Scalar:
			key = appendLength(key, len(a))
			for _, s := range a {
				key = appendScalar(key, s)
			}
		case []int64:
			key = appendWords(key, a)
		case []float32:
			key = appendLength(key, len(a))
			for _, x := range a {
				key = binary.NativeEndian.AppendUint32(key, math.Float32bits(x))
			}
		case []bool:
			key = appendLength(key, len(a))
			for _, x := range a {
				key = appendBool(key, x)
			}
		case string:
			key = append(appendLength(key, len(a)), a...)
		case int64:
			key = appendWord(key, a)
		case bool:
			key = appendBool(key, a)
		case float64:
			key = appendWord(key, int64(math.Float64bits(a)))
		}
	}
	return appendLabels(key, tensors)
}

func appendTensor(key []byte, t *op.Tensor) []byte {
	key = appendWords(key, t.Shape)
	key = appendWords(key, t.Strides)
	key = appendWords(key, t.Storage)
	key = appendWord(key, t.Offset)
	return appendWord(key, int64(t.DType)<<32|int64(uint32(t.Format)))
}

// appendLabels appends for each tensor the position of its first occurrence.
func appendLabels(key []byte, tensors []*op.Tensor) []byte {
	if len(key) > keyLimit {
		return key
	}
	for i, t := range tensors {
		key = appendLength(key, slices.Index(tensors[:i+1], t))
	}
	return key
}

func appendScalar(key []byte, s *op.Scalar) []byte {
	return appendWord(append(key, s.Bits[:]...), int64(s.DType))
}

func appendLength(key []byte, n int) []byte { return binary.AppendUvarint(key, uint64(n)) }

func appendWords(key []byte, values []int64) []byte {
	key = appendLength(key, len(values))
	for _, v := range values {
		key = appendWord(key, v)
	}
	return key
}

func appendWord(key []byte, v int64) []byte { return binary.NativeEndian.AppendUint64(key, uint64(v)) }

func appendBool(key []byte, b bool) []byte {
	if b {
		return append(key, 1)
	}
	return append(key, 0)
}
