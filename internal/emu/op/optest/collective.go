package optest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
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
		type round struct {
			function string
			words    [][]uint64 // by rank of the group
		}
		groups := make(map[uint64]round)
		for r, e := range ranks {
			for ; next[r] < len(e.Call.Stages()) && e.Call.Stages()[next[r]].Collective == nil; next[r]++ {
				if err := e.Execute(Memory{}, workspaces[r], e.Call.Stages()[next[r]].Run); err != nil {
					return err
				}
			}
			if next[r] == len(e.Call.Stages()) {
				continue
			}
			p := e.Call.Stages()[next[r]].Collective
			next[r]++
			if groups[p.Comm.Handle].words == nil {
				groups[p.Comm.Handle] = round{p.Function, make([][]uint64, p.Comm.Size)}
			}
			groups[p.Comm.Handle].words[p.Comm.Rank] = p.Words(workspaces[r])
		}
		if len(groups) == 0 {
			break
		}
		for _, g := range groups {
			if err := exchange(g.function, g.words); err != nil {
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

// exchange executes one collective for the arguments of all ranks.
func exchange(function string, words [][]uint64) error {
	at := func(addr, first, n, hccl uint64) kernel.View {
		for d, known := range op.HCCLTypes {
			if known == hccl {
				addr += first * uint64(d.Bits()) / 8
				return kernel.View{Data: rt.Pointer(addr), DType: d, Shape: []int64{int64(n)}, Strides: []int64{1}}
			}
		}
		panic(fmt.Sprintf("no type %d", hccl))
	}
	var copies []func() error
	for r, to := range words {
		var sources []kernel.View
		for q, from := range words {
			switch function {
			case "HcclBarrier":
			case "HcclAllReduce":
				sources = append(sources, at(from[0], 0, from[2], from[3]))
			case "HcclReduceScatter":
				sources = append(sources, at(from[0], uint64(r)*from[2], from[2], from[3]))
			case "HcclAllGather":
				copies = append(copies, func() error {
					return kernel.Copy(at(to[1], uint64(q)*to[2], to[2], to[3]), at(from[0], 0, from[2], from[3]))
				})
			case "HcclAlltoAll":
				copies = append(copies, func() error {
					return kernel.Copy(at(to[3], uint64(q)*to[4], to[4], to[5]), at(from[0], uint64(r)*from[1], from[1], from[2]))
				})
			case "HcclAlltoAllV":
				copies = append(copies, func() error {
					of := func(addr uint64, peer int) uint64 { return rt.Read[uint64](addr, uint64(len(words)))[peer] }
					leaves, n, arrives, expected := of(from[2], r), of(from[1], r), of(to[6], q), of(to[5], q)
					if n != expected {
						return fmt.Errorf("rank %d sends %d elements to rank %d, which expects %d", q, n, r, expected)
					}
					return kernel.Copy(at(to[4], arrives, n, to[7]), at(from[0], leaves, n, from[3]))
				})
			default:
				return fmt.Errorf("no definition of %s", function)
			}
		}
		if sources == nil {
			continue
		}
		sum, release := kernel.Temporary(int64(to[2]))
		defer release()
		if err := kernel.Fold(kernel.Add, sum, sources); err != nil {
			return err
		}
		copies = append(copies, func() error { return kernel.Copy(at(to[1], 0, to[2], to[3]), sum) })
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
	var ranks []*op.Executor
	var workspaces []uint64
	for r := range size {
		e, err := PrepareIn(t, op.Env{Join: func(group string) (op.Communicator, error) {
			require.NotEmpty(t, group)
			return in(group, r), nil
		}}, name, of(r))
		require.NoError(t, err)
		ranks, workspaces = append(ranks, e), append(workspaces, WorkspaceOf(t, e))
	}
	require.NoError(t, Together(ranks, workspaces))
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
