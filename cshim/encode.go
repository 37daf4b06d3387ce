package cshim

import (
	"math"
	"math/bits"
	"unsafe"
)

// MaxRank is the largest number of dimensions of a tensor or its storage.
const MaxRank = 8

// Classes of records, as in enum cann_class.
const (
	classTensor = 1 + iota
	classTensors
	classScalar
	classScalars
	classString
	classInts
	classFloats
	classBools
)

// TensorDesc describes a tensor as aclCreateTensor takes it: a strided view over device
// memory. Offset and strides count elements. Strides of rank Rank are always given.
//
// It is laid out as C's struct cann_tensor, so that encoding one is a copy.
type TensorDesc struct {
	class, slot       uint8
	DType             int16
	Format            int16
	Rank, StorageRank uint8
	Address           uint64 // of the storage
	Offset            int64
	Dims              [MaxRank]int64
	Strides           [MaxRank]int64
	Storage           [MaxRank]int64
}

// smallRank is the largest rank of a tensor of which smallDesc and smallStrides are encoded, instead of
// all of TensorDesc.
const smallRank = 4

// smallDesc is the beginning of a TensorDesc.
type smallDesc struct {
	class, slot       uint8
	DType             int16
	Format            int16
	Rank, StorageRank uint8
	Address           uint64
	Offset            int64
	Dims              [smallRank]int64
}

// smallStrides is the beginning of its strides. Registers hold a small struct, but no array.
type smallStrides struct{ first, second, third, fourth int64 }

// record is the head of an argument that C makes an object of: C's struct cann_record.
type record struct {
	class, slot uint8
	dtype       int16
	count       uint32
}

// Sizes in words.
const (
	tensorWords = int(unsafe.Sizeof(TensorDesc{}) / 8)
	recordWords = int(unsafe.Sizeof(record{}) / 8)
)

// extend makes space for n words behind the records. They hold what an earlier launch left:
// every one that is read must be written.
func (l *Launch) extend(n int) []uint64 {
	at := l.used
	l.used += n
	if l.used > len(l.records) {
		l.grow()
	}
	return l.records[at:l.used]
}

// grow makes the words in use, and as many again. It is a function of its own, so that the frequent case is inlined.
//
//go:noinline
func (l *Launch) grow() {
	words := make([]uint64, max(512, 2*l.used))
	copy(words, l.records)
	l.records = words
}

// word appends an argument that travels as it is.
func (l *Launch) word(w uint64) {
	if l.words < maxWords {
		l.head.word[l.words] = w
	}
	l.words++
}

// float appends a floating-point argument.
func (l *Launch) float(bits uint64) {
	if l.floats < len(l.head.floats) {
		l.head.floats[l.floats] = math.Float64frombits(bits)
		l.floating |= 1 << ((l.words + l.floats) & 63)
	}
	l.floats++
}

// object starts the record of an argument, the word of which C will fill in.
func (l *Launch) object(class uint8, dtype int16, count int) {
	l.member(class, dtype, count)
	l.head.records++
	l.words++
}

// member starts a record inside a list, or that of an object.
func (l *Launch) member(class uint8, dtype int16, count int) {
	*(*record)(unsafe.Pointer(&l.extend(recordWords)[0])) = record{class, uint8(l.words), dtype, uint32(count)}
}

// Null appends an absent optional argument.
func (l *Launch) Null() { l.word(0) }

// Int appends an integer, enum, bool or pointer argument.
func (l *Launch) Int(v int64) { l.word(uint64(v)) }

// Double appends a double argument.
func (l *Launch) Double(v float64) { l.float(math.Float64bits(v)) }

// Float appends a float argument.
func (l *Launch) Float(v float32) { l.float(uint64(math.Float32bits(v))) }

// Tensor appends a tensor.
func (l *Launch) Tensor(d *TensorDesc) {
	l.Member(d)
	l.head.records++
	l.words++
}

// Tensors starts a tensor list of n members; n calls of Member must follow.
func (l *Launch) Tensors(n int) { l.object(classTensors, 0, n) }

// Member appends a member of a tensor list.
func (l *Launch) Member(d *TensorDesc) {
	at := l.used
	l.used += tensorWords
	if l.used > len(l.records) {
		l.grow()
	}
	r := (*TensorDesc)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(l.records)), at*8))
	if d.Rank <= smallRank && d.StorageRank <= 1 { // most tensors: copying is much of what a launch costs
		*(*smallDesc)(unsafe.Pointer(r)) = *(*smallDesc)(unsafe.Pointer(d))
		*(*smallStrides)(unsafe.Pointer(&r.Strides)) = *(*smallStrides)(unsafe.Pointer(&d.Strides))
		r.Storage[0] = d.Storage[0]
	} else {
		*r = *d
	}
	r.class, r.slot = classTensor, uint8(l.words)
}

// Scalar appends a scalar of the given dtype; value holds its little-endian bytes.
func (l *Launch) Scalar(dtype int32, value [2]uint64) {
	l.ScalarMember(dtype, value)
	l.head.records++
	l.words++
}

// Scalars starts a scalar list of n members; n calls of ScalarMember must follow.
func (l *Launch) Scalars(n int) { l.object(classScalars, 0, n) }

// ScalarMember appends a member of a scalar list.
func (l *Launch) ScalarMember(dtype int32, value [2]uint64) {
	l.member(classScalar, int16(dtype), 0)
	copy(l.extend(len(value)), value[:])
}

// Ints appends an aclIntArray.
func (l *Launch) Ints(v []int64) { packed(l, classInts, v) }

// Floats appends an aclFloatArray.
func (l *Launch) Floats(v []float32) { packed(l, classFloats, v) }

// Bools appends an aclBoolArray.
func (l *Launch) Bools(v []bool) { packed(l, classBools, v) }

// Text appends a C string; the copy ends with a NUL.
func (l *Launch) Text(s string) {
	l.object(classString, 0, len(s)+1)
	w := l.extend(len(s)/8 + 1)
	w[len(w)-1] = 0
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), len(s)), s)
}

// packed appends an array as it lies in memory.
func packed[T int64 | float32 | bool](l *Launch, class uint8, v []T) {
	l.object(class, 0, len(v))
	if len(v) == 0 {
		return
	}
	w := l.extend(payload(len(v), unsafe.Sizeof(v[0])))
	copy(unsafe.Slice((*T)(unsafe.Pointer(&w[0])), len(v)), v)
}

// payload is how many words n elements of a size take.
func payload(n int, size uintptr) int { return (n*int(size) + 7) / 8 }

// Each calls f for every tensor among the arguments: the index of the parameter, the index
// in its list (-1 for a tensor of its own), and the descriptor. For error texts.
func (l *Launch) Each(f func(param, member int, d *TensorDesc)) {
	w := l.records[:l.used]
	tensor := func(param, member int) {
		f(param, member, (*TensorDesc)(unsafe.Pointer(&w[0])))
		w = w[tensorWords:]
	}
	for range l.head.records {
		r := *(*record)(unsafe.Pointer(&w[0]))
		param, count := l.param(int(r.slot)), int(r.count)
		if r.class == classTensor {
			tensor(param, -1)
			continue
		}
		w = w[recordWords:]
		switch r.class {
		case classTensors:
			for k := range count {
				tensor(param, k)
			}
		case classScalar:
			w = w[2:]
		case classScalars:
			w = w[(recordWords+2)*count:]
		case classInts:
			w = w[count:]
		case classFloats:
			w = w[payload(count, 4):]
		case classString, classBools:
			w = w[payload(count, 1):]
		}
	}
}

// param is the index among all parameters of the one that travels in a word: floating-point
// ones travel elsewhere.
func (l *Launch) param(slot int) int {
	for param := slot; ; {
		passed := bits.OnesCount64(l.floating & (1<<(param+1) - 1))
		if param == slot+passed {
			return param
		}
		param = slot + passed
	}
}
