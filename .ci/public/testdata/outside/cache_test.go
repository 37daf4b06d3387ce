package service_test

import (
	"slices"
	"testing"

	"example.com/service"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/ops"
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
