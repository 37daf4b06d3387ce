package rt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkSanitizer is the time of a task that does nothing and says what memory it touches,
// and its ratio to a task that does not say: with the sanitizers off that is one.
func BenchmarkSanitizer(b *testing.B) {
	for name, s := range map[string]Sanitize{"off": {}, "memory": {Memory: true}, "race": {Race: true}} {
		b.Run(name, func(b *testing.B) {
			p := newMachine(b, Config{Devices: 1, Memory: 16 << 20, SoC: "Ascend910B1", Sanitize: s})
			th := p.thread(0)
			handle := p.stream(th)
			stream, code := p.r.Stream(th, handle)
			require.Zero(b, code)
			address := p.out(th, "aclrtMalloc", 0, 4096, 0)
			run := func() error { return nil }
			plain := Task{Name: "nothing", Run: run}
			telling := Task{Name: "nothing", Run: run, Accesses: func() []Access { return []Access{Bytes("x", Writes, address, 4096)} }}
			// Short turns of each, so that both meet the same machine.
			const turn = 512
			batch := func(task Task) time.Duration {
				began := time.Now()
				for range turn {
					require.Zero(b, p.r.Submit(th, stream, task))
				}
				p.must(th, "aclrtSynchronizeStream", handle)
				return time.Since(began)
			}
			var spent [2]time.Duration
			batches := 0
			for b.Loop() {
				spent[0] += batch(plain)
				spent[1] += batch(telling)
				batches++
			}
			b.ReportMetric(float64(spent[1].Nanoseconds())/float64(batches*turn), "ns/task")
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
