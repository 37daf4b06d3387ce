package compare_test

import (
	"testing"

	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// burst is the number of calls that a benchmark queues before it waits; it is below the depth of a
// stream's queue.
const burst = 256

// BenchmarkRecordWait measures recording an event and waiting for it on another stream, as C
// programs do it: from argument words to the result code, including the goroutines of the streams.
func BenchmarkRecordWait(b *testing.B) {
	p := rttest.New(b)
	t := p.Thread(0)
	s, other, e := p.Stream(t), p.Stream(t), p.Event(t)
	record, wait, synchronize := p.Functions["aclrtRecordEvent"], p.Functions["aclrtStreamWaitEvent"], p.Functions["aclrtSynchronizeStream"]
	recording, waiting, streams := []uint64{e, s}, []uint64{other, e}, [][]uint64{{s}, {other}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if record(t, recording) != 0 || wait(t, waiting) != 0 {
			b.Fatal(rttest.Text(t))
		}
		if i%burst == 0 {
			synchronize(t, streams[0])
			synchronize(t, streams[1])
		}
	}
}

// BenchmarkMemcpyAsync measures a copy of 64 bytes within a device.
func BenchmarkMemcpyAsync(b *testing.B) {
	p := rttest.New(b)
	t := p.Thread(0)
	s, from, to := p.Stream(t), p.Out(t, "aclrtMalloc", 0, 64, 0), p.Out(t, "aclrtMalloc", 0, 64, 0)
	memcpy, synchronize := p.Functions["aclrtMemcpyAsync"], p.Functions["aclrtSynchronizeStream"]
	words, stream := []uint64{to, 64, from, 64, 3, s}, []uint64{s}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if memcpy(t, words) != 0 {
			b.Fatal(rttest.Text(t))
		}
		if i%burst == 0 {
			synchronize(t, stream)
		}
	}
}

// BenchmarkCall measures a call that only looks up its stream.
func BenchmarkCall(b *testing.B) {
	p := rttest.New(b)
	t := p.Thread(0)
	id := new(int32)
	call, words := p.Functions["aclrtStreamGetId"], []uint64{p.Stream(t), rttest.Address(id)}
	b.ReportAllocs()
	for b.Loop() {
		if call(t, words) != 0 {
			b.Fatal(rttest.Text(t))
		}
	}
}
