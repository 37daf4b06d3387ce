//go:build emu && linux && cgo

package service_test

import (
	"fmt"
	"slices"
	"testing"

	"example.com/service"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/emu"
)

func init() {
	err := emu.Register(&service.DoubleParams{}, func(c *emu.Call) (emu.Run, error) {
		x, out := c.Tensor("x"), c.Tensor("out")
		if !slices.Equal(x.Shape(), out.Shape()) {
			return nil, fmt.Errorf("%v and %v differ", x, out)
		}
		return func([]byte) error {
			values, err := emu.Load[float32](x)
			if err != nil {
				return err
			}
			for i := range values {
				values[i] *= 2
			}
			return emu.Store(out, values)
		}, nil
	})
	if err != nil {
		panic(err)
	}
}

// TestDouble: an operator that no CANN has runs on the emulator.
func TestDouble(t *testing.T) {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	x, err := aclnn.FromSlice(t.Context(), st, aclnn.Float32, []float32{1, 2, 3}, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := service.Double(st, service.DoubleParams{X: x, Out: x}); err != nil {
		t.Fatal(err)
	}
	got, err := aclnn.ToSlice[float32](t.Context(), st, x)
	if err != nil || !slices.Equal(got, []float32{2, 4, 6}) {
		t.Fatal(got, err)
	}
}
