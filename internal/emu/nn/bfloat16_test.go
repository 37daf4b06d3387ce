package nn

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// The cores of the 910 and the 310P have no bfloat16. Operators refuse it there, except where their source lists it.
func TestChipsWithoutBFloat16(t *testing.T) {
	tensor := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	calls := func(d dtype.Type) map[string]optest.Args {
		x, y := tensor(d, 2, 2), tensor(d, 2, 2)
		return map[string]optest.Args{
			"Matmul":      {"self": x, "mat2": y, "out": tensor(d, 2, 2), "cubeMathType": 1},
			"Mm":          {"self": x, "mat2": y, "out": tensor(d, 2, 2), "cubeMathType": 1},
			"BatchMatMul": {"self": tensor(d, 1, 2, 2), "mat2": tensor(d, 1, 2, 2), "out": tensor(d, 1, 2, 2), "cubeMathType": 1},
			"Mv":          {"self": x, "vec": tensor(d, 2), "out": tensor(d, 2), "cubeMathType": 1},
			"RmsNorm":     {"x": x, "gamma": tensor(d, 2), "epsilon": 1e-6, "yOut": y, "rstdOut": tensor(dtype.Float32, 2, 1)},
			"SwiGlu":      {"x": x, "dim": -1, "out": tensor(d, 2, 1)},
			"Add":         {"self": x, "other": y, "alpha": optest.Scalar(1.0), "out": tensor(d, 2, 2)},
		}
	}
	for _, chip := range []acceptance.Chip{acceptance.Ascend910, acceptance.Ascend310P} {
		for name, args := range calls(dtype.BFloat16) {
			_, err := optest.PrepareIn(t, op.Env{Chip: chip}, name, args)
			assert.Regexp(t, "161002|561003", err, "%s on the %v", name, chip)
		}
		for name, args := range calls(dtype.Float16) {
			_, err := optest.PrepareIn(t, op.Env{Chip: chip}, name, args)
			if err != nil {
				assert.ErrorContains(t, err, "does not have the operator", "%s on the %v", name, chip)
			}
		}
		_, err := optest.PrepareIn(t, op.Env{Chip: chip}, "Sigmoid", optest.Args{"self": tensor(dtype.BFloat16, 2), "out": tensor(dtype.BFloat16, 2)})
		if list, _, _ := acceptance.Types("Sigmoid", chip); assert.NotEmpty(t, list) {
			assert.Equal(t, slices.Contains(list["self"], dtype.BFloat16), err == nil, "Sigmoid on the %v: %v", chip, err)
		}
	}
}

// No operator takes bfloat16 there in a variation of any recorded call, except where its source lists it. An operator of
// these chips whose source is public takes one of the calls without bfloat16, so that its refusals are because of the type.
func TestChipsWithoutBFloat16InRecordedCalls(t *testing.T) {
	calls := recordedCalls(t)
	refusesAll, unrecorded := "its source refuses every call on both chips", "no call is recorded"
	exceptions := map[acceptance.Chip]map[string]string{acceptance.Ascend910: {
		"AdaptiveAvgPool3dBackward": "its source takes results of depth 1 only, and the recorded one has another",
	}, acceptance.Ascend310P: {
		"NonMaxSuppression": unrecorded, "TransConvolutionWeight": unrecorded,
	}}
	for _, names := range exceptions {
		for _, name := range []string{
			"AddN", "ForeachAddcdivScalar", "ForeachAddcdivScalarList", "ForeachDivScalar", "ForeachLerpList", "ForeachMulList",
			"TransposeBatchMatMulWeightNz",
		} {
			names[name] = refusesAll
		}
	}
	for chip, reasons := range exceptions {
		shown, needed := 0, make(map[string]bool)
		for _, name := range slices.Sorted(maps.Keys(implementations)) {
			unlisted, others, err := optest.UnlistedBFloat16(calls[name], chip)
			require.NoError(t, err)
			assert.Empty(t, unlisted, "taken as bfloat16 on the %v, for which the source does not list it", chip)
			_, missing, err := acceptance.Types(name, chip)
			require.NoError(t, err)
			if _, public := acceptance.SourceOf(name); !public || missing {
				continue
			}
			if others {
				shown++
			}
			needed[name] = !others
			assert.True(t, others || reasons[name] != "", "aclnn%s takes no recorded call on the %v", name, chip)
		}
		for name, reason := range reasons {
			assert.True(t, needed[name], "aclnn%s is no exception on the %v any more: %s", name, chip, reason)
		}
		t.Logf("%v: %d operators with a source refuse bfloat16 where it does not list it", chip, shown)
	}
}
