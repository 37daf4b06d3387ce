package check_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/internal/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

func TestArgs(t *testing.T) {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	tensor := func(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
		x, err := aclnn.New(st, dt, shape...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, x.Close()) })
		return x
	}
	x, wide, whole := tensor(aclnn.Float32, 2, 3), tensor(aclnn.Float32, 2, 5), tensor(aclnn.Int64, 2, 3)
	for name, c := range map[string]struct {
		check func(c *check.Args)
		text  string // "" when nothing is wrong
	}{
		"a tensor":             {func(c *check.Args) { c.Tensor("X", x, check.Floats...) }, ""},
		"no tensor":            {func(c *check.Args) { c.Tensor("X", nil, check.Floats...) }, "X is nil"},
		"a wrong view":         {func(c *check.Args) { c.Tensor("X", x.Reshape(7), check.Floats...) }, "X: "},
		"a wrong dtype":        {func(c *check.Args) { c.Tensor("X", whole, check.Floats...) }, "must be one of"},
		"indices":              {func(c *check.Args) { c.Tensor("X", whole, check.Indices...) }, ""},
		"none, if optional":    {func(c *check.Args) { assert.False(t, c.Optional("X", nil, check.Floats...)) }, ""},
		"one, if optional":     {func(c *check.Args) { assert.True(t, c.Optional("X", x, check.Floats...)) }, ""},
		"an optional of int64": {func(c *check.Args) { assert.False(t, c.Optional("X", whole, check.Floats...)) }, "must be one of"},
		"a shape":              {func(c *check.Args) { c.Shape("X", x, 2, 3) }, ""},
		"another shape":        {func(c *check.Args) { c.Shape("X", x, 3, 2) }, "its shape must be [3 2]"},
		"another rank":         {func(c *check.Args) { c.Shape("X", x, 2, 3, 1) }, "its shape must be [2 3 1]"},
		"like another":         {func(c *check.Args) { c.Like("X", x, "Y", whole) }, ""},
		"unlike another":       {func(c *check.Args) { c.Like("X", x, "Y", wide) }, "must be equal"},
		"the same":             {func(c *check.Args) { c.Same("X", x, "Y", x) }, ""},
		"the same, wider":      {func(c *check.Args) { c.Same("X", x, "Y", wide) }, "must be equal"},
		"the same, integers":   {func(c *check.Args) { c.Same("X", x, "Y", whole) }, "must be one of"},
		"the rows of another":  {func(c *check.Args) { c.Rows("X", x, "Y", wide) }, ""},
		"other rows":           {func(c *check.Args) { c.Rows("X", x, "Y", x.Transpose(0, 1)) }, "do not fit"},
		"another rank of rows": {func(c *check.Args) { c.Rows("X", x, "Y", x.Unsqueeze(0)) }, "do not fit"},
		"contiguous":           {func(c *check.Args) { c.Contiguous("X", x) }, ""},
		"with gaps":            {func(c *check.Args) { c.Contiguous("X", x.Transpose(0, 1)) }, "must be contiguous"},
	} {
		t.Run(name, func(t *testing.T) {
			var args check.Args
			c.check(&args)
			require.Equal(t, c.text == "", args.OK())
			if c.text == "" {
				require.NoError(t, args.Err)
				return
			}
			require.ErrorContains(t, args.Err, c.text)
			require.ErrorIs(t, args.Err, check.ErrInvalid)
			require.ErrorIs(t, args.Err, acl.ErrInvalidArgument)
			first := args.Err
			args.Tensor("later", nil)
			args.Shape("later", nil, 1)
			args.Rows("later", nil, "other", nil)
			args.Contiguous("later", nil)
			require.Equal(t, first, args.Err, "the first fault is kept, and later checks touch nothing")
		})
	}
}
