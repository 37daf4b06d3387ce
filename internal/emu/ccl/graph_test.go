package ccl_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGraph checks that a captured collective does not run before the graph does, that every run
// of the graph repeats it, and that the communicator can be destroyed only after the runs.
func TestGraph(t *testing.T) {
	all := ranks(t, 2, patient)
	each(all, func(r *rank) {
		const n = 1000
		p := r.upload(ones(n))
		capture := func() uint64 {
			graph := new(uint64)
			r.must("aclmdlRICaptureBegin", r.stream, 2) // this thread alone
			r.must("HcclAllReduce", p, p, n, int32Type, sum, r.comm, r.stream)
			r.must("aclmdlRICaptureEnd", r.stream, address(graph))
			return *graph
		}
		for range 4 {
			r.must("aclmdlRIDestroy", capture())
		}
		graph := capture()
		require.Equal(r.tb, ones(n), r.download(p, 4*n))
		for range 3 {
			r.must("aclmdlRIExecuteAsync", graph, r.stream)
		}
		require.Zero(r.tb, r.sync(), r.text())
		require.Equal(r.tb, byte(8), r.download(p, 4*n)[0])
		r.must("aclmdlRIDestroy", graph)
		r.free(p)
	})
	for _, r := range all { // nothing is pending, not even from graphs that never ran
		r.must("HcclCommDestroy", r.comm)
		r.comm = 0
	}
}
