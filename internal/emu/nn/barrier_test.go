package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
)

func TestDistributeBarrier(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Bool, dtype.Uint64, dtype.BFloat16} {
		x := tensor(t, d, []int64{3}, 1)
		for _, name := range []string{"DistributeBarrier", "DistributeBarrierV2"} {
			ensemble(t, name, 3, func(int) args { return args{"xRef": x, "group": "g", "worldSize": 3} })
			assert.Equal(t, []float64{1, 1, 1}, values(x))
			refused(t, tilingRefused, name, args{"xRef": x, "group": "g", "worldSize": 2}, "worldSize is 2")
			refused(t, nullPointer, name, args{"group": "g", "worldSize": 1}, "xRef is null")
			refused(t, nullPointer, name, args{"xRef": x, "worldSize": 1}, "group is null")
		}
	}
	refused(t, invalidParam, "DistributeBarrierV2", args{"xRef": tensor(t, dtype.Float32, nil, 1), "group": "g", "worldSize": 1, "timeOut": tensor(t, dtype.Int32, []int64{1}, 1)}, "not supported")
}

func TestMoeDistributeBufferReset(t *testing.T) {
	for sync, collectives := range []int{0, 1} {
		a := args{"elasticInfo": tensor(t, dtype.Int32, []int64{1}, 1), "groupEp": "g", "epWorldSize": 1, "needSync": sync}
		run(t, "MoeDistributeBufferReset", a)
		e, err := prepared(t, "MoeDistributeBufferReset", a)
		assert.NoError(t, err)
		assert.Len(t, e.call.stages, collectives)
		refused(t, tilingRefused, "MoeDistributeBufferReset", a.with(args{"needSync": 2}), "needSync is 2")
		refused(t, tilingRefused, "MoeDistributeBufferReset", a.with(args{"epWorldSize": 2}), "epWorldSize is 2")
		refused(t, tilingRefused, "MoeDistributeBufferReset", a.with(args{"elasticInfo": tensor(t, dtype.Int32, []int64{2}, 1)}), "a flag for each rank")
	}
}
