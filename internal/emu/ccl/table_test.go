package ccl_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/half"
)

// number is an element type with its reference arithmetic.
type number struct {
	name string
	code uint64 // HcclDataType
	size int
	// combine returns a op b for two elements given as bits.
	combine func(op int, a, b uint64) uint64
	// random turns random bits into an element, such that products over the ranks stay finite.
	random func(bits uint64) uint64
}

// combined returns a op b; op is an HcclReduceOp.
func combined[T int64 | uint64 | float32 | float64](op int, a, b T) T {
	switch op {
	case 0:
		return a + b
	case 1:
		return a * b
	case 2:
		return max(a, b)
	}
	return min(a, b)
}

func signed(name string, code uint64, size int) number {
	shift := 64 - 8*size
	wide := func(x uint64) int64 { return int64(x<<shift) >> shift }
	return number{name, code, size,
		func(op int, a, b uint64) uint64 { return uint64(combined(op, wide(a), wide(b))) },
		func(bits uint64) uint64 { return bits }}
}

func unsigned(name string, code uint64, size int) number {
	mask := ^uint64(0) >> (64 - 8*size)
	return number{name, code, size,
		func(op int, a, b uint64) uint64 { return combined(op, a&mask, b&mask) },
		func(bits uint64) uint64 { return bits }}
}

// near returns a value with an absolute value near one and either sign.
func near(bits uint64) float64 {
	return math.Copysign(0.5+float64(bits>>40)/(1<<24), float64(int64(bits<<32)))
}

func floating(name string, code uint64, size int, wide func(uint64) float64, narrow func(float64) uint64) number {
	return number{name, code, size,
		func(op int, a, b uint64) uint64 { return narrow(combined(op, wide(a), wide(b))) },
		func(bits uint64) uint64 { return narrow(near(bits)) }}
}

func singleBits(x float64) uint64 { return uint64(math.Float32bits(float32(x))) }
func single(b uint64) float64     { return float64(math.Float32frombits(uint32(b))) }

// numbers holds all types of HCCL; the last ones can only be copied. Two float32 values are added
// or multiplied in float64 and then rounded, which gives the same result as float32 arithmetic.
var numbers = []number{
	signed("int8", 0, 1), signed("int16", 1, 2), signed("int32", 2, 4), signed("int64", 5, 8),
	unsigned("uint8", 7, 1), unsigned("uint16", 8, 2), unsigned("uint32", 9, 4), unsigned("uint64", 6, 8),
	floating("float32", 4, 4, single, singleBits),
	floating("float64", 10, 8, math.Float64frombits, math.Float64bits),
	floating("float16", 3, 2,
		func(b uint64) float64 { return float64(half.Float16(b).Float32()) },
		func(x float64) uint64 { return uint64(half.Float16FromFloat32(float32(x))) }),
	floating("bfloat16", 11, 2,
		func(b uint64) float64 { return float64(half.BFloat16(b).Float32()) },
		func(x float64) uint64 { return uint64(half.BFloat16FromFloat32(float32(x))) }),
	{name: "int128", code: 12, size: 16}, {name: "hifloat8", code: 14, size: 1}, {name: "float8_e4m3", code: 15, size: 1},
	{name: "float8_e5m2", code: 16, size: 1}, {name: "float8_e8m0", code: 17, size: 1},
}

// reduces reports whether the chip combines elements with op.
func (x number) reduces(op int) bool {
	return x.combine != nil && !(op == 1 && (x.name == "int16" || x.name == "bfloat16"))
}

// noise returns the random bits of element i of rank r, a hash of both.
func noise(r, i int) uint64 {
	z := uint64(r+1)*0x9e3779b97f4a7c15 + uint64(i)*0xbf58476d1ce4e5b9
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (x number) put(b []byte, i int, v uint64) {
	var word [16]byte
	binary.LittleEndian.PutUint64(word[:], v)
	binary.LittleEndian.PutUint64(word[8:], ^v)
	copy(b[i*x.size:], word[:x.size])
}

func (x number) at(b []byte, i int) uint64 {
	var word [16]byte
	copy(word[:], b[i*x.size:(i+1)*x.size])
	return binary.LittleEndian.Uint64(word[:])
}

// period is the number of elements after which the data of a rank repeats. It is a prime, so that
// misplaced elements differ from the expected ones.
const period = 65521

// repeat fills b with repetitions of its first period elements.
func (x number) repeat(b []byte) []byte {
	for n := period * x.size; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
	return b
}

// data returns the n initial elements of rank r.
func (x number) data(r, n int) []byte {
	b := make([]byte, n*x.size)
	for i := range min(n, period) {
		v := noise(r, i)
		if x.random != nil {
			v = x.random(v)
		}
		x.put(b, i, v)
	}
	return x.repeat(b)
}

// accumulator returns the type in which the elements of more than two ranks are reduced.
func (x number) accumulator() number {
	if x.name == "float16" || x.name == "bfloat16" {
		return numbers[8]
	}
	return x
}

// reduced is the naive reference: it reduces the elements of all ranks in rank order.
func (x number) reduced(all [][]byte, op int) []byte {
	out := make([]byte, len(all[0]))
	wide := x.accumulator()
	for i := range min(len(out)/x.size, period) {
		v := x.at(all[0], i)
		if wide.name != x.name {
			v = x.widen(v)
		}
		for _, b := range all[1:] {
			w := x.at(b, i)
			if wide.name != x.name {
				w = x.widen(w)
			}
			v = wide.combine(op, v, w)
		}
		if wide.name != x.name {
			v = x.round(v)
		}
		x.put(out, i, v)
	}
	return x.repeat(out)
}

// widen and round convert between a half type and float32.
func (x number) widen(v uint64) uint64 {
	if x.name == "float16" {
		return singleBits(float64(half.Float16(v).Float32()))
	}
	return singleBits(float64(half.BFloat16(v).Float32()))
}

func (x number) round(v uint64) uint64 {
	if x.name == "float16" {
		return uint64(half.Float16FromFloat32(float32(single(v))))
	}
	return uint64(half.BFloat16FromFloat32(float32(single(v))))
}

// world holds the initial data of all ranks, one block per rank each, and its reductions by
// operator.
type world struct {
	number
	ranks, count int
	blocks       [][]byte
	sums         [4][]byte // nil if the chip does not support the operator
}

func newWorld(x number, ranks, count int, ops ...int) *world {
	w := &world{number: x, ranks: ranks, count: count}
	for r := range ranks {
		w.blocks = append(w.blocks, x.data(r, ranks*count))
	}
	for _, op := range ops {
		if x.reduces(op) {
			w.sums[op] = x.reduced(w.blocks, op)
		}
	}
	return w
}

// of returns n elements of b from element lo on.
func (w *world) of(b []byte, lo, n int) []byte { return b[lo*w.size : (lo+n)*w.size] }

// check is one collective of the table on one rank, with its buffers and the expected contents of
// the receive buffer. A nil want leaves the contents undefined.
type check struct {
	name       string
	send, recv []byte // recv nil: in place
	want       []byte
	call       func(s, d uint64) int32
}

// reductions lists the collectives that reduce the ranks' buffers of count elements.
func (r *rank) reductions(w *world, op int) []check {
	root, c, o := w.ranks-1, uint64(w.count), uint64(op)
	mine, sums := w.of(w.blocks[r.id], 0, w.count), w.of(w.sums[op], 0, w.count)
	room := zeros[:len(mine)]
	var atRoot []byte
	if r.id == root {
		atRoot = sums
	}
	reduce := func(s, d uint64) int32 { return r.call("HcclAllReduce", s, d, c, w.code, o, r.comm, r.stream) }
	collect := func(s, d uint64) int32 {
		return r.call("HcclReduce", s, d, c, w.code, o, uint64(root), r.comm, r.stream)
	}
	return []check{
		{"AllReduce", mine, room, sums, reduce},
		{"AllReduce in place", mine, nil, sums, reduce},
		{"Reduce", mine, room, atRoot, collect},
		{"Reduce in place", mine, nil, atRoot, collect},
	}
}

// blockReductions lists the collectives that reduce buffers of one block of count elements per
// rank.
func (r *rank) blockReductions(w *world, op int) []check {
	n, count, c, o := w.ranks, w.count, uint64(w.count), uint64(op)
	whole, part := w.blocks[r.id], w.of(w.sums[op], r.id*count, count)
	scatter := func(s, d uint64) int32 {
		return r.call("HcclReduceScatter", s, d, c, w.code, o, r.comm, r.stream)
	}
	counts, offsets := uneven(n, count)
	own := int(counts[r.id])
	return []check{
		{"ReduceScatter", whole, zeros[:len(part)], part, scatter},
		{"ReduceScatter in place", whole, nil, part, scatter},
		{"ReduceScatterV", whole, zeros[:own*w.size], w.of(part, 0, own), func(s, d uint64) int32 {
			return r.call("HcclReduceScatterV", s, address(&counts[0]), address(&offsets[0]), d, counts[r.id], w.code, o, r.comm, r.stream)
		}},
	}
}

// moves lists the collectives that move buffers of count elements.
func (r *rank) moves(w *world) []check {
	n, count, root, c := w.ranks, w.count, w.ranks-1, uint64(w.count)
	mine := w.of(w.blocks[r.id], 0, count)
	last, next := (r.id+n-1)%n, (r.id+1)%n
	return []check{
		{"Broadcast", mine, nil, w.of(w.blocks[root], 0, count), func(s, _ uint64) int32 {
			return r.call("HcclBroadcast", s, c, w.code, uint64(root), r.comm, r.stream)
		}},
		{"BatchSendRecv", mine, zeros[:len(mine)], w.of(w.blocks[last], 0, count), func(s, d uint64) int32 {
			items := []item{{recv, 0, d, c, int32(w.code), uint32(last)}, {send, 0, s, c, int32(w.code), uint32(next)}}
			return r.call("HcclBatchSendRecv", address(&items[0]), 2, r.comm, r.stream)
		}},
	}
}

// blockMoves lists the collectives that move blocks of count elements per rank.
func (r *rank) blockMoves(w *world) []check {
	n, count, root, c := w.ranks, w.count, w.ranks-1, uint64(w.count)
	mine, whole := w.of(w.blocks[r.id], 0, count), w.blocks[r.id]
	gathered, traded := make([]byte, 0, len(whole)), make([]byte, 0, len(whole))
	var scattered []byte
	for _, b := range w.blocks {
		gathered = append(gathered, w.of(b, 0, count)...)
		traded = append(traded, w.of(b, r.id*count, count)...)
	}
	if r.id == root {
		scattered = whole
	}
	return []check{
		{"Scatter", scattered, zeros[:len(mine)], w.of(w.blocks[root], r.id*count, count), func(s, d uint64) int32 {
			return r.call("HcclScatter", s, d, c, w.code, uint64(root), r.comm, r.stream)
		}},
		{"AllGather", mine, zeros[:n*len(mine)], gathered, func(s, d uint64) int32 {
			return r.call("HcclAllGather", s, d, c, w.code, r.comm, r.stream)
		}},
		{"AlltoAll", whole, zeros[:len(whole)], traded, func(s, d uint64) int32 {
			return r.call("HcclAlltoAll", s, c, w.code, d, c, w.code, r.comm, r.stream)
		}},
	}
}

// uneven returns blocks with gaps between them. The first is empty, and all sizes differ if count
// allows it.
func uneven(n, count int) (counts, offsets []uint64) {
	for i := range n {
		counts = append(counts, uint64(count*i/n))
		offsets = append(offsets, uint64(i*count))
	}
	return counts, offsets
}

// unevenMoves lists the collectives with a count per rank. The gaps of their receive buffers must
// not change.
func (r *rank) unevenMoves(w *world) []check {
	n, count := w.ranks, w.count
	counts, offsets := uneven(n, count)
	own := int(counts[r.id])
	gaps := w.data(99, n*count)
	gathered, traded, packed := bytes.Clone(gaps), bytes.Clone(gaps), bytes.Clone(gaps)
	// Rank i sends counts[j] elements to rank j, so every block that arrives has the same size.
	same := slices.Repeat([]uint64{uint64(own)}, n)
	matrix := slices.Repeat(counts, n)
	row := make([]byte, 0, len(w.blocks[r.id]))
	for i, b := range w.blocks {
		copy(w.of(gathered, i*count, count), w.of(b, 0, int(counts[i])))
		copy(w.of(traded, i*count, count), w.of(b, r.id*count, own))
		copy(w.of(packed, i*own, own), w.of(b, r.id*count, own))
		row = append(row, w.of(w.blocks[r.id], i*count, int(counts[i]))...)
	}
	return []check{
		{"AllGatherV", w.of(w.blocks[r.id], 0, own), gaps, gathered, func(s, d uint64) int32 {
			return r.call("HcclAllGatherV", s, counts[r.id], d, address(&counts[0]), address(&offsets[0]), w.code, r.comm, r.stream)
		}},
		{"AlltoAllV", w.blocks[r.id], gaps, traded, func(s, d uint64) int32 {
			return r.call("HcclAlltoAllV", s, address(&counts[0]), address(&offsets[0]), w.code, d, address(&same[0]), address(&offsets[0]), w.code, r.comm, r.stream)
		}},
		{"AlltoAllVC", row, gaps, packed, func(s, d uint64) int32 {
			return r.call("HcclAlltoAllVC", s, address(&matrix[0]), w.code, d, w.code, r.comm, r.stream)
		}},
	}
}

const send, recv = 0, 1

// item is HcclSendRecvItem.
type item struct {
	kind, _ int32
	buf     uint64
	count   uint64
	dtype   int32
	peer    uint32
}

// verify runs a check; all ranks run the same one.
func (r *rank) verify(x check, label string) {
	s := r.upload(x.send)
	d := s
	if x.recv != nil {
		d = r.upload(x.recv)
		defer r.free(d)
	}
	defer r.free(s)
	require.Zero(r.tb, x.call(s, d), "%s %s: %s", x.name, label, r.text())
	require.Zero(r.tb, r.sync(), "%s %s: %s", x.name, label, r.text())
	if x.want != nil {
		if r.got = slices.Grow(r.got[:0], len(x.want))[:len(x.want)]; len(r.got) > 0 {
			r.must("aclrtMemcpy", r.lend(r.got), uint64(len(r.got)), d, uint64(len(r.got)), 2)
		}
		got := r.got
		if !bytes.Equal(got, x.want) {
			i := 0
			for got[i] == x.want[i] {
				i++
			}
			require.FailNow(r.tb, "wrong", "%s %s rank %d: byte %d of %d is %#x, want %#x", x.name, label, r.id, i, len(got), got[i], x.want[i])
		}
	}
}

// zeros is the read-only initial contents of receive buffers.
var zeros [16 << 20]byte

// TestTable compares every collective with a naive loop, bit for bit, for every type and operator,
// in place or not, and for several numbers of ranks, counts and kinds of connection.
func TestTable(t *testing.T) {
	for connection, make := range worlds {
		for _, n := range []int{1, 2, 3, 4, 8} {
			if n > 3 && testing.Short() {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", connection, n), func(t *testing.T) {
				all := make(t, n, patient)
				for i, x := range numbers {
					for j, count := range []int{0, 1, 1021, 64 << 10 / x.size} {
						if count > 1021 && testing.Short() || connection == "hosts" && n > 3 && i%4 != j {
							continue // many small messages over TCP add little coverage
						}
						w := newWorld(x, n, count, 0, 1, 2, 3)
						each(all, func(r *rank) { r.verifyAll(w) })
					}
				}
			})
		}
	}
}

func (r *rank) verifyAll(w *world) {
	label := fmt.Sprintf("%s count %d of %d ranks", w.name, w.count, w.ranks)
	for op := range 4 {
		if w.reduces(op) {
			for _, c := range append(r.reductions(w, op), r.blockReductions(w, op)...) {
				r.verify(c, fmt.Sprintf("%s op %d", label, op))
			}
			continue
		}
		p := r.upload(make([]byte, 16))
		require.EqualValues(r.tb, 5, r.call("HcclAllReduce", p, p, 1, w.code, uint64(op), r.comm, r.stream), label)
		require.NotEmpty(r.tb, r.text())
		r.free(p)
	}
	for _, c := range slices.Concat(r.moves(w), r.blockMoves(w), r.unevenMoves(w)) {
		r.verify(c, label)
	}
	r.verifyPair(w)
	require.Zero(r.tb, r.call("HcclBarrier", r.comm, r.stream), r.text())
	require.Zero(r.tb, r.sync(), r.text())
}

// verifyPair sends from each even rank to the odd one after it.
func (r *rank) verifyPair(w *world) {
	peer := r.id ^ 1
	if peer >= w.ranks {
		return
	}
	name := [2]string{"HcclSend", "HcclRecv"}[r.id%2]
	r.verify(check{"Send and Recv", w.blocks[r.id], nil, w.blocks[r.id&^1], func(s, _ uint64) int32 {
		return r.call(name, s, uint64(w.ranks*w.count), w.code, uint64(peer), r.comm, r.stream)
	}}, w.name)
}
