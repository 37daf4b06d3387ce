//go:build emu

package ops_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/half"
	"github.com/goascend/cann/ops"
)

// rank is one of several that run as goroutines, each on a device of its own.
type rank struct {
	*bench
	comm ops.Communicator
}

// onRanks runs a test on n ranks at once. A rank that fails leaves, and the others then fail
// in their next collective.
func onRanks(t *testing.T, n int, test func(r *rank)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	groups, err := hccl.LocalGroups(ctx, n, hccl.GroupConfig{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i, b := range newBenches(t, n) {
		wg.Go(func() {
			defer groups[i].Close()
			test(&rank{bench: b, comm: &hostComm{group: groups[i], bench: b}})
		})
	}
	wg.Wait()
}

// hostComm is a communicator over the host: slow, and independent of what it stands in for.
type hostComm struct {
	group *hccl.Group
	bench *bench
}

func (c *hostComm) Rank() int { return c.group.Rank() }
func (c *hostComm) Size() int { return c.group.Size() }

// parts are the values that all ranks send.
func (c *hostComm) parts(ctx context.Context, st *acl.Stream, send *aclnn.Tensor) ([][]float32, error) {
	if err := st.Synchronize(ctx); err != nil {
		return nil, err
	}
	return hccl.AllGatherObject(ctx, c.group, c.bench.read(send))
}

func store(ctx context.Context, st *acl.Stream, t *aclnn.Tensor, values []float32) error {
	if t.Len() != int64(len(values)) || !t.Contiguous() {
		return fmt.Errorf("%d values for %v", len(values), t)
	}
	switch t.DType() {
	case aclnn.Float32:
		return aclnn.CopyToDevice(ctx, st, t, values)
	case aclnn.Float16:
		return aclnn.CopyToDevice(ctx, st, t, convert(values, half.Float16FromFloat32))
	case aclnn.BFloat16:
		return aclnn.CopyToDevice(ctx, st, t, convert(values, half.BFloat16FromFloat32))
	}
	return fmt.Errorf("no collective of %v", t.DType())
}

func combine(parts [][]float32, op hccl.ReduceOp) []float32 {
	out := append([]float32(nil), parts[0]...)
	for _, p := range parts[1:] {
		for i, v := range p {
			if op == hccl.Max {
				out[i] = max(out[i], v)
			} else {
				out[i] += v
			}
		}
	}
	return out
}

func (c *hostComm) AllReduce(ctx context.Context, st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error {
	parts, err := c.parts(ctx, st, send)
	if err != nil {
		return err
	}
	return store(ctx, st, recv, combine(parts, op))
}

func (c *hostComm) AllGather(ctx context.Context, st *acl.Stream, send, recv *aclnn.Tensor) error {
	parts, err := c.parts(ctx, st, send)
	if err != nil {
		return err
	}
	var all []float32
	for _, p := range parts {
		all = append(all, p...)
	}
	return store(ctx, st, recv, all)
}

func (c *hostComm) ReduceScatter(ctx context.Context, st *acl.Stream, send, recv *aclnn.Tensor, op hccl.ReduceOp) error {
	parts, err := c.parts(ctx, st, send)
	if err != nil {
		return err
	}
	sum := combine(parts, op)
	n := len(sum) / c.Size()
	return store(ctx, st, recv, sum[c.Rank()*n:][:n])
}

func (c *hostComm) AllToAll(ctx context.Context, st *acl.Stream, send, recv *aclnn.Tensor) error {
	parts, err := c.parts(ctx, st, send)
	if err != nil {
		return err
	}
	var mine []float32
	for _, p := range parts {
		n := len(p) / c.Size()
		mine = append(mine, p[c.Rank()*n:][:n]...)
	}
	return store(ctx, st, recv, mine)
}

// matrix is values of [rows, width] on the host.
type matrix struct {
	values      []float32
	rows, width int64
}

func randomMatrix(dt aclnn.DType, seed uint64, rows, width int64) matrix {
	return matrix{random(dt, seed, rows*width), rows, width}
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

// matrix brings values to the device.
func (b *bench) matrix(dt aclnn.DType, m matrix) *aclnn.Tensor {
	b.t.Helper()
	return b.floats(dt, m.values, m.rows, m.width)
}
