package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// Ranks 0 and 1 send to all, rank 2 to itself and rank 0.
func TestLinks(t *testing.T) {
	const size = 3
	sent, flags := [][]float64{{0, 1, 2}, {2, 0, 1}, {2, 0}}, make([]links, size)
	call := func(name string, rank int, a args) *executor {
		c := called(t, name, a.with(args{"group": "g", "worldSize": size}))
		c.join = func(string) (Communicator, error) { return Communicator{Handle: 7, Rank: rank, Size: size}, nil }
		c.links = &flags[rank] // each rank is a process
		e, err := newExecutor(implementations[name], c)
		require.NoError(t, err)
		return e
	}
	together := func(ranks []*executor) {
		var workspaces []uint64
		for _, e := range ranks {
			workspaces = append(workspaces, workspaceOf(t, e))
		}
		require.NoError(t, together(ranks, workspaces))
	}
	for r, list := range sent {
		n := int64(len(list))
		together([]*executor{call("ElasticReceivableTest", r, args{"dstRank": tensor(t, dtype.Int32, []int64{n}, list...), "rank_num": n})})
	}
	for _, round := range [][size][]float64{
		{{1, 2, 3, 1, 2, 0, 1, 2, 3}, {1, 2, 3, 1, 2, 0, 0, 0, 0}, {1, 2, 3, 1, 2, 0, 1, 2, 3}},
		{make([]float64, 9), make([]float64, 9), make([]float64, 9)}, // what was collected is gone
	} {
		var ranks []*executor
		var ys []*Tensor
		for r := range size {
			ys = append(ys, tensorIn(t, dtype.Int32, kerneltest.Layouts[r%len(kerneltest.Layouts)], []int64{size, size}))
			ranks = append(ranks, call("ElasticReceivableInfoCollect", r, args{"y": ys[r]}))
		}
		together(ranks)
		for r, want := range round {
			require.Equal(t, want, values(ys[r]), "rank %d", r)
		}
	}
}

func TestLinksRefuse(t *testing.T) {
	a := args{"dstRank": tensor(t, dtype.Int32, []int64{1}, 0), "group": "g", "worldSize": 1, "rank_num": 1}
	run(t, "ElasticReceivableTest", a)
	for text, set := range map[string]args{
		"worldSize is 2": {"worldSize": 2}, "rank_num ranks": {"rank_num": 16}, "dtype": {"dstRank": tensor(t, dtype.Int64, []int64{1})},
	} {
		refused(t, invalidParam, "ElasticReceivableTest", a.with(set), text)
	}
	refused(t, nullPointer, "ElasticReceivableTest", a.with(args{"group": nil}), "group is null")
	require.ErrorContains(t, execute(t, "ElasticReceivableTest", a.with(args{"dstRank": tensor(t, dtype.Int32, []int64{1}, 1)})), "holds rank 1")
	b := args{"group": "g", "worldSize": 1, "y": tensor(t, dtype.Int32, []int64{1, 1}, 5)}
	run(t, "ElasticReceivableInfoCollect", b)
	refused(t, invalidParam, "ElasticReceivableInfoCollect", b.with(args{"y": tensor(t, dtype.Int32, []int64{1})}), "a row and a column")
	refused(t, nullPointer, "ElasticReceivableInfoCollect", b.with(args{"y": nil}), "y is null")
}
