package linalg

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestChamferDistanceBackward(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ batch, n, m int64 }{{1, 1, 1}, {2, 5, 3}, {3, 2, 7}} {
				what := fmt.Sprintf("%v %v %+v", d, l, s)
				a, b := optest.Filled(t, 1, d, l, []int64{s.batch, s.n, 2}), optest.Filled(t, 2, d, l, []int64{s.batch, s.m, 2})
				place := func(n, of int64) (v []float64) {
					for i := range s.batch * n {
						v = append(v, float64((3*i+1)%of))
					}
					return v
				}
				ab, ba := optest.TensorIn(t, dtype.Int32, l, []int64{s.batch, s.n}, place(s.n, s.m)...), optest.TensorIn(t, dtype.Int32, l, []int64{s.batch, s.m}, place(s.m, s.n)...)
				dab, dba := optest.Filled(t, 3, d, l, ab.Shape), optest.Filled(t, 4, d, l, ba.Shape)
				da, db := optest.TensorIn(t, d, l, a.Shape), optest.TensorIn(t, d, l, b.Shape)
				optest.Run(t, "ChamferDistanceBackward", optest.Args{"xyz1": a, "xyz2": b, "idx1": ab, "idx2": ba, "gradDist1": dab, "gradDist2": dba, "gradXyz1": da, "gradXyz2": db})
				// Collect the distances at the returned indices in one vector.
				distances := func(p, q []float64) (out []float64) {
					for _, side := range []struct {
						x, y  []float64
						n, m  int64
						index *op.Tensor
					}{{p, q, s.n, s.m, ab}, {q, p, s.m, s.n, ba}} {
						for i, k := range optest.Values(side.index) {
							j := int64(i)/side.n*side.m + int64(k)
							u, v := side.x[2*i]-side.y[2*j], side.x[2*i+1]-side.y[2*j+1]
							out = append(out, u*u+v*v)
						}
					}
					return out
				}
				dy := append(optest.Values(dab), optest.Values(dba)...)
				optest.CloseTo(t, what, optest.Gradient(func(v []float64) []float64 { return distances(v, optest.Values(b)) }, dy, optest.Values(a)), optest.Values(da), 2*max(optest.ResultLimit(d), 1e-6))
				optest.CloseTo(t, what, optest.Gradient(func(v []float64) []float64 { return distances(optest.Values(a), v) }, dy, optest.Values(b)), optest.Values(db), 2*max(optest.ResultLimit(d), 1e-6))
			}
		}
	}
	f := dtype.Float32
	a, index, g := optest.Tensor(t, f, []int64{1, 2, 2}, 1), optest.Tensor(t, dtype.Int32, []int64{1, 2}, 2), optest.Tensor(t, f, []int64{1, 2}, 1)
	set := optest.Args{"xyz1": a, "xyz2": a, "idx1": index, "idx2": index, "gradDist1": g, "gradDist2": g, "gradXyz1": a, "gradXyz2": a}
	assert.ErrorContains(t, optest.Execute(t, "ChamferDistanceBackward", set), "index 2 at position 0")
	set["gradDist1"] = optest.Tensor(t, f, []int64{1, 3}, 1)
	optest.Refused(t, op.InvalidParam, "ChamferDistanceBackward", set, "a gradient for each point")
	set["xyz2"] = nil
	optest.Refused(t, op.NullPointer, "ChamferDistanceBackward", set, "xyz2 is null")
}
