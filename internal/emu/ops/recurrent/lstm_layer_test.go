package recurrent

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// One layer with separate weight arguments agrees with LSTM, which takes a list of weights.
func TestBidirectionLSTM(t *testing.T) {
	d := dtype.Float16
	for _, l := range kerneltest.Layouts {
		for _, s := range []struct{ times, batch, width, size int64 }{{1, 1, 1, 1}, {4, 2, 3, 5}} {
			for directions := range int64(2) {
				directions++
				for _, biased := range []bool{false, true} {
					what := fmt.Sprintf("%v %+v directions %d bias %v", l, s, directions, biased)
					x := optest.Filled(t, 1, d, l, []int64{s.times, s.batch, s.width})
					h, cell := optest.Filled(t, 2, d, l, []int64{directions, s.batch, s.size}), optest.Filled(t, 3, d, l, []int64{directions, s.batch, s.size})
					var params []*op.Tensor
					set := optest.Args{"x": x, "initH": h, "initC": cell, "numLayers": 1, "isbias": biased, "bidirection": directions == 2}
					for i, name := range []string{"wIh", "wHh", "bIhOptional", "bHhOptional", "wIhReverseOptional", "wHhReverseOptional", "bIhReverseOptional", "bHhReverseOptional"} {
						shape := [][]int64{{4 * s.size, s.width}, {4 * s.size, s.size}, {4 * s.size}, {4 * s.size}}[i%4]
						if int64(i/4) < directions && (biased || i%4 < 2) {
							set[name] = optest.Filled(t, uint64(4+i), d, l, shape)
							params = append(params, set[name].(*op.Tensor))
						}
					}
					result := func() (y, hy, cy *op.Tensor) {
						return optest.TensorIn(t, d, l, []int64{s.times, s.batch, directions * s.size}), optest.TensorIn(t, d, l, h.Shape), optest.TensorIn(t, d, l, h.Shape)
					}
					y, hy, cy := result()
					optest.Run(t, "LSTM", optest.Args{
						"input": x, "params": params, "hx": []*op.Tensor{h, cell}, "hasBias": biased, "numLayers": 1, "bidirectional": directions == 2, "output": y, "hy": hy, "cy": cy,
					})
					for _, name := range []string{"BidirectionLSTM", "BidirectionLSTMV2"} {
						gotY, gotH, gotC := result()
						set["yOut"], set["outputHOut"], set["outputCOut"] = gotY, gotH, gotC
						optest.Run(t, name, set)
						optest.CloseTo(t, what, optest.Values(y), optest.Values(gotY), 0)
						optest.CloseTo(t, what, optest.Values(hy), optest.Values(gotH), 0)
						optest.CloseTo(t, what, optest.Values(cy), optest.Values(gotC), 0)
					}
					set["packed"] = true
					optest.Refused(t, op.InvalidParam, "BidirectionLSTMV2", set, "packed is true")
					delete(set, "packed")
					set["numLayers"] = 2
					optest.Refused(t, op.InvalidParam, "BidirectionLSTM", set, "numLayers is 2")
					set["numLayers"], set["wHh"] = 1, nil
					optest.Refused(t, op.NullPointer, "BidirectionLSTM", set, "wHh is null")
				}
			}
		}
	}
}
