package moe

import (
	"testing"

	"github.com/stretchr/testify/assert"

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
	optest.Refused(t, op.InvalidParam, "DistributeBarrierV2", optest.Args{"xRef": optest.Tensor(t, dtype.Float32, nil, 1), "group": "g", "worldSize": 1, "timeOut": optest.Tensor(t, dtype.Int32, []int64{1}, 1)}, "not supported")
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
