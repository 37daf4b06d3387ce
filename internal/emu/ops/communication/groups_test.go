package communication

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// A call joins its group once. An executor that repeats the call does not join again.
func TestGroupsOfRepeatedCalls(t *testing.T) {
	f := dtype.Float16
	asked := 0
	e, err := optest.PrepareIn(t, op.Env{Join: func(string) (op.Communicator, error) {
		asked++
		return op.Communicator{Handle: 1, Size: 1}, nil
	}}, "MatmulAllReduce", optest.Args{
		"x1": optest.Tensor(t, f, []int64{2, 3}, 1), "x2": optest.Tensor(t, f, []int64{3, 2}, 1), "output": optest.Tensor(t, f, []int64{2, 2}), "group": "g", "reduceOp": "sum", "streamMode": 1,
	})
	require.NoError(t, err)
	_, err = e.Again()
	require.NoError(t, err)
	assert.Equal(t, 1, asked)
}

func TestGroupsThatNobodyMade(t *testing.T) {
	f := dtype.Float16
	nobody := func(group string) (op.Communicator, error) {
		return op.Communicator{}, fmt.Errorf("no group %q", group)
	}
	_, err := optest.PrepareIn(t, op.Env{Join: nobody}, "MatmulAllReduce", optest.Args{
		"x1": optest.Tensor(t, f, []int64{2, 3}, 1), "x2": optest.Tensor(t, f, []int64{3, 2}, 1), "output": optest.Tensor(t, f, []int64{2, 2}), "group": "g", "reduceOp": "sum", "streamMode": 1,
	})
	assert.ErrorContains(t, err, `group: no group "g"`)
}

func TestNullsBeforeGroups(t *testing.T) { optest.NullsBeforeGroups(t, nil) }
