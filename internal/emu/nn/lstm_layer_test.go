package nn

import (
	"fmt"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// One layer with weights as arguments is LSTM with a list of them.
func TestBidirectionLSTM(t *testing.T) {
	d := dtype.Float16
	for _, l := range kerneltest.Layouts {
		for _, s := range []struct{ times, batch, width, size int64 }{{1, 1, 1, 1}, {4, 2, 3, 5}} {
			for directions := range int64(2) {
				directions++
				for _, biased := range []bool{false, true} {
					what := fmt.Sprintf("%v %+v directions %d bias %v", l, s, directions, biased)
					x := filled(t, 1, d, l, []int64{s.times, s.batch, s.width})
					h, cell := filled(t, 2, d, l, []int64{directions, s.batch, s.size}), filled(t, 3, d, l, []int64{directions, s.batch, s.size})
					var params []*Tensor
					set := args{"x": x, "initH": h, "initC": cell, "numLayers": 1, "isbias": biased, "bidirection": directions == 2}
					for i, name := range []string{"wIh", "wHh", "bIhOptional", "bHhOptional", "wIhReverseOptional", "wHhReverseOptional", "bIhReverseOptional", "bHhReverseOptional"} {
						shape := [][]int64{{4 * s.size, s.width}, {4 * s.size, s.size}, {4 * s.size}, {4 * s.size}}[i%4]
						if int64(i/4) < directions && (biased || i%4 < 2) {
							set[name] = filled(t, uint64(4+i), d, l, shape)
							params = append(params, set[name].(*Tensor))
						}
					}
					result := func() (y, hy, cy *Tensor) {
						return tensorIn(t, d, l, []int64{s.times, s.batch, directions * s.size}), tensorIn(t, d, l, h.Shape), tensorIn(t, d, l, h.Shape)
					}
					y, hy, cy := result()
					run(t, "LSTM", args{
						"input": x, "params": params, "hx": []*Tensor{h, cell}, "hasBias": biased, "numLayers": 1, "bidirectional": directions == 2, "output": y, "hy": hy, "cy": cy,
					})
					for _, name := range []string{"BidirectionLSTM", "BidirectionLSTMV2"} {
						gotY, gotH, gotC := result()
						set["yOut"], set["outputHOut"], set["outputCOut"] = gotY, gotH, gotC
						run(t, name, set)
						closeTo(t, what, values(y), values(gotY), 0)
						closeTo(t, what, values(hy), values(gotH), 0)
						closeTo(t, what, values(cy), values(gotC), 0)
					}
					set["packed"] = true
					refused(t, invalidParam, "BidirectionLSTMV2", set, "packed is true")
					delete(set, "packed")
					set["numLayers"] = 2
					refused(t, invalidParam, "BidirectionLSTM", set, "numLayers is 2")
					set["numLayers"], set["wHh"] = 1, nil
					refused(t, nullPointer, "BidirectionLSTM", set, "wHh is null")
				}
			}
		}
	}
}
