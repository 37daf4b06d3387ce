package resampling

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// boxesAt returns n boxes with corners that every type holds.
func boxesAt(seed, n int) (boxes []float64) {
	for i := range n {
		x, y := float64((seed+3*i)%7), float64((seed*2+5*i)%9)
		boxes = append(boxes, x, y, x+float64(1+(i+seed)%4), y+float64(1+(2*i+seed)%5))
	}
	return boxes
}

// TestIou counts the cells of a fine grid that lie within boxes, in place of multiplying sides.
func TestIou(t *testing.T) {
	const cell = 8 // cells of a unit
	area := func(boxes ...[]float64) float64 {
		n := 0
		for x := range 12 * cell {
			for y := range 16 * cell {
				inside := true
				for _, b := range boxes {
					px, py := (float64(x)+0.5)/cell, (float64(y)+0.5)/cell
					inside = inside && b[0] < px && px < b[2] && b[1] < py && py < b[3]
				}
				if inside {
					n++
				}
			}
		}
		return float64(n) / cell / cell
	}
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, mode := range []string{"iou", "iof"} {
				for _, eps := range []float64{0, 0.5} {
					for _, aligned := range []bool{false, true} {
						m, n := 5, 7
						if aligned {
							m = n
						}
						first, second := boxesAt(1, m), boxesAt(4, n)
						shape := []int64{int64(m), int64(n)}
						if aligned {
							shape[1] = 1
						}
						out := optest.TensorIn(t, d, l, shape)
						optest.Run(t, "Iou", optest.Args{
							"bBoxes": optest.TensorIn(t, d, l, []int64{int64(m), 4}, first...), "gtBoxes": optest.TensorIn(t, d, l, []int64{int64(n), 4}, second...),
							"mode": mode, "eps": eps, "aligned": aligned, "overlap": out,
						})
						// A side is longer by eps, so that a box reaches that much further to the right and down.
						longer := func(b []float64) []float64 { return []float64{b[0], b[1], b[2] + eps, b[3] + eps} }
						var want []float64
						for i := range m {
							for j := range int(shape[1]) {
								if aligned {
									j = i
								}
								a, b := longer(first[4*i:]), longer(second[4*j:])
								whole := area(b)
								if mode == "iou" {
									whole += area(a) - area(a, b)
								}
								want = append(want, area(a, b)/whole)
							}
						}
						optest.CloseTo(t, fmt.Sprint(d, l, mode, eps, aligned), want, optest.Values(out), optest.ResultLimit(d))
					}
				}
			}
		}
	}
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f := dtype.Float32
	a := optest.Args{"bBoxes": x(f, 3, 4), "gtBoxes": x(f, 2, 4), "mode": "iou", "overlap": x(f, 3, 2)}
	for text, set := range map[string]optest.Args{
		"mode is":              {"mode": "giou"},
		"eps is":               {"eps": -1e-3},
		"eps is NaN":           {"eps": math.NaN()},
		"2 to 2 are supported": {"bBoxes": x(f, 1, 3, 4)},
		"two corners":          {"gtBoxes": x(f, 2, 5)},
		"dtypes differ":        {"overlap": x(dtype.Float16, 3, 2)},
		"not supported":        {"bBoxes": x(dtype.Int32, 3, 4)},
		"aligned boxes are as": {"aligned": true, "overlap": x(f, 3, 1)},
		"have one result each": {"aligned": true, "gtBoxes": x(f, 3, 4), "overlap": x(f, 3, 3)},
	} {
		optest.Refused(t, op.InvalidParam, "Iou", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "Iou", a.With(optest.Args{"gtBoxes": nil}), "gtBoxes is null")
	optest.Refused(t, op.NoStep, "Iou", a.With(optest.Args{"overlap": x(f, 2, 3)}), "must have shape [3,2]")
	kept := optest.Tensor(t, f, []int64{3, 2}, 7)
	optest.Run(t, "Iou", a.With(optest.Args{"gtBoxes": x(f, 0, 4), "overlap": kept}))
	optest.CloseTo(t, "no boxes", []float64{7, 7, 7, 7, 7, 7}, optest.Values(kept), 0)
}
