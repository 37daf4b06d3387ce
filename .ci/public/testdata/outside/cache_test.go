package service_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"example.com/service"
	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/key"
	"github.com/goascend/cann/ops/setup"
)

func TestRemember(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	keys := make([]float32, 2*16)
	for i := range keys {
		keys[i] = float32(1 + i)
	}
	got, err := service.Remember(t.Context(), st, reg, keys, []int32{2, 0}, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(keys[16:], make([]float32, 16), keys[:16])
	if !slices.Equal(got, want) {
		t.Errorf("the cache is %v, not %v", got, want)
	}
}

func TestWorks(t *testing.T) {
	if err := service.Works(setup.Delta{Stack: setup.DeltaMegatron, Megatron: "0.15.3", KeyHeads: 16, ValueHeads: 32}); err == nil {
		t.Error("Megatron 0.15.3 has no delta nets")
	}
}

// TestGradient computes a gradient on a tape, with the kernel that a program's own check asks for.
func TestGradient(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	if err := reg.Linear().Register(ops.Kernel[ops.LinearArgs, key.Linear]{
		Name: "none", Supports: func(*ops.Env, key.Linear) error { return errors.New("it computes nothing") },
		Run: func(context.Context, *acl.Stream, *ops.LinearArgs) error { return nil },
	}); err != nil {
		t.Fatal(err)
	}
	w, err := aclnn.FromSlice(t.Context(), st, aclnn.Float32, []float32{1, 2}, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	x, err := aclnn.FromSlice(t.Context(), st, aclnn.Float32, []float32{3, 4}, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	dw, err := aclnn.New(st, aclnn.Float32, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer dw.Close()
	tape := autograd.New(t.Context(), st, reg, autograd.Options{})
	if err := tape.Backward(tape.Linear(tape.Input(x), autograd.NewParameter(w, dw), nil)); err != nil {
		t.Fatal(err)
	}
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 2)
	if err := aclnn.CopyFromDevice(t.Context(), st, got, dw); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []float32{3, 4}) {
		t.Errorf("the gradient is %v", got)
	}
}
