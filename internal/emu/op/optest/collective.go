package optest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// alone joins a group of one rank, whatever the name.
func alone(string) (op.Communicator, error) { return op.Communicator{Handle: 1, Size: 1}, nil }

// WorkspaceOf allocates the workspace of a call and returns its address.
func WorkspaceOf(t testing.TB, e *op.Executor) uint64 {
	return uint64(uintptr(kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{e.Call.WorkspaceSize()}, nil).Data))
}

// Together executes the calls of several ranks: each rank up to its next collective, then the
// collectives of all groups by their definitions, until all calls have finished.
func Together(ranks []*op.Executor, workspaces []uint64) error {
	next := make([]int, len(ranks))
	for {
		groups := make(map[uint64][]collective) // by rank of the group
		for r, e := range ranks {
			for ; next[r] < len(e.Call.Stages()) && e.Call.Stages()[next[r]].Collective == nil; next[r]++ {
				stage := e.Call.Stages()[next[r]]
				run := func() error { return e.Execute(Memory{}, workspaces[r], stage.Run) }
				if stage.Ready != nil {
					run = func() error { return await(e, workspaces[r], stage.Ready) }
				}
				if err := run(); err != nil {
					return err
				}
			}
			if next[r] == len(e.Call.Stages()) {
				continue
			}
			p := e.Call.Stages()[next[r]].Collective
			next[r]++
			if groups[p.Comm.Handle] == nil {
				groups[p.Comm.Handle] = make([]collective, p.Comm.Size)
			}
			groups[p.Comm.Handle][p.Comm.Rank].ranks = p.Comm.Size
			if err := p.Queue(&groups[p.Comm.Handle][p.Comm.Rank], op.Launch{Workspace: workspaces[r]}); err != nil {
				return err
			}
		}
		if len(groups) == 0 {
			break
		}
		for _, g := range groups {
			if err := exchange(g); err != nil {
				return err
			}
		}
	}
	for r, e := range ranks {
		if err := e.Execute(Memory{}, workspaces[r], e.Run); err != nil {
			return err
		}
	}
	return nil
}

// longestWait bounds how long a call waits for what the test writes beside it.
const longestWait = 20 * time.Second

// await runs a stage that waits, and fails if nothing ends the wait.
func await(e *op.Executor, workspace uint64, ready func(*op.Exec) (bool, error)) error {
	cancel, done := make(chan struct{}), false
	timer := time.AfterFunc(longestWait, func() { close(cancel) })
	defer timer.Stop()
	err := e.Await(Memory{}, workspace, func(x *op.Exec) (ok bool, err error) {
		ok, err = ready(x)
		done = ok || err != nil
		return ok, err
	}, cancel)
	if !done {
		return fmt.Errorf("%v waits for what nobody writes", e.Call)
	}
	return err
}

// collective is a call of HCCL by one rank. Its methods record the call.
type collective struct {
	ranks      int // of the group, set before the call
	function   string
	send, recv uintptr
	count      uint64 // elements per block
	dtype      int32

	among  []int // ranks of a barrier; nil for all
	within time.Duration

	// Of each rank, in HcclAlltoAllV.
	sendCounts, sendAt, recvCounts, recvAt []uint64
}

func (c *collective) HcclAllReduce(_ *rt.Thread, sendBuf, recvBuf uintptr, count uint64, dataType, _ int32, _, _ rt.Handle) error {
	*c = collective{function: "HcclAllReduce", send: sendBuf, recv: recvBuf, count: count, dtype: dataType}
	return nil
}

func (c *collective) HcclReduceScatter(_ *rt.Thread, sendBuf, recvBuf uintptr, recvCount uint64, dataType, _ int32, _, _ rt.Handle) error {
	*c = collective{function: "HcclReduceScatter", send: sendBuf, recv: recvBuf, count: recvCount, dtype: dataType}
	return nil
}

func (c *collective) HcclAllGather(_ *rt.Thread, sendBuf, recvBuf uintptr, sendCount uint64, dataType int32, _, _ rt.Handle) error {
	*c = collective{function: "HcclAllGather", send: sendBuf, recv: recvBuf, count: sendCount, dtype: dataType}
	return nil
}

func (c *collective) HcclAlltoAll(_ *rt.Thread, sendBuf uintptr, sendCount uint64, sendType int32, recvBuf uintptr, recvCount uint64, recvType int32, _, _ rt.Handle) error {
	if sendCount != recvCount || sendType != recvType {
		return fmt.Errorf("HcclAlltoAll sends %d elements of type %d and receives %d of type %d", sendCount, sendType, recvCount, recvType)
	}
	*c = collective{function: "HcclAlltoAll", send: sendBuf, recv: recvBuf, count: sendCount, dtype: sendType}
	return nil
}

func (c *collective) HcclAlltoAllV(_ *rt.Thread, sendBuf uintptr, sendCounts, sdispls rt.In[uint64], sendType int32, recvBuf uintptr, recvCounts, rdispls rt.In[uint64], recvType int32, _, _ rt.Handle) error {
	n := uint64(c.ranks)
	*c = collective{
		function: "HcclAlltoAllV", send: sendBuf, recv: recvBuf, dtype: sendType,
		sendCounts: sendCounts.Slice(n), sendAt: sdispls.Slice(n), recvCounts: recvCounts.Slice(n), recvAt: rdispls.Slice(n),
	}
	return nil
}

func (c *collective) HcclBarrier(*rt.Thread, rt.Handle, rt.Handle) error {
	*c = collective{function: "HcclBarrier"}
	return nil
}

func (c *collective) BarrierOf(_ *rt.Thread, _, _ rt.Handle, terms func() ([]int, time.Duration)) error {
	*c = collective{function: "HcclBarrier"}
	c.among, c.within = terms()
	return nil
}

// leaves reports whether a barrier does not wait for a rank.
func (c *collective) leaves(rank int) bool {
	return c.among != nil && !slices.Contains(c.among, rank)
}

// exchange executes one collective, given the calls of all ranks.
func exchange(ranks []collective) error {
	at := func(addr uintptr, first, n uint64, hccl int32) kernel.View {
		for d, known := range op.HCCLTypes {
			if known == hccl {
				return kernel.View{Data: rt.Pointer(uint64(addr) + first*uint64(d.Bits())/8), DType: d, Shape: []int64{int64(n)}, Strides: []int64{1}}
			}
		}
		panic(fmt.Sprintf("no type %d", hccl))
	}
	var copies []func() error
	for r, to := range ranks {
		var sources []kernel.View
		for q, from := range ranks {
			if to.leaves(q) || from.leaves(r) {
				continue
			}
			if from.function != to.function {
				return fmt.Errorf("rank %d calls %s, rank %d %s", q, from.function, r, to.function)
			}
			// block copies n elements that rank q sends.
			block := func(into, of, n uint64) {
				copies = append(copies, func() error {
					return elementwise.Copy(at(to.recv, into, n, to.dtype), at(from.send, of, n, from.dtype))
				})
			}
			switch n := to.count; to.function {
			case "HcclBarrier":
			case "HcclAllReduce":
				sources = append(sources, at(from.send, 0, n, from.dtype))
			case "HcclReduceScatter":
				sources = append(sources, at(from.send, uint64(r)*n, n, from.dtype))
			case "HcclAllGather":
				block(uint64(q)*n, 0, n)
			case "HcclAlltoAll":
				block(uint64(q)*n, uint64(r)*n, n)
			case "HcclAlltoAllV":
				if from.sendCounts[r] != to.recvCounts[q] {
					return fmt.Errorf("rank %d sends %d elements to rank %d, which expects %d", q, from.sendCounts[r], r, to.recvCounts[q])
				}
				block(to.recvAt[q], from.sendAt[r], to.recvCounts[q])
			}
		}
		if sources == nil {
			continue
		}
		sum, release := kernel.Temporary(int64(to.count))
		defer release()
		if err := elementwise.Fold(elementwise.Add, sum, sources); err != nil {
			return err
		}
		copies = append(copies, func() error { return elementwise.Copy(at(to.recv, 0, to.count, to.dtype), sum) })
	}
	for _, copy := range copies {
		if err := copy(); err != nil {
			return err
		}
	}
	return nil
}

// OnRanks prepares and executes an operator on the ranks of one group. of returns the arguments of
// each rank.
func OnRanks(t testing.TB, name string, size int, of func(rank int) Args) {
	t.Helper()
	OnGroups(t, name, size, of, func(_ string, rank int) op.Communicator { return op.Communicator{Handle: 1, Rank: rank, Size: size} })
}

// OnGroups is like OnRanks with several groups. in returns the communicator of a named group for a
// rank.
func OnGroups(t testing.TB, name string, size int, of func(rank int) Args, in func(group string, rank int) op.Communicator) {
	t.Helper()
	var parts []*op.Call
	joined := make([]map[string]op.Communicator, size)
	for r := range size {
		joined[r] = make(map[string]op.Communicator)
		parts = append(parts, called(t, name, of(r), op.Env{Join: func(group string) (op.Communicator, error) {
			require.NotEmpty(t, group)
			joined[r][group] = in(group, r)
			return joined[r][group], nil
		}}))
	}
	accepted := calls.note(joined, parts...)
	var ranks []*op.Executor
	var workspaces []uint64
	for _, call := range parts {
		e, err := op.NewExecutor(Tested[name], call)
		require.NoError(t, err)
		ranks, workspaces = append(ranks, e), append(workspaces, WorkspaceOf(t, e))
	}
	require.NoError(t, Together(ranks, workspaces))
	accepted()
}

// Grid returns the communicator of rank e*tp + t in a grid of ep by tp ranks. The group "ep"
// consists of the ranks with the same t, a group of any other name of the ranks with the same e.
func Grid(ep, tp int64, group string, rank int) op.Communicator {
	e, t := rank/int(tp), rank%int(tp)
	if group == "ep" {
		return op.Communicator{Handle: uint64(100 + t), Rank: e, Size: int(ep)}
	}
	return op.Communicator{Handle: uint64(200 + e), Rank: t, Size: int(tp)}
}
