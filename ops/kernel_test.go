package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zaptest/observer"

	"github.com/goascend/cann/acl"
)

// toyArgs are arguments of an operator that computes nothing; its kernels record that they ran.
type toyArgs struct {
	class uint64
	bad   bool
	ran   string
}

func toyKernel(name string, supports func(*Env, uint64) error) Kernel[toyArgs, uint64] {
	return Kernel[toyArgs, uint64]{Name: name, Supports: supports, Run: func(_ context.Context, _ *acl.Stream, a *toyArgs) error {
		a.ran = name
		return nil
	}}
}

// toy makes an operator with two kernels: fast supports even classes while work is not split, plain
// supports everything.
func toy(t *testing.T, options ...Option) (*Registry, *Op[toyArgs, uint64]) {
	t.Helper()
	reg, err := NewRegistry(Env{SoC: "Ascend910B1"}, options...)
	require.NoError(t, err)
	return reg, toyOf(reg)
}

var errOdd = errors.New("the class is odd")

func toyOf(reg *Registry) *Op[toyArgs, uint64] {
	return op(reg, "toy",
		func(a *toyArgs) error {
			if a.bad {
				return invalid("class %d is bad", a.class)
			}
			return nil
		},
		func(a *toyArgs) uint64 { return a.class },
		toyKernel("fast", func(env *Env, class uint64) error {
			switch {
			case class%2 != 0:
				return errOdd
			case env.Parallel.Sequence > 1:
				return errors.New("the sequence is split")
			}
			return nil
		}),
		toyKernel("plain", nil))
}

// runs returns the kernel that runs for a class.
func runs(t *testing.T, o *Op[toyArgs, uint64], class uint64) string {
	t.Helper()
	a := &toyArgs{class: class}
	require.NoError(t, o.Run(t.Context(), new(acl.Stream), a))
	return a.ran
}

func TestPriority(t *testing.T) {
	_, o := toy(t)
	require.Equal(t, "toy", o.Name())
	require.Equal(t, []string{"fast", "plain"}, o.Kernels())
	require.Equal(t, "fast", runs(t, o, 2))
	require.Equal(t, "plain", runs(t, o, 3))

	require.NoError(t, o.Register(toyKernel("faster", nil)))
	require.Equal(t, []string{"faster", "fast", "plain"}, o.Kernels())
	require.Equal(t, "faster", runs(t, o, 2), "the choice of a class that ran before is made anew")

	require.NoError(t, o.Register(toyKernel("fast", nil)))
	require.Equal(t, []string{"fast", "faster", "plain"}, o.Kernels(), "a kernel of the same name is replaced")
	require.Equal(t, "fast", runs(t, o, 3))
}

func TestRefusals(t *testing.T) {
	_, o := toy(t)
	a := &toyArgs{class: 2, bad: true}
	err := o.Run(t.Context(), new(acl.Stream), a)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "toy: ops: invalid argument: class 2 is bad")
	require.Empty(t, a.ran)

	require.NoError(t, o.Pin("fast"))
	a = &toyArgs{class: 3}
	err = o.Run(t.Context(), new(acl.Stream), a)
	require.ErrorIs(t, err, ErrNoKernel, "a pinned kernel is not replaced for arguments it does not take")
	require.ErrorContains(t, err, "not fast: the class is odd; not plain: another kernel is pinned")
	require.ErrorIs(t, err, errOdd, "reasons are wrapped")
	require.Empty(t, a.ran)

	fault := errors.New("fault")
	require.NoError(t, o.Unpin())
	require.NoError(t, o.Register(Kernel[toyArgs, uint64]{Name: "broken", Run: func(context.Context, *acl.Stream, *toyArgs) error { return fault }}))
	err = o.Run(t.Context(), new(acl.Stream), &toyArgs{})
	require.ErrorIs(t, err, fault)
	require.ErrorContains(t, err, "toy (kernel broken)")
}

func TestPin(t *testing.T) {
	_, o := toy(t)
	require.ErrorIs(t, o.Pin("none"), ErrUnknownKernel)
	require.Equal(t, "fast", runs(t, o, 2))
	require.NoError(t, o.Pin("plain"))
	require.Equal(t, "plain", runs(t, o, 2))
	require.NoError(t, o.Pin("plain"), "again is fine")
	require.ErrorIs(t, o.Pin("fast"), ErrPinned)
	err := o.Register(toyKernel("plain", nil))
	require.ErrorIs(t, err, ErrPinned)
	require.ErrorContains(t, err, "toy is pinned to plain")
	require.Equal(t, []string{"fast", "plain"}, o.Kernels())
	require.NoError(t, o.Unpin())
	require.Equal(t, "fast", runs(t, o, 2))
}

func TestSeal(t *testing.T) {
	_, o := toy(t)
	require.NoError(t, o.Pin("plain"))
	o.Seal()
	require.ErrorIs(t, o.Unpin(), ErrPinned)
	require.ErrorIs(t, o.Pin("fast"), ErrPinned)
	require.NoError(t, o.Pin("plain"))
	require.ErrorIs(t, o.Register(toyKernel("new", nil)), ErrPinned)

	_, o = toy(t)
	o.Seal()
	err := o.Register(toyKernel("new", nil))
	require.ErrorIs(t, err, ErrPinned)
	require.ErrorContains(t, err, "toy is sealed")
	require.ErrorIs(t, o.Pin("plain"), ErrPinned)
	require.Equal(t, "fast", runs(t, o, 2))
}

// TestParallelStrategy reproduces a sequence-parallel wrapper that reinstalled the generic kernel
// on every forward pass.
func TestParallelStrategy(t *testing.T) {
	_, o := toy(t)
	require.NoError(t, o.Pin("fast"))
	for range 3 {
		require.ErrorIs(t, o.Register(toyKernel("generic", nil)), ErrPinned)
		require.Equal(t, "fast", runs(t, o, 2))
	}
}

func TestPinByEnvironment(t *testing.T) {
	t.Setenv("CANN_OPS_TOY", "plain")
	_, o := toy(t)
	require.Equal(t, "plain", runs(t, o, 2))
	require.True(t, o.Explain(&toyArgs{class: 2}).Pinned)

	t.Setenv("CANN_OPS_ROPE", "composite")
	reg, err := NewRegistry(Env{})
	require.NoError(t, err)
	require.ErrorIs(t, reg.RoPE().Pin("RotaryPositionEmbedding"), ErrPinned)

	t.Setenv("CANN_OPS_ROPE", "fastest")
	t.Setenv("CANN_OPS_ADAMW", "none")
	_, err = NewRegistry(Env{})
	require.ErrorIs(t, err, ErrUnknownKernel)
	require.ErrorContains(t, err, "CANN_OPS_ROPE")
	require.ErrorContains(t, err, `adamw has no kernel "none"`, "every fault is reported")
}

func TestExplain(t *testing.T) {
	reg, o := toy(t)
	even, odd := &toyArgs{class: 2}, &toyArgs{class: 3}
	require.Equal(t, "toy: fast; plain comes after it", o.Explain(even).String())
	require.Equal(t, Explanation{Operator: "toy", Kernel: "plain", Candidates: []Candidate{{"fast", "the class is odd"}, {"plain", ""}}}, o.Explain(odd))
	require.Equal(t, "toy: plain; not fast: the class is odd", o.Explain(odd).String())
	reg.SetParallel(Parallel{Sequence: 2})
	require.Equal(t, "toy: plain; not fast: the sequence is split", o.Explain(even).String())
	require.NoError(t, o.Pin("plain"))
	require.Equal(t, "toy: plain (pinned); not fast: another kernel is pinned", o.Explain(even).String())
	require.NoError(t, o.Unpin())
	require.NoError(t, o.Pin("fast"))
	require.Equal(t, "toy: no kernel; not fast: the class is odd; not plain: another kernel is pinned", o.Explain(odd).String())
	require.Empty(t, even.ran+odd.ran, "nothing ran")
}

// TestNilLogger: without a logger a choice is logged nowhere.
func TestNilLogger(t *testing.T) {
	_, o := toy(t, WithLogger(nil))
	runs(t, o, 1)
}

// TestCaching counts how often kernels are asked and how many lines are logged.
func TestCaching(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	reg, _ := toy(t, WithLogger(slog.New(zapslog.NewHandler(core))))
	asked := 0
	o := op(reg, "counted", func(*toyArgs) error { return nil }, func(a *toyArgs) uint64 { return a.class },
		toyKernel("only", func(*Env, uint64) error { asked++; return nil }))
	for range 3 {
		runs(t, o, 1)
		runs(t, o, 2)
	}
	require.Equal(t, 2, asked, "once per key")
	lines := logs.TakeAll()
	require.Len(t, lines, 2)
	require.Equal(t, "kernel chosen", lines[0].Message)
	require.Equal(t, map[string]any{"operator": "counted", "decision": "counted: only", "key": "1"}, lines[0].ContextMap())

	reg.SetParallel(Parallel{Tensor: 4})
	reg.SetParallel(Parallel{Tensor: 4}) // no change
	for range 3 {
		runs(t, o, 1)
	}
	require.Equal(t, 3, asked, "once more after the change")
	require.Len(t, logs.TakeAll(), 1)
	require.Equal(t, Parallel{Tensor: 4}, reg.Env().Parallel)

	require.NoError(t, o.Pin("only"))
	runs(t, o, 1)
	require.Equal(t, 4, asked)
	o.Explain(&toyArgs{})
	require.Len(t, logs.TakeAll(), 1, "Explain logs nothing")
}

// TestInvalidExplanation checks that Explain reports the error of arguments that Run refuses.
func TestInvalidExplanation(t *testing.T) {
	_, o := toy(t)
	bad := &toyArgs{class: 2, bad: true}
	e := o.Explain(bad)
	require.ErrorIs(t, e.Invalid, ErrInvalid)
	require.Empty(t, e.Kernel)
	require.Equal(t, "toy: ops: invalid argument: class 2 is bad", e.String())
	_, err := o.Key(bad)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorIs(t, o.Check(bad), ErrInvalid)
	require.NoError(t, o.Check(&toyArgs{class: 2}))
	key, err := o.Key(&toyArgs{class: 2})
	require.NoError(t, err)
	require.EqualValues(t, 2, key)
}

// TestBoundedChoices checks that an operator keeps a limited number of choices for any number of
// keys, and logs each once, even if it was dropped and made again.
func TestBoundedChoices(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	_, o := toy(t, WithLogger(slog.New(zapslog.NewHandler(core))))
	const keys = 3 * choiceLimit
	for range 3 {
		for class := range uint64(keys) {
			require.Equal(t, []string{"fast", "plain"}[class%2], runs(t, o, class))
			require.LessOrEqual(t, o.dispatch.choices.Load().count, choiceLimit)
		}
	}
	require.Equal(t, keys, logs.Len(), "one line for each key")
	seen := map[any]bool{}
	for _, line := range logs.TakeAll() {
		key := line.ContextMap()["key"]
		require.False(t, seen[key], "%v was logged twice", key)
		seen[key] = true
	}
}

// TestBoundedLog checks that a program whose keys never repeat gets one warning instead of endless
// lines, and that a change of the environment starts the log anew.
func TestBoundedLog(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	reg, o := toy(t, WithLogger(slog.New(zapslog.NewHandler(core))))
	for _, change := range []func(){func() {}, func() { reg.SetParallel(Parallel{Tensor: 2}) }, func() { require.NoError(t, o.Pin("plain")) }} {
		change()
		for class := range uint64(2 * logLimit) {
			runs(t, o, class)
		}
		lines := logs.TakeAll()
		require.Len(t, lines, logLimit+1)
		last := lines[logLimit]
		require.Equal(t, zap.WarnLevel, last.Level)
		require.Equal(t, map[string]any{"operator": "toy"}, last.ContextMap())
		require.LessOrEqual(t, len(o.dispatch.log.keys), logLimit+1)
	}
}

// TestConcurrency makes choices and changes the environment and the kernels concurrently, for the
// race detector. In any order, a class must get a kernel that supports it.
func TestConcurrency(t *testing.T) {
	reg, o := toy(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				switch a := (&toyArgs{class: uint64(i % 3)}); g {
				case 0:
					reg.SetParallel(Parallel{Sequence: 1 + i%2})
				case 1:
					if o.Pin("plain") == nil {
						if err := o.Unpin(); err != nil {
							t.Error(err)
						}
					}
				case 2:
					name := fmt.Sprintf("added%d", i%2)
					if err := o.Register(toyKernel(name, func(*Env, uint64) error { return errOdd })); err != nil && !errors.Is(err, ErrPinned) {
						t.Error(err)
					}
				default:
					if err := o.Run(t.Context(), new(acl.Stream), a); err != nil || a.ran != "fast" && a.ran != "plain" || a.ran == "fast" && a.class%2 != 0 {
						t.Errorf("class %d ran %q: %v", a.class, a.ran, err)
					}
					_ = o.Explain(a).String()
				}
			}
		})
	}
	wg.Wait()
}

// TestOneDecision checks that goroutines that look up a new key together make one decision.
func TestOneDecision(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	_, o := toy(t, WithLogger(slog.New(zapslog.NewHandler(core))))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _ = o.Run(t.Context(), new(acl.Stream), &toyArgs{class: 2}) })
	}
	wg.Wait()
	require.Len(t, logs.TakeAll(), 1)
}

func BenchmarkChoice(b *testing.B) {
	reg, err := NewRegistry(Env{})
	require.NoError(b, err)
	o := toyOf(reg)
	a := &toyArgs{class: 2}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := o.Run(ctx, new(acl.Stream), a); err != nil {
			b.Fatal(err)
		}
	}
}
