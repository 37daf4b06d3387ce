package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/rt"
)

// alone is a group of one rank, whatever its name.
func alone(string) (Communicator, error) { return Communicator{Handle: 1, Size: 1}, nil }

// workspaceOf is memory for the workspace of a call.
func workspaceOf(t testing.TB, e *executor) uint64 {
	return uint64(uintptr(kerneltest.New(t, dtype.Uint8, kerneltest.Contiguous, []int64{e.call.workspace}, nil).Data))
}

// together executes the calls of ranks: each up to its next collective, then the collectives
// of all groups, which follow their definitions.
func together(ranks []*executor, workspaces []uint64) error {
	next := make([]int, len(ranks))
	for {
		type round struct {
			function string
			words    [][]uint64 // by rank of the group
		}
		groups := make(map[uint64]round)
		for r, e := range ranks {
			for ; next[r] < len(e.call.stages) && e.call.stages[next[r]].collective == nil; next[r]++ {
				if err := e.execute(host{}, workspaces[r], e.call.stages[next[r]].run); err != nil {
					return err
				}
			}
			if next[r] == len(e.call.stages) {
				continue
			}
			p := e.call.stages[next[r]].collective
			next[r]++
			if groups[p.comm.Handle].words == nil {
				groups[p.comm.Handle] = round{p.function, make([][]uint64, p.comm.Size)}
			}
			groups[p.comm.Handle].words[p.comm.Rank] = p.words(workspaces[r])
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
		if err := e.execute(host{}, workspaces[r], e.run); err != nil {
			return err
		}
	}
	return nil
}

// exchange is a collective of ranks with these arguments.
func exchange(function string, words [][]uint64) error {
	at := func(addr, first, n, hccl uint64) kernel.View {
		for d, known := range hcclTypes {
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

// ensemble prepares and executes an operator on ranks, each with arguments of its own.
func ensemble(t testing.TB, name string, size int, of func(rank int) args) {
	t.Helper()
	choir(t, name, size, of, func(_ string, rank int) Communicator { return Communicator{Handle: 1, Rank: rank, Size: size} })
}

// choir is ensemble with more than one group; in tells which one a name is for a rank.
func choir(t testing.TB, name string, size int, of func(rank int) args, in func(group string, rank int) Communicator) {
	t.Helper()
	var ranks []*executor
	var workspaces []uint64
	for r := range size {
		c := called(t, name, of(r))
		c.join = func(group string) (Communicator, error) {
			require.NotEmpty(t, group)
			return in(group, r), nil
		}
		e, err := newExecutor(implementations[name], c)
		require.NoError(t, err)
		ranks, workspaces = append(ranks, e), append(workspaces, workspaceOf(t, e))
	}
	require.NoError(t, together(ranks, workspaces))
}

// A call finds its group once, and the executor that runs it again does not ask.
func TestGroupsOfRepeatedCalls(t *testing.T) {
	f := dtype.Float16
	c := called(t, "MatmulAllReduce", args{
		"x1": tensor(t, f, []int64{2, 3}, 1), "x2": tensor(t, f, []int64{3, 2}, 1), "output": tensor(t, f, []int64{2, 2}), "group": "g", "reduceOp": "sum", "streamMode": 1,
	})
	_, err := newExecutor(implementations["MatmulAllReduce"], c)
	require.NoError(t, err)
	again := c.again()
	require.Nil(t, again.join)
	_, err = newExecutor(implementations["MatmulAllReduce"], again)
	assert.NoError(t, err)
}

func TestGroupsThatNobodyMade(t *testing.T) {
	f := dtype.Float16
	c := called(t, "MatmulAllReduce", args{
		"x1": tensor(t, f, []int64{2, 3}, 1), "x2": tensor(t, f, []int64{3, 2}, 1), "output": tensor(t, f, []int64{2, 2}), "group": "g", "reduceOp": "sum", "streamMode": 1,
	})
	c.join = func(group string) (Communicator, error) { return Communicator{}, fmt.Errorf("no group %q", group) }
	_, err := newExecutor(implementations["MatmulAllReduce"], c)
	assert.ErrorContains(t, err, `group: no group "g"`)
}
