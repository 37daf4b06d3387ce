package nn

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/goascend/cann/internal/emu/op"
)

// keyLimit is the size of CANN's buffer for the key of a call. Longer calls are not cached.
const keyLimit = 8192

// appendKey appends what CANN's cache knows of a call: the operator and its arguments with the
// descriptions of tensors, but neither addresses nor the stream. It also contains which tensors are
// the same object.
func appendKey(key []byte, o *op.Operator, args []any) []byte {
	key = append(append(key, o.Name...), ',')
	var few [16]*op.Tensor
	tensors := few[:0]
	for _, a := range args {
		switch a := a.(type) {
		case nil:
			key = append(key, ',')
		case *op.Tensor:
			key, tensors = appendTensor(key, a), append(tensors, a)
		case []*op.Tensor:
			for _, t := range a {
				key = appendTensor(key, t)
			}
			key, tensors = appendWord(key, int64(len(a))), append(tensors, a...)
		case *op.Scalar:
			key = appendScalar(key, a)
		case []*op.Scalar:
			for _, s := range a {
				key = appendScalar(key, s)
			}
			key = appendWord(key, int64(len(a)))
		case []int64:
			key = appendWord(appendWords(key, a), int64(len(a)))
		case []float32:
			for _, x := range a {
				key = binary.NativeEndian.AppendUint32(key, math.Float32bits(x))
			}
			key = appendWord(key, int64(len(a)))
		case []bool:
			for _, x := range a {
				key = appendBool(key, x)
			}
			key = appendWord(key, int64(len(a)))
		case string:
			key = appendWord(append(key, a...), int64(len(a)))
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
	key = append(appendWords(key, t.Shape), ',')
	key = append(appendWords(key, t.Strides), ',')
	key = append(appendWords(key, t.Storage), ',')
	key = appendWord(key, t.Offset)
	return appendWord(key, int64(t.DType)<<32|int64(uint32(t.Format)))
}

// appendLabels appends for each tensor the position of its first occurrence.
func appendLabels(key []byte, tensors []*op.Tensor) []byte {
	if len(key) > keyLimit {
		return key
	}
	for i, t := range tensors {
		key = append(key, byte(slices.Index(tensors[:i+1], t)))
	}
	return key
}

func appendScalar(key []byte, s *op.Scalar) []byte {
	return appendWord(append(key, s.Bits[:]...), int64(s.DType))
}

func appendWords(key []byte, values []int64) []byte {
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
