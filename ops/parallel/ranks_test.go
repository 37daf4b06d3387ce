package parallel_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/testing/opstest"
)

// rank is one of several ranks that run as goroutines, each on its own device.
type rank struct {
	*opstest.Bench
	comm *hccl.Comm
}

// onRanks runs a test on n ranks concurrently. A rank that fails closes its communicator, so that
// the others fail in their next collective.
func onRanks(t *testing.T, n int, test func(r *rank)) {
	t.Helper()
	benches := opstest.Several(t, n)
	info, err := hccl.NewRootInfo(benches[0].Stream)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i, b := range benches {
		wg.Go(func() {
			info := info
			info.Rank, info.Size = i, n
			comm, err := hccl.Join(t.Context(), b.Stream, info, hccl.Config{})
			require.NoError(t, err)
			defer func() { // also when the test ends this goroutine
				if !t.Failed() { // or it would wait for ranks that wait for it
					assert.NoError(t, b.Stream.Synchronize(context.Background()))
				}
				assert.NoError(t, comm.Close())
			}()
			test(&rank{Bench: b, comm: comm})
		})
	}
	wg.Wait()
}

// matrix is values of [rows, width] on the host.
type matrix struct {
	values      []float32
	rows, width int64
}

func randomMatrix(dt aclnn.DType, seed uint64, rows, width int64) matrix {
	return matrix{opstest.Random(dt, seed, rows*width), rows, width}
}

// rowsOf is part r of n of the rows.
func (m matrix) rowsOf(r, n int64) matrix {
	k := m.rows / n
	return matrix{m.values[r*k*m.width : (r+1)*k*m.width], k, m.width}
}

// columnsOf is part r of n of the columns.
func (m matrix) columnsOf(r, n int64) matrix {
	k := m.width / n
	out := matrix{rows: m.rows, width: k}
	for i := range m.rows {
		out.values = append(out.values, m.values[i*m.width+r*k:][:k]...)
	}
	return out
}

// on brings the values to a device.
func (m matrix) on(b *opstest.Bench, dt aclnn.DType) *aclnn.Tensor {
	b.T.Helper()
	return b.Floats(dt, m.values, m.rows, m.width)
}
