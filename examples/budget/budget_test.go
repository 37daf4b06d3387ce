package budget_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
)

func TestSteps(t *testing.T) {
	b := budget.New(t.Context(), "the schema", 10)
	require.NoError(t, b.Step(3))
	require.NoError(t, b.Step(5))
	err := b.Step(0)
	require.ErrorIs(t, err, budget.ErrLimit)
	require.EqualError(t, err, "over the limit: the schema takes more than 10 steps")
	require.ErrorIs(t, b.Step(0), budget.ErrLimit, "it stays so")
}

// TestTimed: work that takes long uses up the steps of a budget.
func TestTimed(t *testing.T) {
	b := budget.New(t.Context(), "the search", 1_000)
	require.NoError(t, b.Timed(func() {}))
	var err error
	for n := 0; err == nil && n < 1_000_000; n++ {
		err = b.Timed(func() { _ = slices.Max(make([]byte, 10_000)) })
	}
	require.ErrorIs(t, err, budget.ErrTime)
	require.ErrorIs(t, err, budget.ErrLimit)
	require.NotErrorIs(t, b.Step(0), budget.ErrTime, "steps that are counted")
}

// TestTimeOfParts: a part may have a time of its own, beside the steps of the whole.
func TestTimeOfParts(t *testing.T) {
	whole := budget.New(t.Context(), "the request", 1<<40)
	part := whole.Part("a search", 1<<40)
	defer part.Time(20 * time.Millisecond)()
	err := error(nil)
	for err == nil {
		err = part.Step(0)
	}
	require.ErrorIs(t, err, budget.ErrTime)
	require.NoError(t, whole.Step(0))
}

// TestParts: the steps of all parts count in the whole, and those of a part in itself alone.
func TestParts(t *testing.T) {
	whole := budget.New(t.Context(), "the request", 10)
	for range 2 {
		part := whole.Part("a token", 4)
		require.NoError(t, part.Step(3))
		require.ErrorContains(t, part.Step(0), "a token takes more than 4 steps")
	}
	require.ErrorContains(t, whole.Part("a token", 4).Step(2), "the request takes more than 10 steps")
}

// TestContext: the end of a context is noticed within some thousand steps, however they are counted.
func TestContext(t *testing.T) {
	reason := errors.New("the client has left")
	for _, n := range []int{0, 1, 4095, 5000} {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := budget.New(ctx, "x", 1<<20)
		require.NoError(t, b.Step(n))
		cancel(reason)
		var err error
		for taken := 0; err == nil && taken <= 1<<13; taken += n + 1 {
			err = b.Step(n)
		}
		require.ErrorIs(t, err, reason, "%d", n)
	}
}

// TestTime: the time of the processor ends work that takes few steps, and waiting takes none of it.
func TestTime(t *testing.T) {
	b := budget.New(t.Context(), "the search", 1<<40)
	defer b.Time(20 * time.Millisecond)()
	time.Sleep(30 * time.Millisecond)
	if runtime.GOOS == "linux" {
		require.NoError(t, b.Check())
	}
	err := error(nil)
	for n := 0; err == nil; n++ {
		err = b.Step(0)
	}
	require.ErrorIs(t, err, budget.ErrLimit)
	require.ErrorIs(t, err, budget.ErrTime)
	require.EqualError(t, err, "over the limit: the search takes more than 20ms of the processor")
	require.Error(t, b.Check(), "it stays so")
}

// TestConcurrently: many goroutines together get the steps that there are, and no more.
func TestConcurrently(t *testing.T) {
	b, made := budget.New(t.Context(), "x", 1000), atomic.Int64{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for b.Step(0) == nil {
				made.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1000, made.Load())
}

func TestSize(t *testing.T) {
	require.NoError(t, budget.Size("the file", 5, 5, "bytes"))
	err := budget.Size("the file", 6, 5, "bytes")
	require.ErrorIs(t, err, budget.ErrLimit)
	require.EqualError(t, err, "over the limit: the file has 6 bytes; at most 5 are allowed")
}

// TestReadFile: a file is read up to its bound, and what is no file is refused.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(path, []byte("12345"), 0o600))
	text, err := budget.ReadFile(path, 5)
	require.NoError(t, err)
	require.Equal(t, "12345", string(text))
	_, err = budget.ReadFile(path, 4)
	require.ErrorIs(t, err, budget.ErrLimit)
	require.ErrorContains(t, err, "config.json has 5 bytes; at most 4 are allowed")
	for _, other := range []string{"/dev/zero", t.TempDir()} {
		_, err = budget.ReadFile(other, 1<<20)
		require.ErrorContains(t, err, other+" is no regular file")
	}
	_, err = budget.ReadFile(path+"x", 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
