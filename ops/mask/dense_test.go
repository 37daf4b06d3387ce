package mask_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// tensors makes mask tensors on device 0 for a test.
func tensors(t *testing.T) func(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	t.Helper()
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	return func(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
		x, err := aclnn.New(st, dt, shape...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, x.Close()) })
		return x
	}
}

func TestDecideDense(t *testing.T) {
	tensor := tensors(t)
	checkDecided(t, []decided{
		{"dense shared", mask.Dense{Tensor: tensor(aclnn.Bool, 8, 8), Meaning: mask.Hidden}, square, mask.Decision{SparseMode: 1, Source: mask.Given, Shape: []int64{8, 8}, InnerPrecise: 2, Reason: "hidden"}},
		{"dense shared, four dimensions", mask.Dense{Tensor: tensor(aclnn.Uint8, 1, 1, 8, 8), Meaning: mask.Hidden}, square, mask.Decision{SparseMode: 1, Source: mask.Given, Shape: []int64{1, 1, 8, 8}, InnerPrecise: 2}},
		{"dense per batch item", mask.Dense{Tensor: tensor(aclnn.Int64, 3, 1, 8, 8), Meaning: mask.Visible}, square, mask.Decision{SparseMode: 1, Source: mask.Given, Shape: []int64{3, 1, 8, 8}, InnerPrecise: 2, Reason: "visible"}},
		{"dense per head", mask.Dense{Tensor: tensor(aclnn.Float16, 3, 4, 8, 8), Meaning: mask.Additive}, square, mask.Decision{SparseMode: 1, Source: mask.Given, Shape: []int64{3, 4, 8, 8}, InnerPrecise: 2, Reason: "additive"}},
		{"dense of keys", mask.Dense{Tensor: tensor(aclnn.Bool, 3, 1, 1, 8), Meaning: mask.Hidden}, square, mask.Decision{SparseMode: 1, Source: mask.Given, Shape: []int64{3, 1, 8, 8}, InnerPrecise: 2}},
		{"dense that may be dropped", mask.Dense{Tensor: tensor(aclnn.Bool, 3, 1, 8, 8), Meaning: mask.Hidden, CausalRightPadded: true}, square, mask.Decision{SparseMode: 2, Source: mask.Triangle, Reason: "compressed"}},
		{"packed dense", in(mask.Dense{Tensor: tensor(aclnn.Bool, 4, 6), Meaning: mask.Hidden}), packed, mask.Decision{SparseMode: 1, Source: mask.Given, Shape: []int64{4, 6}, InnerPrecise: 2}},
	})
}

func TestRefusedDense(t *testing.T) {
	tensor := tensors(t)
	cells := tensor(aclnn.Bool, 3, 1, 8, 8)
	within := func(m mask.Mask) mask.Mask {
		return mask.Varlen{CuQueries: []int64{4, 9}, CuKeys: []int64{2, 14}, Within: m}
	}
	checkRefused(t, []refused{
		{"no meaning", mask.Dense{Tensor: tensor(aclnn.Bool, 8, 8)}, square, "its Meaning is not given"},
		{"impossible view", mask.Dense{Tensor: cells.Select(0, 9), Meaning: mask.Hidden}, square, "fix the view"},
		{"additive integers", mask.Dense{Tensor: cells, Meaning: mask.Additive}, square, "additive mask is floating-point"},
		{"hidden floats", mask.Dense{Tensor: tensor(aclnn.Float32, 8, 8), Meaning: mask.Hidden}, square, "use the meaning Additive"},
		{"unknown meaning", mask.Dense{Tensor: cells, Meaning: 7}, square, "meaning is unknown"},
		{"padding as dense", mask.Dense{Tensor: tensor(aclnn.Bool, 3, 8), Meaning: mask.Hidden}, square, "mask.Padding"},
		{"padding that looks like cells", mask.Dense{Tensor: tensor(aclnn.Bool, 8, 8), Meaning: mask.Hidden}, mask.Shape{Layout: mask.BSND, Batch: 8, Heads: 1, Queries: 8, Keys: 8}, "[1,1,Sq,Skv]"},
		{"three dimensions", mask.Dense{Tensor: tensor(aclnn.Bool, 3, 8, 8), Meaning: mask.Hidden}, square, "the device takes"},
		{"heads without batch", mask.Dense{Tensor: tensor(aclnn.Bool, 1, 4, 8, 8), Meaning: mask.Hidden}, square, "the device takes"},
		{"other heads", mask.Dense{Tensor: tensor(aclnn.Bool, 3, 2, 8, 8), Meaning: mask.Hidden}, square, "the device takes"},
		{"other length", mask.Dense{Tensor: tensor(aclnn.Bool, 3, 1, 8, 9), Meaning: mask.Hidden}, square, "the device takes"},
		{"dropped, of a chunk", mask.Dense{Tensor: tensor(aclnn.Bool, 4, 10), Meaning: mask.Hidden, CausalRightPadded: true}, wide, "as many queries as keys"},
		{"packed dense", within(mask.Dense{Tensor: tensor(aclnn.Bool, 5, 14), Meaning: mask.Hidden}), packed, "it must be [5,12]"},
		{"packed dense to drop", within(mask.Dense{Tensor: tensor(aclnn.Bool, 5, 12), Meaning: mask.Hidden, CausalRightPadded: true}), packed, ""},
	})
}
