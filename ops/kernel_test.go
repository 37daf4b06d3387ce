package ops

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/goascend/cann/acl"
)

// toyArgs are arguments of an operator that computes nothing: kernels note that they ran.
type toyArgs struct {
	class uint64
	bad   bool
	ran   string
}

func toyKernel(name string, supports func(*Env, *toyArgs) error) Kernel[toyArgs] {
	return Kernel[toyArgs]{Name: name, Supports: supports, Run: func(_ context.Context, _ *acl.Stream, a *toyArgs) error {
		a.ran = name
		return nil
	}}
}

// toy makes an operator with two kernels: fast takes even classes while nothing is split,
// plain everything.
func toy(t *testing.T, options ...Option) (*Registry, *Op[toyArgs]) {
	t.Helper()
	reg, err := NewRegistry(Env{SoC: "Ascend910B1"}, options...)
	require.NoError(t, err)
	return reg, toyOf(reg)
}

var errOdd = errors.New("the class is odd")

func toyOf(reg *Registry) *Op[toyArgs] {
	return op(reg, "toy",
		func(a *toyArgs) error {
			if a.bad {
				return invalid("class %d is bad", a.class)
			}
			return nil
		},
		func(a *toyArgs) Signature { return Signature{a.class} },
		toyKernel("fast", func(env *Env, a *toyArgs) error {
			switch {
			case a.class%2 != 0:
				return errOdd
			case env.Parallel.Sequence > 1:
				return errors.New("the sequence is split")
			}
			return nil
		}),
		toyKernel("plain", Always[toyArgs]))
}

// runs is the kernel that a class gets.
func runs(t *testing.T, o *Op[toyArgs], class uint64) string {
	t.Helper()
	a := &toyArgs{class: class}
	require.NoError(t, o.Run(t.Context(), nil, a))
	return a.ran
}

func TestPriority(t *testing.T) {
	_, o := toy(t)
	require.Equal(t, "toy", o.Name())
	require.Equal(t, []string{"fast", "plain"}, o.Kernels())
	require.Equal(t, "fast", runs(t, o, 2))
	require.Equal(t, "plain", runs(t, o, 3))

	require.NoError(t, o.Register(toyKernel("faster", Always[toyArgs])))
	require.Equal(t, []string{"faster", "fast", "plain"}, o.Kernels())
	require.Equal(t, "faster", runs(t, o, 2), "the choice of a class that ran before is made anew")

	require.NoError(t, o.Register(toyKernel("fast", Always[toyArgs])))
	require.Equal(t, []string{"fast", "faster", "plain"}, o.Kernels(), "a kernel of the same name is replaced")
	require.Equal(t, "fast", runs(t, o, 3))
}

func TestRefusals(t *testing.T) {
	_, o := toy(t)
	a := &toyArgs{class: 2, bad: true}
	err := o.Run(t.Context(), nil, a)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "toy: ops: invalid argument: class 2 is bad")
	require.Empty(t, a.ran)

	require.NoError(t, o.Pin("fast"))
	a = &toyArgs{class: 3}
	err = o.Run(t.Context(), nil, a)
	require.ErrorIs(t, err, ErrNoKernel, "a pinned kernel is not replaced for arguments it does not take")
	require.ErrorContains(t, err, "not fast: the class is odd; not plain: another kernel is pinned")
	require.ErrorIs(t, err, errOdd, "reasons are wrapped")
	require.Empty(t, a.ran)

	fault := errors.New("fault")
	require.NoError(t, o.Unpin())
	require.NoError(t, o.Register(Kernel[toyArgs]{Name: "broken", Supports: Always[toyArgs], Run: func(context.Context, *acl.Stream, *toyArgs) error { return fault }}))
	err = o.Run(t.Context(), nil, &toyArgs{})
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
	err := o.Register(toyKernel("plain", Always[toyArgs]))
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
	require.ErrorIs(t, o.Register(toyKernel("new", Always[toyArgs])), ErrPinned)

	_, o = toy(t)
	o.Seal()
	err := o.Register(toyKernel("new", Always[toyArgs]))
	require.ErrorIs(t, err, ErrPinned)
	require.ErrorContains(t, err, "toy is sealed")
	require.ErrorIs(t, o.Pin("plain"), ErrPinned)
	require.Equal(t, "fast", runs(t, o, 2))
}

// TestParallelStrategy is the history of a sequence-parallel wrapper that put the generic
// kernel back on every forward pass.
func TestParallelStrategy(t *testing.T) {
	_, o := toy(t)
	require.NoError(t, o.Pin("fast"))
	for range 3 {
		require.ErrorIs(t, o.Register(toyKernel("generic", Always[toyArgs])), ErrPinned)
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
	require.ErrorIs(t, reg.RoPE.Pin("RotaryPositionEmbedding"), ErrPinned)

	t.Setenv("CANN_OPS_ROPE", "fastest")
	t.Setenv("CANN_OPS_ADAMW", "none")
	_, err = NewRegistry(Env{})
	require.ErrorIs(t, err, ErrUnknownKernel)
	require.ErrorContains(t, err, "CANN_OPS_ROPE")
	require.ErrorContains(t, err, `adamw has no kernel "none"`, "every fault is told")
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

// TestCaching counts how often kernels are asked, and the lines that are logged.
func TestCaching(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	reg, _ := toy(t, WithLogger(zap.New(core)))
	asked := 0
	o := op(reg, "counted", func(*toyArgs) error { return nil }, func(a *toyArgs) Signature { return Signature{a.class} },
		toyKernel("only", func(*Env, *toyArgs) error { asked++; return nil }))
	for range 3 {
		runs(t, o, 1)
		runs(t, o, 2)
	}
	require.Equal(t, 2, asked, "once per signature")
	lines := logs.TakeAll()
	require.Len(t, lines, 2)
	require.Equal(t, "kernel chosen", lines[0].Message)
	require.Equal(t, map[string]any{"operator": "counted", "decision": "counted: only"}, lines[0].ContextMap())

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

// TestConcurrency is for the race detector: choices, changes of the environment and of the
// kernels at once. Whatever the order, a class gets a kernel that takes it.
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
					if err := o.Register(toyKernel(name, func(*Env, *toyArgs) error { return errOdd })); err != nil && !errors.Is(err, ErrPinned) {
						t.Error(err)
					}
				default:
					if err := o.Run(t.Context(), nil, a); err != nil || a.ran != "fast" && a.ran != "plain" || a.ran == "fast" && a.class%2 != 0 {
						t.Errorf("class %d ran %q: %v", a.class, a.ran, err)
					}
					_ = o.Explain(a).String()
				}
			}
		})
	}
	wg.Wait()
}

// TestOneDecision: goroutines that meet a new signature together make one decision.
func TestOneDecision(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	_, o := toy(t, WithLogger(zap.New(core)))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _ = o.Run(t.Context(), nil, &toyArgs{class: 2}) })
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
		if err := o.Run(ctx, nil, a); err != nil {
			b.Fatal(err)
		}
	}
}
