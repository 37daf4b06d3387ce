package acl_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
)

// increase queues x += by for integers.
func increase(st *acl.Stream, x *aclnn.Tensor, by int64) error {
	return aclnn.InplaceAdds(st, aclnn.InplaceAddsParams{Self: x, Other: aclnn.Int(by), Alpha: aclnn.Int(1)})
}

// conditional is a stream with a number that decides and one that shows what ran.
type conditional struct {
	t             *testing.T
	st            *acl.Stream
	decides, ran  *aclnn.Tensor
	decidesBuffer *acl.Buffer
}

func newConditional(t *testing.T) *conditional {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	if cshim.NewFunc(cshim.ACL, "aclmdlRICondHandleCreate").Available() != nil {
		t.Skip("this CANN has no conditions")
	}
	c := &conditional{t: t, st: st}
	for _, x := range []**aclnn.Tensor{&c.decides, &c.ran} {
		var err error
		*x, err = aclnn.FromSlice(t.Context(), st, aclnn.Int64, []int64{0}, 1)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, (*x).Close()) })
	}
	c.decidesBuffer = c.decides.Buffer()
	return c
}

// replay runs a graph with a value of the number that decides, and returns the one that shows what ran.
func (c *conditional) replay(g *acl.Graph, value int64) int64 {
	c.t.Helper()
	require.NoError(c.t, aclnn.CopyToDevice(c.t.Context(), c.st, c.decides, []int64{value}))
	require.NoError(c.t, aclnn.CopyToDevice(c.t.Context(), c.st, c.ran, []int64{0}))
	require.NoError(c.t, g.Replay(c.st))
	got := make([]int64, 1)
	require.NoError(c.t, aclnn.CopyFromDevice(c.t.Context(), c.st, got, c.ran))
	return got[0]
}

// adds is a body that adds a number to the one that shows what ran.
func (c *conditional) adds(n int64) func(*acl.Stream) error {
	return func(st *acl.Stream) error { return increase(st, c.ran, n) }
}

func TestConditions(t *testing.T) {
	for name, test := range map[string]struct {
		capture func(c *conditional, x *acl.Condition) error
		want    map[int64]int64 // what ran, by the number that decides
	}{
		"if":          {func(c *conditional, x *acl.Condition) error { return c.st.If(x, c.adds(3), nil) }, map[int64]int64{0: 0, 1: 3, -1: 3}},
		"if and else": {func(c *conditional, x *acl.Condition) error { return c.st.If(x, c.adds(3), c.adds(5)) }, map[int64]int64{0: 5, 7: 3}},
		"switch":      {func(c *conditional, x *acl.Condition) error { return c.st.Switch(x, c.adds(1), c.adds(2), c.adds(4)) }, map[int64]int64{0: 1, 1: 2, 2: 4, 3: 0}},
		"while": {func(c *conditional, x *acl.Condition) error {
			return c.st.While(x, func(st *acl.Stream) error {
				return errors.Join(increase(st, c.ran, 10), increase(st, c.decides, -1), x.Set(st, c.decidesBuffer))
			})
		}, map[int64]int64{0: 0, 1: 10, 5: 50}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConditional(t)
			g := capture(t, c.st, func() error {
				x, err := c.st.NewCondition(0, false)
				if err != nil {
					return err
				}
				return errors.Join(x.Set(c.st, c.decidesBuffer), test.capture(c, x), increase(c.st, c.ran, 1000))
			})
			for value, want := range test.want {
				for range 2 {
					require.Equal(t, want+1000, c.replay(g, value), "the condition is %d", value)
				}
			}
		})
	}
}

// TestNestedConditions: a loop in a loop, whose condition starts anew in each round of the outer one;
// bodies have scratch memory of their own.
func TestNestedConditions(t *testing.T) {
	c := newConditional(t)
	var kept *acl.Condition
	g := capture(t, c.st, func() error {
		outer, err := c.st.NewCondition(0, false)
		if err != nil {
			return err
		}
		kept = outer
		round := func(st *acl.Stream) error {
			left, err := aclnn.New(st, aclnn.Int64, 1)
			if err != nil {
				return err
			}
			inner, err := st.NewCondition(2, true)
			if err != nil {
				return err
			}
			return errors.Join(
				aclnn.InplaceFillScalar(st, aclnn.InplaceFillScalarParams{Self: left, Value: aclnn.Int(2)}),
				st.While(inner, func(deep *acl.Stream) error {
					return errors.Join(increase(deep, c.ran, 1), increase(deep, left, -1), inner.Set(deep, left.Buffer()))
				}),
				increase(st, c.decides, -1), outer.Set(st, c.decidesBuffer), left.Close())
		}
		return errors.Join(outer.Set(c.st, c.decidesBuffer), c.st.While(outer, round))
	})
	require.Equal(t, int64(6), c.replay(g, 3))
	require.Zero(t, c.replay(g, 0))
	require.NoError(t, g.Close())
	require.ErrorIs(t, kept.Set(c.st, c.decidesBuffer), acl.ErrClosed)
}

func TestConditionsRefused(t *testing.T) {
	c := newConditional(t)
	_, err := c.st.NewCondition(0, false)
	require.ErrorIs(t, err, acl.ErrInvalidArgument, "there is no capture")
	require.ErrorIs(t, c.st.If(nil, c.adds(1), nil), acl.ErrInvalidArgument)
	var other *acl.Condition
	capture(t, c.st, func() (err error) {
		other, err = c.st.NewCondition(0, false)
		return err
	})
	wrong := errors.New("wrong")
	for name, f := range map[string]func(x *acl.Condition) error{
		"nil":           func(*acl.Condition) error { return c.st.If(nil, c.adds(1), nil) },
		"another graph": func(*acl.Condition) error { return c.st.If(other, c.adds(1), nil) },
		"no body":       func(x *acl.Condition) error { return c.st.If(x, nil, nil) },
		"no bodies":     func(x *acl.Condition) error { return c.st.Switch(x) },
		"nil buffer":    func(x *acl.Condition) error { return x.Set(c.st, nil) },
		"nil condition": func(*acl.Condition) error { return (*acl.Condition)(nil).Set(c.st, c.decidesBuffer) },
	} {
		_, err := c.st.Capture(t.Context(), acl.CaptureThreadLocal, func() error {
			x, err := c.st.NewCondition(0, false)
			if err != nil {
				return err
			}
			return f(x)
		})
		require.ErrorIs(t, err, acl.ErrInvalidArgument, name)
	}
	_, err = c.st.Capture(t.Context(), acl.CaptureThreadLocal, func() error {
		x, err := c.st.NewCondition(0, false)
		if err != nil {
			return err
		}
		return c.st.If(x, func(*acl.Stream) error { return wrong }, nil)
	})
	require.ErrorIs(t, err, wrong)
	require.NoError(t, increase(c.st, c.ran, 1), "the stream works on")
	require.NoError(t, c.st.Synchronize(t.Context()))
}
