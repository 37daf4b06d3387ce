package moe

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestDistributeBarrier(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Bool, dtype.Uint64, dtype.BFloat16} {
		x := optest.Tensor(t, d, []int64{3}, 1)
		for _, name := range []string{"DistributeBarrier", "DistributeBarrierV2"} {
			optest.OnRanks(t, name, 3, func(int) optest.Args { return optest.Args{"xRef": x, "group": "g", "worldSize": 3} })
			assert.Equal(t, []float64{1, 1, 1}, optest.Values(x))
			optest.Refused(t, op.TilingRefused, name, optest.Args{"xRef": x, "group": "g", "worldSize": 2}, "worldSize is 2")
			optest.Refused(t, op.NullPointer, name, optest.Args{"group": "g", "worldSize": 1}, "xRef is null")
			optest.Refused(t, op.NullPointer, name, optest.Args{"xRef": x, "worldSize": 1}, "group is null")
		}
	}
}

// The ranks that elasticInfo lists do not wait for the others, which are elsewhere.
func TestDistributeBarrierOfSome(t *testing.T) {
	x := optest.Tensor(t, dtype.Float32, []int64{3}, 1)
	int32s := func(v ...float64) *op.Tensor {
		return optest.Tensor(t, dtype.Int32, []int64{int64(len(v))}, v...)
	}
	a := optest.Args{"xRef": x, "group": "g", "worldSize": 3, "timeOut": int32s(5e6)}
	two := int32s(1, 2, 0, 2, 0, -1, 1, 0, 2, 0)
	optest.OnRanks(t, "DistributeBarrierV2", 3, func(int) optest.Args { return a })
	optest.OnRanks(t, "DistributeBarrierV2", 3, func(int) optest.Args { return a.With(optest.Args{"elasticInfo": int32s(0, 9, 9, 9, 9, 9, 9, 9, 9, 9)}) })
	var ranks []*op.Executor
	for _, r := range []int{0, 2} {
		e, err := optest.PrepareIn(t, op.Env{Join: func(string) (op.Communicator, error) {
			return op.Communicator{Handle: 1, Rank: r, Size: 3}, nil
		}}, "DistributeBarrierV2", a.With(optest.Args{"elasticInfo": two}))
		require.NoError(t, err)
		ranks = append(ranks, e)
	}
	require.NoError(t, optest.Together(ranks, []uint64{optest.WorkspaceOf(t, ranks[0]), optest.WorkspaceOf(t, ranks[1])}))

	one := a.With(optest.Args{"worldSize": 1})
	for text, set := range map[string]optest.Args{
		"at least a microsecond": {"timeOut": int32s(0)},
		"2 of 1 ranks remain":    {"elasticInfo": int32s(1, 2, 0, 2, 0, 0)},
		"lists rank 4":           {"elasticInfo": int32s(1, 1, 0, 2, 0, 4)},
	} {
		assert.ErrorContains(t, optest.Execute(t, "DistributeBarrierV2", one.With(set)), text)
	}
	for text, set := range map[string]optest.Args{
		"must be int32 [1]": {"timeOut": optest.Tensor(t, dtype.Int64, []int64{1}, 1)}, "int32 [6]": {"elasticInfo": two},
	} {
		optest.Refused(t, op.TilingRefused, "DistributeBarrierV2", one.With(set), text)
	}
}

func TestMoeDistributeBufferReset(t *testing.T) {
	for sync, collectives := range []int{0, 1} {
		a := optest.Args{"elasticInfo": optest.Tensor(t, dtype.Int32, []int64{1}, 1), "groupEp": "g", "epWorldSize": 1, "needSync": sync}
		optest.Run(t, "MoeDistributeBufferReset", a)
		e, err := optest.Prepare(t, "MoeDistributeBufferReset", a)
		assert.NoError(t, err)
		assert.Len(t, e.Call.Stages(), collectives)
		optest.Refused(t, op.TilingRefused, "MoeDistributeBufferReset", a.With(optest.Args{"needSync": 2}), "needSync is 2")
		optest.Refused(t, op.TilingRefused, "MoeDistributeBufferReset", a.With(optest.Args{"epWorldSize": 2}), "epWorldSize is 2")
		optest.Refused(t, op.TilingRefused, "MoeDistributeBufferReset", a.With(optest.Args{"elasticInfo": optest.Tensor(t, dtype.Int32, []int64{2}, 1)}), "a flag for each rank")
	}
}
