package quantization

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
)

// eightBitFloats are the floats to which an Ascend950 quantises.
var eightBitFloats = []dtype.Type{dtype.HiFloat8, dtype.Float8E5M2, dtype.Float8E4M3}

// floatQuantizer scales the lines of a tensor to the range of floats of eight bits, in the float32 steps of the
// Ascend950, so that the results have its bits.
type floatQuantizer struct {
	gemm.DynamicQuantizer         // what quantising to integers takes, but for Most
	most                  float32 // the largest number of the range
}

// largestOf returns the largest number of a range of type d. dstTypeMax is that of HiFloat8, unless it is 0.
func largestOf(c *op.Call, d dtype.Type) float32 {
	if d == dtype.HiFloat8 && c.Has("dstTypeMax") {
		if given := float32(c.Float("dstTypeMax")); given >= 0x1p-23 {
			return given
		}
	}
	return float32(minifloat.Largest(d))
}

// quantise sets y to the quantised x, and scale, and Offset if it has data, to one number for each line of x. Lines
// lie along the last dimension.
func (q floatQuantizer) quantise(y, scale, x kernel.View) error {
	v, err := minifloat.Read(x)
	if err != nil {
		return err
	}
	n := int(x.Shape[len(x.Shape)-1])
	if q.Smooth.Data != nil {
		if err := q.multiply(v, n); err != nil {
			return err
		}
	}
	if q.Whole {
		n = len(v)
	}
	var scales, offsets []float64
	for line := range slices.Chunk(v, n) {
		s, o := q.line(line)
		scales, offsets = append(scales, float64(s)), append(offsets, float64(o))
	}
	if err := elementwise.SetFloats(scale, scales); err != nil {
		return err
	}
	if q.Offset.Data != nil {
		if err := elementwise.SetFloats(q.Offset, offsets); err != nil {
			return err
		}
	}
	round := minifloat.Even
	if y.DType == dtype.HiFloat8 {
		round = minifloat.Away
	}
	return minifloat.Write(y, v, round)
}

// multiply multiplies lines of n numbers by the factors of their group. Lines after the last group keep their numbers.
func (q floatQuantizer) multiply(v []float64, n int) error {
	factors, err := elementwise.Floats(q.Smooth)
	if err != nil {
		return err
	}
	ends := q.Ends
	if ends == nil {
		ends = []int64{int64(len(v) / n)}
	}
	return op.EachGroup(ends, func(g int, first, lines int64) error {
		for i := range int(lines) * n {
			at := int(first)*n + i
			v[at] = float64(float32(v[at]) * factors[g*n+i%n])
		}
		return nil
	})
}

// line quantises a line and returns its scale and its offset. A line of one number has the scale 0 without symmetry,
// as zeros have with it: the quotients are then no numbers, and the device makes zeros of these.
func (q floatQuantizer) line(v []float64) (scale, offset float32) {
	symmetric := q.Offset.Data == nil
	lo, hi := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, x := range v {
		if symmetric {
			x = math.Abs(x)
		}
		if single := float32(x); !math.IsNaN(x) { // the device's maximum ignores NaN
			lo, hi = min(lo, single), max(hi, single)
		}
	}
	if symmetric {
		scale = hi * (1 / q.most)
	} else {
		scale = (hi - lo) * (1 / (2 * q.most))
		offset = q.most - hi/scale
	}
	for i, x := range v {
		quotient := float32(x) / scale
		v[i] = float64(quotient + offset)
	}
	return scale, offset
}
