package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestChamferDistanceBackward(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ batch, n, m int64 }{{1, 1, 1}, {2, 5, 3}, {3, 2, 7}} {
				what := fmt.Sprintf("%v %v %+v", d, l, s)
				a, b := filled(t, 1, d, l, []int64{s.batch, s.n, 2}), filled(t, 2, d, l, []int64{s.batch, s.m, 2})
				place := func(n, of int64) (v []float64) {
					for i := range s.batch * n {
						v = append(v, float64((3*i+1)%of))
					}
					return v
				}
				ab, ba := tensorIn(t, dtype.Int32, l, []int64{s.batch, s.n}, place(s.n, s.m)...), tensorIn(t, dtype.Int32, l, []int64{s.batch, s.m}, place(s.m, s.n)...)
				dab, dba := filled(t, 3, d, l, ab.Shape), filled(t, 4, d, l, ba.Shape)
				da, db := tensorIn(t, d, l, a.Shape), tensorIn(t, d, l, b.Shape)
				run(t, "ChamferDistanceBackward", args{"xyz1": a, "xyz2": b, "idx1": ab, "idx2": ba, "gradDist1": dab, "gradDist2": dba, "gradXyz1": da, "gradXyz2": db})
				// The distances that the indices name, as one vector.
				distances := func(p, q []float64) (out []float64) {
					for _, side := range []struct {
						x, y  []float64
						n, m  int64
						index *Tensor
					}{{p, q, s.n, s.m, ab}, {q, p, s.m, s.n, ba}} {
						for i, k := range values(side.index) {
							j := int64(i)/side.n*side.m + int64(k)
							u, v := side.x[2*i]-side.y[2*j], side.x[2*i+1]-side.y[2*j+1]
							out = append(out, u*u+v*v)
						}
					}
					return out
				}
				dy := append(values(dab), values(dba)...)
				closeTo(t, what, gradient(func(v []float64) []float64 { return distances(v, values(b)) }, dy, values(a)), values(da), 2*max(resultLimit(d), 1e-6))
				closeTo(t, what, gradient(func(v []float64) []float64 { return distances(values(a), v) }, dy, values(b)), values(db), 2*max(resultLimit(d), 1e-6))
			}
		}
	}
	f := dtype.Float32
	a, index, g := tensor(t, f, []int64{1, 2, 2}, 1), tensor(t, dtype.Int32, []int64{1, 2}, 2), tensor(t, f, []int64{1, 2}, 1)
	set := args{"xyz1": a, "xyz2": a, "idx1": index, "idx2": index, "gradDist1": g, "gradDist2": g, "gradXyz1": a, "gradXyz2": a}
	assert.ErrorContains(t, execute(t, "ChamferDistanceBackward", set), "index 2 at position 0")
	set["gradDist1"] = tensor(t, f, []int64{1, 3}, 1)
	refused(t, invalidParam, "ChamferDistanceBackward", set, "a gradient for each point")
	set["xyz2"] = nil
	refused(t, nullPointer, "ChamferDistanceBackward", set, "xyz2 is null")
}
