package cshim

// #include "shim.h"
import "C"

import (
	"math"
	"unsafe"
)

// MaxRank is the largest number of dimensions of a tensor or its storage.
const MaxRank = 8

// TensorDesc describes a tensor as aclCreateTensor takes it: a strided view over device
// memory. Offset and strides count elements. Strides of rank Rank are always given.
type TensorDesc struct {
	Address     uint64 // of the storage
	Offset      int64
	Dims        [MaxRank]int64
	Strides     [MaxRank]int64
	Storage     [MaxRank]int64
	DType       int16
	Format      int16
	Rank        uint8
	StorageRank uint8
}

// header puts class and count into the word that starts an argument.
func header(class, count int) uint64 { return uint64(class) | uint64(count)<<8 }

// room extends the encoding by n words and returns them. They hold what an earlier launch
// left: every one must be written.
func (l *Launch) room(n int) []uint64 {
	at := l.used
	l.used += n
	if l.used > len(l.words) {
		l.grow()
	}
	return l.words[at:l.used]
}

// grow makes the words in use, and as many again.
func (l *Launch) grow() {
	words := make([]uint64, max(256, 2*l.used))
	copy(words, l.words)
	l.words = words
}

func (l *Launch) word(header uint64) {
	l.room(1)[0] = header
	l.params++
}

func (l *Launch) value(class, bits uint64) {
	w := l.room(2)
	w[0], w[1] = class, bits
	l.params++
}

// Null appends an absent optional argument.
func (l *Launch) Null() { l.word(C.CANN_NULL) }

// Int appends an integer, enum, bool or pointer argument.
func (l *Launch) Int(v int64) { l.value(C.CANN_INT, uint64(v)) }

// Double appends a double argument.
func (l *Launch) Double(v float64) { l.value(C.CANN_DOUBLE, math.Float64bits(v)) }

// Float appends a float argument.
func (l *Launch) Float(v float32) { l.value(C.CANN_FLOAT, uint64(math.Float32bits(v))) }

// Tensor appends a tensor.
func (l *Launch) Tensor(d *TensorDesc) {
	l.tensor(d)
	l.params++
	l.tensors++
}

func (l *Launch) tensor(d *TensorDesc) {
	rank, storage := int(d.Rank), int(d.StorageRank)
	w := l.room(3 + 2*rank + storage)
	w[0] = C.CANN_TENSOR | uint64(rank)<<8 | uint64(storage)<<16 | uint64(uint16(d.DType))<<32 | uint64(uint16(d.Format))<<48
	w[1], w[2] = d.Address, uint64(d.Offset)
	dims, strides, stored := w[3:3+rank], w[3+rank:3+2*rank], w[3+2*rank:]
	for i := range dims {
		dims[i] = uint64(d.Dims[i&(MaxRank-1)])
	}
	for i := range strides {
		strides[i] = uint64(d.Strides[i&(MaxRank-1)])
	}
	for i := range stored {
		stored[i] = uint64(d.Storage[i&(MaxRank-1)])
	}
}

// Tensors starts a tensor list of n members; n calls of Member must follow.
func (l *Launch) Tensors(n int) { l.word(header(C.CANN_TENSORS, n)) }

// Member appends a member of a tensor list.
func (l *Launch) Member(d *TensorDesc) {
	l.tensor(d)
	l.tensors++
}

// Scalar appends a scalar of the given dtype; value holds its little-endian bytes.
func (l *Launch) Scalar(dtype int32, value [2]uint64) {
	l.ScalarMember(dtype, value)
	l.params++
}

// Scalars starts a scalar list of n members; n calls of ScalarMember must follow.
func (l *Launch) Scalars(n int) { l.word(header(C.CANN_SCALARS, n)) }

// ScalarMember appends a member of a scalar list.
func (l *Launch) ScalarMember(dtype int32, value [2]uint64) {
	w := l.room(3)
	w[0], w[1], w[2] = C.CANN_SCALAR|uint64(uint16(dtype))<<32, value[0], value[1]
}

// Ints appends an aclIntArray.
func (l *Launch) Ints(v []int64) {
	l.word(header(C.CANN_INTS, len(v)))
	w := l.room(len(v))
	for i, x := range v {
		w[i] = uint64(x)
	}
}

// Floats appends an aclFloatArray.
func (l *Launch) Floats(v []float32) { packed(l, C.CANN_FLOATS, v) }

// Bools appends an aclBoolArray.
func (l *Launch) Bools(v []bool) { packed(l, C.CANN_BOOLS, v) }

// Text appends a C string; the copy ends with a NUL.
func (l *Launch) Text(s string) {
	l.word(header(C.CANN_STRING, len(s)+1))
	w := l.room(len(s)/8 + 1)
	w[len(w)-1] = 0
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), len(s)), s)
}

// packed appends an array whose elements are smaller than a word.
func packed[T float32 | bool](l *Launch, class int, v []T) {
	l.word(header(class, len(v)))
	if len(v) == 0 {
		return
	}
	var zero T
	w := l.room((len(v)*int(unsafe.Sizeof(zero)) + 7) / 8)
	copy(unsafe.Slice((*T)(unsafe.Pointer(&w[0])), len(v)), v)
}

// Each calls f for every tensor among the arguments: the index of the parameter, the index
// in its list (-1 for a tensor of its own), and the descriptor. For error texts.
func (l *Launch) Each(f func(param, member int, d *TensorDesc)) {
	w := l.words[:l.used]
	tensor := func(param, member int) {
		h := w[0]
		d := TensorDesc{Address: w[1], Offset: int64(w[2]), Rank: uint8(h >> 8), StorageRank: uint8(h >> 16),
			DType: int16(h >> 32), Format: int16(h >> 48)}
		w = w[3:]
		rank, storage := int(d.Rank), int(d.StorageRank)
		for i := range rank {
			d.Dims[i], d.Strides[i] = int64(w[i]), int64(w[rank+i])
		}
		for i := range storage {
			d.Storage[i] = int64(w[2*rank+i])
		}
		w = w[2*rank+storage:]
		f(param, member, &d)
	}
	for i := range l.params {
		class, count := w[0]&0xff, int(w[0]>>8&0xffffff)
		switch class {
		case C.CANN_TENSOR:
			tensor(i, -1)
			continue
		case C.CANN_TENSORS:
			w = w[1:]
			for k := range count {
				tensor(i, k)
			}
			continue
		}
		skip := 1
		switch class {
		case C.CANN_INT, C.CANN_DOUBLE, C.CANN_FLOAT:
			skip = 2
		case C.CANN_SCALAR:
			skip = 3
		case C.CANN_SCALARS:
			skip = 1 + 3*count
		case C.CANN_INTS:
			skip = 1 + count
		case C.CANN_FLOATS:
			skip = 1 + (4*count+7)/8
		case C.CANN_STRING, C.CANN_BOOLS:
			skip = 1 + (count+7)/8
		}
		w = w[skip:]
	}
}
