package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// SliceToNZArgs describes how a weight in FRACTAL_NZ is made from a buffer of gathered shards: the
// columns [Start, End) of all ranks are concatenated in rank order, and the first elements that
// fill Out are stored in its tiles.
type SliceToNZArgs struct {
	Gathered   *aclnn.Tensor // [ranks, total], contiguous, an 8-, 16- or 32-bit dtype
	Start, End int64         // columns [Start, End)
	Out        *aclnn.Tensor // [..., K, N] in FRACTAL_NZ (AsNZ), not transposed
}

// nzTypes are the element types for which FRACTAL_NZ is supported here.
var nzTypes = []aclnn.DType{
	aclnn.Float16, aclnn.BFloat16, aclnn.Float32, aclnn.Int8, aclnn.Uint8, aclnn.Int32, aclnn.Uint32,
}

func (a *SliceToNZArgs) validate() error {
	var c args
	c.Tensor("Gathered", a.Gathered, nzTypes...)
	if !c.OK() {
		return c.Err
	}
	c.Contiguous("Gathered", a.Gathered)
	if a.Gathered.Rank() != 2 {
		c.Fail("Gathered is %v; it must be [ranks, total]", a.Gathered)
	}
	c.weight("Out", a.Out, a.Gathered.DType())
	switch {
	case !c.OK():
	case a.Out.Format() != aclnn.FractalNZ || !a.Out.Contiguous():
		c.Fail("Out is %v; it must be in FRACTAL_NZ and not transposed", a.Out)
	case a.Start < 0 || a.End < a.Start || a.End > a.Gathered.Dim(1):
		c.Fail("columns %d to %d do not lie in Gathered %v", a.Start, a.End, a.Gathered)
	case a.slice() < a.Out.Len():
		c.Fail("columns %d to %d of Gathered %v hold %d elements, Out %v has %d", a.Start, a.End, a.Gathered, a.slice(), a.Out, a.Out.Len())
	}
	return c.Err
}

// slice returns the number of elements in the columns.
func (a *SliceToNZArgs) slice() int64 { return a.Gathered.Dim(0) * (a.End - a.Start) }

// tiles returns the size of Out's storage.
func (a *SliceToNZArgs) tiles() int { return aclnn.NZBytes(a.Out.DType(), a.Out.Shape()...) }

// Traffic returns how many bytes the launches of a kernel read and write, from its name. A kernel that is
// not of this package counts as one that reads and writes every element once.
func (a *SliceToNZArgs) Traffic(kernel string) int {
	slice := 2 * a.Out.DType().Bytes(int(a.slice()))
	switch {
	case a.Out.Len() == 0:
		return 0
	case kernel == "NpuFormatCast":
		return slice + a.Out.Bytes() + a.tiles()
	case kernel == "TransMatmulWeight":
		n := slice + a.Out.AsND().Bytes() + 3*a.tiles()
		if a.slice() != a.Out.Len() {
			n += 2 * a.Out.AsND().Bytes()
		}
		return n
	}
	return a.Out.Bytes() + a.tiles()
}

// kernel skips empty work, which CANN's casts refuse.
func (a *SliceToNZArgs) kernel(st *acl.Stream, body func(s *steps)) error {
	if a.Out.Len() == 0 {
		return nil
	}
	return compose(st, body)
}

// columns copies the columns to out.
func (a *SliceToNZArgs) columns(s *steps, out *aclnn.Tensor) {
	s.Copy(out.Reshape(a.Gathered.Dim(0), a.End-a.Start), a.Gathered.Narrow(1, a.Start, a.End-a.Start))
}

// sliced returns the weight in ND in a scratch tensor.
func (a *SliceToNZArgs) sliced(s *steps) *aclnn.Tensor {
	gathered := s.Tensor(a.Out.DType(), a.slice())
	a.columns(s, gathered)
	return gathered.Narrow(0, 0, a.Out.Len()).Reshape(a.Out.Shape()...)
}

func (a *SliceToNZArgs) key() key.SliceToNZ {
	k, n, block := a.Out.Dim(-2), a.Out.Dim(-1), aclnn.NZBlock(a.Out.DType())
	return key.SliceToNZ{
		DType: a.Out.DType(), Ranks: a.Gathered.Dim(0), Batch: rowCount(a.Out) / max(k, 1), K: k, N: n,
		Whole: a.slice() == a.Out.Len(), Aligned: a.Start%block == 0 && a.End%block == 0,
	}
}

// newSliceToNZ prefers one pass to slicing and casting. All kernels write the same bytes.
func newSliceToNZ(reg *Registry) *Op[SliceToNZArgs, key.SliceToNZ] {
	return op(reg, "slice_to_nz", (*SliceToNZArgs).validate, (*SliceToNZArgs).key,
		Kernel[SliceToNZArgs, key.SliceToNZ]{
			Name: "SliceNz", Supports: has[key.SliceToNZ](&aclnn.SliceNzParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *SliceToNZArgs) error {
				return a.kernel(st, func(s *steps) {
					launch(s, aclnn.SliceNz, aclnn.SliceNzParams{Self: a.Gathered, Dim: 1, Start: a.Start, End: a.End, Out: a.Out})
				})
			},
		},
		Kernel[SliceToNZArgs, key.SliceToNZ]{
			Name: "NpuFormatCast", Supports: has[key.SliceToNZ](&aclnn.NpuFormatCastParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *SliceToNZArgs) error {
				return a.kernel(st, func(s *steps) {
					launch(s, aclnn.NpuFormatCast, aclnn.NpuFormatCastParams{SrcTensor: a.sliced(s), DstTensor: a.Out})
				})
			},
		},
		Kernel[SliceToNZArgs, key.SliceToNZ]{
			Name: "TransMatmulWeight",
			Supports: func(_ *Env, k key.SliceToNZ) error {
				if !is16(k.DType) && k.DType != aclnn.Int8 {
					return errors.New("it takes 16-bit floats and int8 only")
				}
				return available(&aclnn.TransMatmulWeightParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *SliceToNZArgs) error {
				return a.kernel(st, func(s *steps) {
					weight := a.Out.AsND()
					if a.slice() == a.Out.Len() {
						a.columns(s, weight)
					} else {
						s.Copy(weight, a.sliced(s))
					}
					// The operator casts into its workspace and copies the result over the weight.
					launch(s, aclnn.TransMatmulWeight, aclnn.TransMatmulWeightParams{MmWeight: weight})
				})
			},
		})
}
