package moe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Ranks 0 and 1 send to all; rank 2 sends to itself and to rank 0.
func TestLinks(t *testing.T) {
	const size = 3
	sent, flags := [][]float64{{0, 1, 2}, {2, 0, 1}, {2, 0}}, make([]op.Links, size)
	call := func(name string, rank int, a optest.Args) *op.Executor {
		join := func(string) (op.Communicator, error) { return op.Communicator{Handle: 7, Rank: rank, Size: size}, nil }
		env := op.Env{Join: join, Links: &flags[rank]} // each rank is a process
		e, err := optest.PrepareIn(t, env, name, a.With(optest.Args{"group": "g", "worldSize": size}))
		require.NoError(t, err)
		return e
	}
	together := func(ranks []*op.Executor) {
		var workspaces []uint64
		for _, e := range ranks {
			workspaces = append(workspaces, optest.WorkspaceOf(t, e))
		}
		require.NoError(t, optest.Together(ranks, workspaces))
	}
	for r, list := range sent {
		n := int64(len(list))
		together([]*op.Executor{call("ElasticReceivableTest", r, optest.Args{"dstRank": optest.Tensor(t, dtype.Int32, []int64{n}, list...), "rank_num": n})})
	}
	for _, round := range [][size][]float64{
		{{1, 2, 3, 1, 2, 0, 1, 2, 3}, {1, 2, 3, 1, 2, 0, 0, 0, 0}, {1, 2, 3, 1, 2, 0, 1, 2, 3}},
		{make([]float64, 9), make([]float64, 9), make([]float64, 9)}, // collecting clears the flags
	} {
		var ranks []*op.Executor
		var ys []*op.Tensor
		for r := range size {
			ys = append(ys, optest.TensorIn(t, dtype.Int32, kerneltest.Layouts[r%len(kerneltest.Layouts)], []int64{size, size}))
			ranks = append(ranks, call("ElasticReceivableInfoCollect", r, optest.Args{"y": ys[r]}))
		}
		together(ranks)
		for r, want := range round {
			require.Equal(t, want, optest.Values(ys[r]), "rank %d", r)
		}
	}
}

func TestLinksRefuse(t *testing.T) {
	a := optest.Args{"dstRank": optest.Tensor(t, dtype.Int32, []int64{1}, 0), "group": "g", "worldSize": 1, "rank_num": 1}
	optest.Run(t, "ElasticReceivableTest", a)
	for text, set := range map[string]optest.Args{
		"worldSize is 2": {"worldSize": 2}, "rank_num ranks": {"rank_num": 16}, "dtype": {"dstRank": optest.Tensor(t, dtype.Int64, []int64{1})},
	} {
		optest.Refused(t, op.InvalidParam, "ElasticReceivableTest", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "ElasticReceivableTest", a.With(optest.Args{"group": nil}), "group is null")
	require.ErrorContains(t, optest.Execute(t, "ElasticReceivableTest", a.With(optest.Args{"dstRank": optest.Tensor(t, dtype.Int32, []int64{1}, 1)})), "holds rank 1")
	b := optest.Args{"group": "g", "worldSize": 1, "y": optest.Tensor(t, dtype.Int32, []int64{1, 1}, 5)}
	optest.Run(t, "ElasticReceivableInfoCollect", b)
	optest.Refused(t, op.InvalidParam, "ElasticReceivableInfoCollect", b.With(optest.Args{"y": optest.Tensor(t, dtype.Int32, []int64{1})}), "a row and a column")
	optest.Refused(t, op.NullPointer, "ElasticReceivableInfoCollect", b.With(optest.Args{"y": nil}), "y is null")
}
