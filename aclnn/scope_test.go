package aclnn_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// newScope is a scope on a new stream of device 0. Nothing of it may be alive when the test
// ends, but the test closes it.
func newScope(t *testing.T) *aclnn.Scope {
	t.Helper()
	return &aclnn.Scope{Stream: acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))}
}

// vector is a float32 scratch tensor of values.
func vector(t *testing.T, s *aclnn.Scope, values ...float32) *aclnn.Tensor {
	t.Helper()
	x := s.Tensor(aclnn.Float32, int64(len(values)))
	s.Do(func() error { return aclnn.CopyToDevice(t.Context(), s.Stream, x, values) })
	return x
}

// read waits for a tensor's values as float32, whatever its dtype and strides.
func read(t *testing.T, st *acl.Stream, x *aclnn.Tensor) []float32 {
	t.Helper()
	values := make([]float32, x.Len())
	require.NoError(t, aclnn.Compose(st, func(s *aclnn.Scope) {
		wide := s.Contiguous(s.Cast(x, aclnn.Float32))
		s.Do(func() error { return aclnn.CopyFromDevice(t.Context(), st, values, wide) })
	}))
	return values
}

func TestScope(t *testing.T) {
	s := newScope(t)
	x, y := vector(t, s, 1, 2, 3), vector(t, s, 10, 20, 30)
	square := s.Like(x)
	aclnn.Launch(s, aclnn.Mul, aclnn.MulParams{Self: x, Other: x, Out: square})
	aclnn.Launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: square, Other: y, Alpha: aclnn.Float(1)})
	require.NoError(t, s.Err())
	require.Equal(t, []float32{11, 24, 39}, read(t, s.Stream, square))
	require.Equal(t, 3, acl.Live()[acl.KindBuffer])
	require.NoError(t, s.Close())
	require.Zero(t, acl.Live()[acl.KindBuffer])
}

// TestScopeFails: after the first error nothing is launched or called, that error is the
// scope's, and what was made before it is freed.
func TestScopeFails(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		fail func(s *aclnn.Scope, x *aclnn.Tensor)
		want error
		text string
	}{
		"operator": {func(s *aclnn.Scope, x *aclnn.Tensor) {
			aclnn.Launch(s, aclnn.Mul, aclnn.MulParams{Self: x, Other: x, Out: x.Reshape(2, 1).Expand(2, 2)})
		}, acl.ErrInvalidArgument, "aclnnMul(self float32[2]ND"},
		"impossible view":  {func(s *aclnn.Scope, x *aclnn.Tensor) { s.Zero(x.Narrow(0, 1, 2)) }, nil, "float32[2]ND"},
		"impossible shape": {func(s *aclnn.Scope, x *aclnn.Tensor) { s.Tensor(aclnn.Float32, 2, -1) }, nil, "negative dimension"},
		"no memory":        {func(s *aclnn.Scope, x *aclnn.Tensor) { s.Tensor(aclnn.Float32, 1<<40) }, acl.ErrOutOfMemory, "[1099511627776]"},
		"step":             {func(s *aclnn.Scope, x *aclnn.Tensor) { s.Do(func() error { return broken }) }, broken, "broken"},
		"caller":           {func(s *aclnn.Scope, x *aclnn.Tensor) { s.Fail(broken) }, broken, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(t)
			x := vector(t, s, 1, 2)
			c.fail(s, x)
			first := s.Err()
			require.ErrorContains(t, first, c.text)
			if c.want != nil {
				require.ErrorIs(t, first, c.want)
			}

			called := false
			aclnn.Launch(s, func(*acl.Stream, int) error { called = true; return nil }, 0)
			s.Do(func() error { called = true; return nil })
			s.Fail(errors.New("another"))
			require.False(t, called)

			absent := s.Tensor(aclnn.BFloat16, 3, 4)
			require.Equal(t, first, absent.Err())
			require.Equal(t, first, s.Like(absent).Err())
			require.Equal(t, []int64{3, 4}, absent.Shape(), "code that goes by the shape goes on")
			require.Equal(t, aclnn.BFloat16, absent.DType())
			require.Equal(t, first, absent.Reshape(12).Err())
			require.Error(t, aclnn.InplaceZero(s.Stream, aclnn.InplaceZeroParams{Self: absent}), "nothing launches it")
			require.Same(t, x, s.Target(x))
			s.Finish(s.Cast(x, aclnn.Float16), s.Contiguous(x.Expand(2, 2)))
			s.Free(absent)

			require.NoError(t, s.Close(), "that is the error of freeing")
			require.Equal(t, first, s.Err())
			require.Zero(t, acl.Live()[acl.KindBuffer])
		})
	}
}

func TestScopeClosed(t *testing.T) {
	s := newScope(t)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Tensor(aclnn.Float32, 1).Err(), acl.ErrClosed)
	require.ErrorIs(t, s.Err(), acl.ErrClosed)
	require.NoError(t, s.Close())
}

func TestScopeWithoutStream(t *testing.T) {
	err := aclnn.Compose(nil, func(s *aclnn.Scope) { s.Zero(s.Tensor(aclnn.Float32, 1)) })
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	require.NoError(t, aclnn.Compose(nil, func(*aclnn.Scope) {}), "nothing needed it")
}

// closer notes when it is closed.
type closer struct {
	name string
	list *[]string
	err  error
}

func (c closer) Close() error {
	*c.list = append(*c.list, c.name)
	return c.err
}

func TestScopeOwns(t *testing.T) {
	broken, stuck := errors.New("broken"), errors.New("stuck")
	s := newScope(t)
	var order []string
	s.Own(closer{"first", &order, nil})
	s.Own(closer{"second", &order, stuck})
	s.Fail(broken)
	s.Own(closer{"third", &order, nil})
	require.ErrorIs(t, s.Close(), stuck)
	require.Equal(t, []string{"third", "second", "first"}, order)
	require.Equal(t, broken, s.Err())
	require.NoError(t, s.Close())
	require.Len(t, order, 3, "closed once")

	err := aclnn.Compose(s.Stream, func(s *aclnn.Scope) {
		s.Own(closer{"fourth", &order, stuck})
		s.Fail(broken)
	})
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, stuck)
	require.Equal(t, "fourth", order[3])
}

// TestScopeFree: memory that is freed early serves the next tensor, and is freed once.
func TestScopeFree(t *testing.T) {
	s := newScope(t)
	x := vector(t, s, 1, 2, 3)
	y := s.Like(x)
	s.Copy(y, x)
	before := x.Address()
	s.Free(x)
	require.Equal(t, 1, acl.Live()[acl.KindBuffer])
	again := s.Tensor(aclnn.Float32, 3)
	require.Equal(t, before, again.Address())
	s.Zero(again)
	require.Equal(t, []float32{1, 2, 3}, read(t, s.Stream, y), "the copy was queued before")
	require.NoError(t, s.Close())
}

func TestScopeCopies(t *testing.T) {
	s := newScope(t)
	x := vector(t, s, 1, 2, 3, 4, 5, 6).Reshape(2, 3)
	transposed := x.Transpose(0, 1)

	require.Same(t, x, s.Cast(x, aclnn.Float32))
	half := s.Cast(x, aclnn.Float16)
	require.Equal(t, aclnn.Float16, half.DType())
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, read(t, s.Stream, half))

	require.Same(t, x, s.Contiguous(x))
	dense := s.Contiguous(transposed)
	require.True(t, dense.Contiguous())
	require.Equal(t, []float32{1, 4, 2, 5, 3, 6}, read(t, s.Stream, dense))

	require.Same(t, x, s.Target(x))
	s.Finish(x, x)
	target := s.Target(transposed)
	require.True(t, target.Contiguous())
	require.Equal(t, transposed.Shape(), target.Shape())
	s.Copy(target, vector(t, s, 7, 8)) // broadcasts
	s.Finish(transposed, target)
	require.Equal(t, []float32{7, 7, 7, 8, 8, 8}, read(t, s.Stream, x))

	s.Fill(half, aclnn.Int(3))
	require.Equal(t, []float32{3, 3, 3, 3, 3, 3}, read(t, s.Stream, half))
	s.Zero(transposed.Narrow(0, 0, 1))
	require.Equal(t, []float32{0, 7, 7, 0, 8, 8}, read(t, s.Stream, x))
	require.NoError(t, s.Close())
}

// TestScopeAllocates: a launch in a scope costs no memory of its own.
func TestScopeAllocates(t *testing.T) {
	s := newScope(t)
	x := s.Tensor(aclnn.Float32, 1)
	launches := 0
	operator := func(*acl.Stream, aclnn.AddParams) error { launches++; return nil }
	add := aclnn.AddParams{Self: x, Other: x, Alpha: aclnn.Float(1), Out: x}
	allocs := testing.AllocsPerRun(100, func() {
		aclnn.Launch(s, operator, add)
		s.Do(func() error { launches++; return nil })
	})
	assert.Zero(t, allocs)
	require.NotZero(t, launches)
	require.NoError(t, s.Close())
}
