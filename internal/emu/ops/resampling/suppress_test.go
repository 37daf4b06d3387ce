package resampling

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// suppressed chooses boxes by definition: it takes the best box that is left and drops all that overlap it.
func suppressed(boxes [][4]float64, scores []float64, limit int, overlap, least float64) (chosen []int) {
	left := make([]bool, len(boxes))
	for i := range left {
		left[i] = scores[i] > least
	}
	area := func(b [4]float64) float64 { return (b[2] - b[0]) * (b[3] - b[1]) }
	for len(chosen) < limit {
		best := -1
		for i := range boxes {
			if left[i] && (best < 0 || scores[i] > scores[best]) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		chosen = append(chosen, best)
		for i, b := range boxes {
			a := boxes[best]
			common := [4]float64{max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])}
			inside := 0.0
			if common[2] > common[0] && common[3] > common[1] {
				inside = area(common)
			}
			if i == best || inside/(area(a)+area(b)-inside) > overlap {
				left[i] = false
			}
		}
	}
	return chosen
}

func TestNonMaxSuppression(t *testing.T) {
	const images, classes, n = 2, 3, 9
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, overlap := range []float64{0, 0.3, 1} {
				for _, limit := range []int64{0, 2, 20} {
					for _, centre := range []int{0, 1} {
						var corners, given, points []float64
						for i := range images * n { // sizes and places that float16 holds
							y, x, h, w := float64(i*5%8), float64(i*3%7), float64(1+i%4*2), float64(2+i%3*2)
							corners = append(corners, y, x, y+h, x+w)
							given = append(given, y, x, y+h, x+w)
							if centre == 1 {
								copy(given[4*i:], []float64{y + h/2, x + w/2, h, w})
							}
						}
						for i := range images * classes * n {
							points = append(points, float64(i*37%53)/64)
						}
						rows := int64(images * classes * 4)
						out := optest.Tensor(t, dtype.Int32, []int64{rows, 3})
						optest.RunOn(t, acceptance.Ascend310P, "NonMaxSuppression", optest.Args{
							"boxes": optest.TensorIn(t, d, l, []int64{images, n, 4}, given...), "scores": optest.TensorIn(t, d, l, []int64{images, classes, n}, points...),
							"maxOutputBoxesPerClass": []int64{limit}, "iouThreshold": []float32{float32(overlap)}, "scoreThreshold": []float32{0.25}, "centerPointBox": centre, "selectedIndices": out,
						})
						var want []float64
						for i := range images {
							var boxes [][4]float64
							for k := range n {
								boxes = append(boxes, [4]float64(corners[4*(i*n+k):]))
							}
							for c := range classes {
								for _, box := range suppressed(boxes, points[(i*classes+c)*n:][:n], int(limit), float64(float32(overlap)), 0.25) {
									want = append(want, float64(i), float64(c), float64(box))
								}
							}
						}
						for int64(len(want)) < 3*rows {
							want = append(want, -1)
						}
						require.Equal(t, want[:3*rows], optest.Values(out), fmt.Sprintf("%v %v overlap %g limit %d form %d", d, l, overlap, limit, centre))
					}
				}
			}
		}
	}
}

func TestNonMaxSuppressionRefuses(t *testing.T) {
	f := dtype.Float32
	a := optest.Args{
		"boxes": optest.Tensor(t, f, []int64{1, 2, 4}, 0, 0, 1, 1), "scores": optest.Tensor(t, f, []int64{1, 1, 2}, 1), "maxOutputBoxesPerClass": []int64{3}, "iouThreshold": []float32{0.5}, "scoreThreshold": []float32{0},
		"selectedIndices": optest.Tensor(t, dtype.Int32, []int64{3, 3}),
	}
	for text, c := range map[string]struct {
		set  optest.Args
		code int32
	}{
		"boxes is null":          {optest.Args{"boxes": nil}, op.NullPointer},
		"maxOutputBoxesPerClass": {optest.Args{"maxOutputBoxesPerClass": []int64{701}}, op.InvalidParam},
		"iouThreshold is 1.5":    {optest.Args{"iouThreshold": []float32{1.5}}, op.InvalidParam},
		"scoreThreshold is 2":    {optest.Args{"scoreThreshold": []float32{2}}, op.InvalidParam},
		"centerPointBox":         {optest.Args{"centerPointBox": 2}, op.InvalidParam},
		"dtypes differ":          {optest.Args{"scores": optest.Tensor(t, dtype.Float16, []int64{1, 1, 2}, 1)}, op.InvalidParam},
		"must have rows":         {optest.Args{"selectedIndices": optest.Tensor(t, dtype.Int32, []int64{9})}, op.InvalidParam},
	} {
		_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend310P}, "NonMaxSuppression", a.With(c.set))
		var e *op.Error
		require.ErrorAs(t, err, &e, text)
		require.Equal(t, c.code, e.Code, e.Text)
		require.Contains(t, e.Text, text)
	}
}
