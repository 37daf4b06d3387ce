package sanitize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// BenchmarkSanitizer measures an empty task that lists its memory accesses, and the ratio of its
// time to that of a task that lists none. With the sanitizers off the ratio is one.
func BenchmarkSanitizer(b *testing.B) {
	for name, s := range map[string]sanitize.Config{"off": {}, "memory": {Memory: true}, "race": {Race: true}} {
		b.Run(name, func(b *testing.B) {
			p := rttest.NewMachine(b, rt.Config{Devices: 1, Memory: 16 << 20, SoC: "Ascend910B1", Sanitize: s})
			th := p.Thread(0)
			handle := p.Stream(th)
			stream, code := p.Runtime.Stream(th, handle)
			require.Zero(b, code)
			address := p.Out(th, "aclrtMalloc", 0, 4096, 0)
			run := func() error { return nil }
			plain := rt.Task{Name: "nothing", Run: run}
			reporting := rt.Task{Name: "nothing", Run: run, Accesses: func() []sanitize.Access {
				return []sanitize.Access{sanitize.Bytes("x", sanitize.Writes, address, 4096)}
			}}
			// Alternate in short turns, so that both see the same load of the machine.
			const turn = 512
			batch := func(task rt.Task) time.Duration {
				began := time.Now()
				for range turn {
					require.Zero(b, p.Runtime.Submit(th, stream, task))
				}
				p.Must(th, "aclrtSynchronizeStream", handle)
				return time.Since(began)
			}
			var spent [2]time.Duration
			batches := 0
			for b.Loop() {
				spent[0] += batch(plain)
				spent[1] += batch(reporting)
				batches++
			}
			b.ReportMetric(float64(spent[1].Nanoseconds())/float64(batches*turn), "ns/task")
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
