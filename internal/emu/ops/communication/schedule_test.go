package communication

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/emu/rt"
)

// The places of a context's fields, as the example on the operators' page lays them out.
const (
	sessionNum, microBatchNum, microBatchSize, selectedExpertNum, attnToFFNTokenSize, scheduleMode = 0, 4, 8, 12, 20, 28
	runFlag                                                                                        = 128
	attentionInfo, attentionData, microBatchID                                                     = 256, 272, 288
	expertInfo, expertData, pollingIndex                                                           = 384, 400, 416
	layerIDs, sessionIDs, microBatchIDs, expertIDs, outNum                                         = 512, 528, 544, 560, 576
)

// workerContext is the tensor of a context.
type workerContext struct {
	*op.Tensor
	t testing.TB
}

// newContext returns a context with fields of 32 bits.
func newContext(t testing.TB, fields map[int]int64) workerContext {
	x := workerContext{optest.Tensor(t, dtype.Int8, []int64{1024}, make([]float64, 1024)...), t}
	for at, v := range fields {
		x.set(at, v)
	}
	return x
}

func (x workerContext) bytes() []byte       { return unsafe.Slice((*byte)(rt.Pointer(x.Addr)), 1024) }
func (x workerContext) set(at int, v int64) { binary.LittleEndian.PutUint32(x.bytes()[at:], uint32(v)) }
func (x workerContext) get(at int) int64 {
	return int64(binary.LittleEndian.Uint32(x.bytes()[at:]))
}

// point makes a field point to the memory of a tensor.
func (x workerContext) point(at int, to *op.Tensor) *op.Tensor {
	binary.LittleEndian.PutUint64(x.bytes()[at:], to.Addr)
	binary.LittleEndian.PutUint64(x.bytes()[at+8:], uint64(to.Len()*int64(to.DType.Bits())/8))
	return to
}

// words makes a field point to numbers.
func (x workerContext) words(at int, v ...int) *op.Tensor {
	return x.point(at, optest.Tensor(x.t, dtype.Int32, []int64{int64(len(v))}, optest.Floats(v)...))
}

// words returns the numbers of a tensor, which another goroutine may read.
func words(x *op.Tensor) []int32 { return unsafe.Slice((*int32)(rt.Pointer(x.Addr)), x.Len()) }

// faults asserts that a call fails on the stream.
func faults(t *testing.T, code int32, name string, a optest.Args, text string) {
	t.Helper()
	err := optest.Execute(t, name, a)
	var f *rt.Fault
	require.True(t, errors.As(err, &f), "%s: %v", text, err)
	require.Equal(t, code, f.Code)
	require.Contains(t, f.Text, text)
}

func TestAttentionScheduler(t *testing.T) {
	const name = "InplaceAttentionWorkerScheduler"
	context := func(batches, tokens, choices, last int64) (workerContext, *op.Tensor) {
		x := newContext(t, map[int]int64{microBatchNum: batches, microBatchSize: tokens, selectedExpertNum: choices, scheduleMode: 1, runFlag: 1, microBatchID: last})
		x.words(attentionData, 1)
		return x, x.words(attentionInfo, slices.Repeat([]int{1}, int(batches*tokens*choices))...)
	}
	for _, s := range [][4]int64{{1, 1, 1, 0}, {1, 5, 3, 0}, {2, 48, 9, 0}, {2, 48, 9, 1}, {3, 7, 2, 1}, {3, 7, 2, 2}, {17, 1, 5, 9}} {
		for _, late := range []bool{false, true} {
			x, flags := context(s[0], s[1], s[2], s[3])
			next, n := (s[3]+1)%s[0], s[1]*s[2]
			want := slices.Repeat([]int32{1}, int(flags.Len()))
			clear(want[next*n:][:n])
			if late { // experts return the last token while the operator waits
				last := &words(flags)[next*n+n-1]
				*last = 0
				timer := time.AfterFunc(5*time.Millisecond, func() { *last = 1 })
				defer timer.Stop()
			}
			optest.Run(t, name, optest.Args{"scheduleContextRef": x.Tensor})
			require.Equal(t, want, words(flags), "%v %v", s, late)
			require.Equal(t, next, x.get(microBatchID))
		}
	}
	// A program that ends lets the operator return, and nothing changes.
	x, flags := context(2, 3, 1, 0)
	words(flags)[4] = 0
	time.AfterFunc(5*time.Millisecond, func() { x.set(runFlag, 0) })
	optest.Run(t, name, optest.Args{"scheduleContextRef": x.Tensor})
	require.Equal(t, []int32{1, 1, 1, 1, 0, 1}, words(flags))
	require.Zero(t, x.get(microBatchID))

	for text, change := range map[string]func(x workerContext){
		"schedule_mode is 0": func(x workerContext) { x.set(scheduleMode, 0) }, "micro_batch_num is 0": func(x workerContext) { x.set(microBatchNum, 0) },
		"selected_expert_num is 0": func(x workerContext) { x.set(selectedExpertNum, 0) }, "micro_batch_id is 2": func(x workerContext) { x.set(microBatchID, 2) },
		"token_info_buf_size is 20": func(x workerContext) { x.set(attentionInfo+8, 20) }, "token_data_buf is null": func(x workerContext) { x.set(attentionData, 0); x.set(attentionData+4, 0) },
		"token_info_buf: the address is null": func(x workerContext) { x.set(attentionInfo, 0); x.set(attentionInfo+4, 0) },
		"no memory holds as much":             func(x workerContext) { x.set(microBatchSize, 1<<31); x.set(selectedExpertNum, 1<<31) },
	} {
		x, _ := context(2, 3, 1, 0)
		change(x)
		faults(t, rt.AICPUException, name, optest.Args{"scheduleContextRef": x.Tensor}, text)
	}
	faults(t, rt.AICPUException, name, optest.Args{"scheduleContextRef": optest.Tensor(t, dtype.Int8, []int64{1023})}, "has 1023 bytes")
	refuseContexts(t, name, "scheduleContextRef", optest.Args{})
}

// refuseContexts tests what phase one refuses of a scheduler's context.
func refuseContexts(t *testing.T, name, param string, a optest.Args) {
	t.Helper()
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{param: nil}), param+" is null")
	for text, x := range map[string]*op.Tensor{
		"one dimension": optest.Tensor(t, dtype.Int8, []int64{1, 1024}), "is empty": optest.Tensor(t, dtype.Int8, []int64{0}), "dtype": optest.Tensor(t, dtype.Int32, []int64{256}),
	} {
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{param: x}), text)
	}
}

func TestExpertScheduler(t *testing.T) {
	const name = "InplaceFfnWorkerScheduler"
	type lists struct{ layers, sessions, batches, experts *op.Tensor }
	context := func(sessions, batches, tokens, choices, next int64) (workerContext, *op.Tensor, lists) {
		x := newContext(t, map[int]int64{sessionNum: sessions, microBatchNum: batches, microBatchSize: tokens, selectedExpertNum: choices, runFlag: 1, pollingIndex: next})
		x.words(expertData, 1)
		var info []int
		for i := range sessions * batches {
			info = append(info, 0, 100+int(i)) // no flag, and a layer
			for k := range tokens * choices {
				info = append(info, int(i*k)%31)
			}
		}
		none := func(n int64) []int { return slices.Repeat([]int{-1}, int(n)) }
		return x, x.words(expertInfo, info...), lists{x.words(layerIDs, none(sessions)...), x.words(sessionIDs, none(sessions)...), x.words(microBatchIDs, none(sessions)...), x.words(expertIDs, none(sessions*tokens*choices)...)}
	}
	for _, s := range []struct {
		sessions, batches, tokens, choices, together, next int64
		ready                                              [][2]int64 // sessions and micro-batches
		taken                                              [][2]int64
	}{
		{1, 1, 1, 1, 1, 0, [][2]int64{{0, 0}}, [][2]int64{{0, 0}}},
		{3, 2, 5, 3, 3, 1, [][2]int64{{0, 1}, {1, 1}, {2, 1}, {0, 0}}, [][2]int64{{0, 1}, {1, 1}, {2, 1}}},
		{3, 2, 5, 3, 3, 0, [][2]int64{{0, 0}, {1, 0}, {2, 0}, {0, 1}}, [][2]int64{{0, 0}, {1, 0}, {2, 0}}},
		{4, 3, 7, 2, 2, 0, [][2]int64{{0, 2}, {1, 2}, {2, 1}, {3, 0}}, [][2]int64{{0, 2}, {1, 2}}},
		{4, 3, 7, 2, 2, 2, [][2]int64{{0, 2}, {1, 2}, {0, 1}, {1, 1}, {2, 0}, {3, 0}}, [][2]int64{{0, 1}, {1, 1}, {2, 0}, {3, 0}}},
		{5, 2, 3, 9, 1, 0, [][2]int64{{4, 1}, {2, 0}, {2, 1}}, [][2]int64{{2, 0}, {4, 1}}},
	} {
		for _, late := range []bool{false, true} {
			what := fmt.Sprint(s, late)
			x, info, out := context(s.sessions, s.batches, s.tokens, s.choices, s.next)
			row := 2 + s.tokens*s.choices
			at := func(of [2]int64) int64 { return (of[0]*s.batches + of[1]) * row }
			before := slices.Clone(words(info))
			announce := func() {
				for _, of := range s.ready {
					words(info)[at(of)] = 1
				}
			}
			if late && s.together == s.sessions { // several groups would take whatever is there first
				timer := time.AfterFunc(5*time.Millisecond, announce)
				defer timer.Stop()
			} else {
				announce()
			}
			optest.Run(t, name, optest.Args{"scheduleContextRef": x.Tensor, "syncGroupSize": s.together, "executeMode": 0})
			require.EqualValues(t, len(s.taken), x.get(outNum), what)
			for i, of := range s.taken {
				n := row - 2
				require.Equal(t, before[at(of)+1], words(out.layers)[i], what)
				require.EqualValues(t, of[0], words(out.sessions)[i], what)
				require.EqualValues(t, of[1], words(out.batches)[i], what)
				require.Equal(t, before[at(of)+2:][:n], words(out.experts)[int64(i)*n:][:n], what)
				require.Equal(t, slices.Repeat([]int32{0x7f7f7f7f}, int(n)), words(info)[at(of)+2:][:n], what)
				require.Zero(t, words(info)[at(of)], what)
			}
			for _, of := range s.ready {
				if !slices.Contains(s.taken, of) {
					require.EqualValues(t, 1, words(info)[at(of)], "%s: %v stays", what, of)
				}
			}
			next := s.next
			if s.together == s.sessions {
				next = (next + 1) % s.batches
			}
			require.Equal(t, next, x.get(pollingIndex), what)
			require.EqualValues(t, -1, slices.Min(append(words(out.layers)[len(s.taken):], -1)), what)
		}
	}
	x, _, _ := context(2, 1, 1, 1, 0)
	x.set(outNum, 2)
	time.AfterFunc(5*time.Millisecond, func() { x.set(runFlag, 0) })
	optest.Run(t, name, optest.Args{"scheduleContextRef": x.Tensor, "syncGroupSize": 1})
	require.Zero(t, x.get(outNum))

	for text, change := range map[string]func(x workerContext) int{
		"schedule_mode is 1": func(x workerContext) int { x.set(scheduleMode, 1); return 2 }, "session_num is 0": func(x workerContext) int { x.set(sessionNum, 0); return 2 },
		"it must divide the 4": func(x workerContext) int { return 3 }, "syncGroupSize is 0": func(x workerContext) int { return 0 }, "syncGroupSize is 8": func(x workerContext) int { return 8 },
		"polling_index is 3": func(x workerContext) int { x.set(pollingIndex, 3); return 4 }, "expert_ids_buf_size is 55": func(x workerContext) int { x.set(expertIDs+8, 55); return 4 },
		"session_ids_buf: the address is null": func(x workerContext) int { x.set(sessionIDs, 0); x.set(sessionIDs+4, 0); return 4 },
		"token_data_buf is null":               func(x workerContext) int { x.set(expertData, 0); x.set(expertData+4, 0); return 4 },
	} {
		x, _, _ := context(4, 3, 7, 2, 0)
		faults(t, rt.AICPUException, name, optest.Args{"scheduleContextRef": x.Tensor, "syncGroupSize": change(x)}, text)
	}
	refuseContexts(t, name, "scheduleContextRef", optest.Args{"syncGroupSize": 1})
	optest.Refused(t, op.InvalidParam, name, optest.Args{"scheduleContextRef": x.Tensor, "syncGroupSize": 1, "executeMode": 1}, "executeMode is 1")
}
