package resampling

import (
	"github.com/goascend/cann/internal/dtype"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// The second version of an operator computes what the first one does.
func TestSecondVersions(t *testing.T) {
	line, image := []int64{2, 3, 5}, []int64{2, 3, 4, 5}
	for _, d := range op.RealTypes {
		for _, c := range []struct {
			name    string
			x, y    []int64
			in      string
			further optest.Args
		}{
			{"UpsampleNearest1d", line, []int64{2, 3, 8}, "self", optest.Args{"outputSize": []int64{8}}},
			{"UpsampleNearest2d", image, []int64{2, 3, 7, 3}, "self", optest.Args{"outputSize": []int64{7, 3}}},
			{"UpsampleBilinear2dBackward", []int64{2, 3, 7, 3}, image, "gradOut", optest.Args{"outputSize": []int64{7, 3}, "inputSize": image}},
		} {
			if c.in == "gradOut" && d != dtype.Float32 && d != dtype.Float16 {
				continue // the first version has no such gradient
			}
			for _, l := range kerneltest.Layouts {
				want, got := optest.TensorIn(t, d, l, c.y), optest.TensorIn(t, d, l, c.y)
				a := c.further.With(optest.Args{c.in: optest.Filled(t, 1, d, l, c.x)})
				optest.Run(t, c.name, a.With(optest.Args{"out": want}))
				optest.Run(t, c.name+"V2", a.With(optest.Args{"out": got}))
				assert.Equal(t, optest.Values(want), optest.Values(got), "%s %v %v", c.name, d, l)
			}
		}
	}
}
