package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// SliceToNZArgs make a weight in FRACTAL_NZ from a buffer of gathered shards: the columns of
// all ranks are joined, rank after rank, and the first elements that fill Out are stored in
// its tiles.
type SliceToNZArgs struct {
	Gathered   *aclnn.Tensor // [ranks, total], contiguous, an 8-, 16- or 32-bit dtype
	Start, End int64         // columns [Start, End)
	Out        *aclnn.Tensor // [..., K, N] in FRACTAL_NZ (AsNZ), not transposed
	// Moved is set by Run: the bytes that the queued launches read and write.
	Moved int
}

// nzTypes are the element types that have a FRACTAL_NZ form here.
var nzTypes = []aclnn.DType{
	aclnn.Float16, aclnn.BFloat16, aclnn.Float32, aclnn.Int8, aclnn.Uint8, aclnn.Int32, aclnn.Uint32,
}

func (a *SliceToNZArgs) validate() error {
	var c check
	c.tensor("Gathered", a.Gathered, nzTypes...)
	if !c.ok() {
		return c.err
	}
	c.contiguous("Gathered", a.Gathered)
	if a.Gathered.Rank() != 2 {
		c.fail("Gathered is %v; it must be [ranks, total]", a.Gathered)
	}
	c.weight("Out", a.Out, a.Gathered.DType())
	switch {
	case !c.ok():
	case a.Out.Format() != aclnn.FractalNZ || !a.Out.Contiguous():
		c.fail("Out is %v; it must be in FRACTAL_NZ and not transposed", a.Out)
	case a.Start < 0 || a.End < a.Start || a.End > a.Gathered.Dim(1):
		c.fail("columns %d to %d do not lie in Gathered %v", a.Start, a.End, a.Gathered)
	case a.slice() < a.Out.Len():
		c.fail("columns %d to %d of Gathered %v hold %d elements, Out %v has %d", a.Start, a.End, a.Gathered, a.slice(), a.Out, a.Out.Len())
	}
	return c.err
}

// slice is the number of elements in the columns.
func (a *SliceToNZArgs) slice() int64 { return a.Gathered.Dim(0) * (a.End - a.Start) }

// tiles is the size of the storage of Out.
func (a *SliceToNZArgs) tiles() int { return aclnn.NZBytes(a.Out.DType(), a.Out.Shape()...) }

// kernel counts traffic from zero, and leaves out empty work, which CANN's casts refuse.
func (a *SliceToNZArgs) kernel(body func(s *steps)) func(st *acl.Stream) error {
	return func(st *acl.Stream) error {
		if a.Moved = 0; a.Out.Len() == 0 {
			return nil
		}
		return compose(st, body)
	}
}

// columns copies the columns to out.
func (a *SliceToNZArgs) columns(s *steps, out *aclnn.Tensor) {
	s.store(out.Reshape(a.Gathered.Dim(0), a.End-a.Start), a.Gathered.Narrow(1, a.Start, a.End-a.Start))
	a.Moved += 2 * out.Bytes()
}

// sliced is the weight in ND in a scratch tensor.
func (a *SliceToNZArgs) sliced(s *steps) *aclnn.Tensor {
	joined := s.tensor(a.Out.DType(), a.slice())
	a.columns(s, joined)
	return joined.Narrow(0, 0, a.Out.Len()).Reshape(a.Out.Shape()...)
}

// newSliceToNZ prefers one pass over slicing and casting. All kernels make the same bytes.
func newSliceToNZ(reg *Registry) *Op[SliceToNZArgs] {
	return op(reg, "slice_to_nz", (*SliceToNZArgs).validate,
		func(a *SliceToNZArgs) Signature { return dtypeSignature(a.Out) },
		Kernel[SliceToNZArgs]{
			Name: "SliceNz", Supports: has[SliceToNZArgs](&aclnn.SliceNzParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *SliceToNZArgs) error {
				return a.kernel(func(s *steps) {
					launch(s, aclnn.SliceNz, aclnn.SliceNzParams{Self: a.Gathered, Dim: 1, Start: a.Start, End: a.End, Out: a.Out})
					a.Moved += a.Out.Bytes() + a.tiles()
				})(st)
			},
		},
		Kernel[SliceToNZArgs]{
			Name: "NpuFormatCast", Supports: has[SliceToNZArgs](&aclnn.NpuFormatCastParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *SliceToNZArgs) error {
				return a.kernel(func(s *steps) {
					launch(s, aclnn.NpuFormatCast, aclnn.NpuFormatCastParams{SrcTensor: a.sliced(s), DstTensor: a.Out})
					a.Moved += a.Out.Bytes() + a.tiles()
				})(st)
			},
		},
		Kernel[SliceToNZArgs]{
			Name: "TransMatmulWeight",
			Supports: func(_ *Env, a *SliceToNZArgs) error {
				if dt := a.Out.DType(); !is16(dt) && dt != aclnn.Int8 {
					return errors.New("it takes 16-bit floats and int8 only")
				}
				return available(&aclnn.TransMatmulWeightParams{})
			},
			Run: func(_ context.Context, st *acl.Stream, a *SliceToNZArgs) error {
				return a.kernel(func(s *steps) {
					weight := a.Out.AsND()
					if a.slice() == a.Out.Len() {
						a.columns(s, weight)
					} else {
						s.store(weight, a.sliced(s))
						a.Moved += 2 * weight.Bytes()
					}
					// It casts into its workspace, and copies that back over the weight.
					launch(s, aclnn.TransMatmulWeight, aclnn.TransMatmulWeightParams{MmWeightRef: weight})
					a.Moved += weight.Bytes() + 3*a.tiles()
				})(st)
			},
		})
}
