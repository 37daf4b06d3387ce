package nn

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/rt"
)

// quantParams pack scales into the 64-bit form that quantised products take.
var quantParams = table{"TransQuantParamV2": transQuantParam, "TransQuantParamV3": transQuantParam}

// packScale is a scale of 19 bits in the low half, with bit 46 set, and an offset of nine
// bits, if there is one, from bit 37 on. With rounding, the 13 bits that are lost round.
func packScale(scale float32, offset *float32, rounding bool) uint64 {
	const lost = 13
	bits := math.Float32bits(scale)
	if rounding {
		bits += 1<<(lost-1) - 1 + bits>>lost&1
	}
	packed := uint64(bits&^(1<<lost-1)) | 1<<46
	if offset != nil {
		whole := int64(min(max(math.RoundToEven(float64(*offset)), -256), 255))
		packed |= uint64(whole&0x1ff) << 37
	}
	return packed
}

func transQuantParam(c *Call) (Run, error) {
	scale, offset, out := c.Tensor("scale"), c.Optional("offset"), c.Tensor("out")
	rounding := false
	if c.Has("roundMode") {
		mode := c.Int("roundMode")
		if mode != 0 && mode != 1 {
			c.Invalid("roundMode %d is unknown; 0 cuts, 1 rounds", mode)
		}
		rounding = mode == 1
	}
	c.plain(scale, out)
	c.DType(scale, dtype.Float32)
	c.DType(out, dtype.Uint64, dtype.Int64)
	c.Rank(scale, 1, 2)
	want := scale.Shape
	if offset != nil {
		c.plain(offset)
		c.DType(offset, dtype.Float32)
		c.Rank(offset, 1, 2)
		joined, ok := broadcastShape(scale.Shape, offset.Shape)
		if want = joined; !ok || scale.Rank() == 2 && !slices.Equal(joined, scale.Shape) {
			c.Invalid("%v and %v do not go together; an offset has one element or as many as there are scales", scale, offset)
		}
	}
	c.Shape(out, want, "that of scale and offset")
	if scale.Len() == 0 {
		c.Invalid("%v is empty", scale)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		scales, err := spread(scale, want)
		if err != nil {
			return err
		}
		var offsets []float32
		if offset != nil {
			if offsets, err = spread(offset, want); err != nil {
				return err
			}
		}
		packed := make([]int64, len(scales))
		for i, s := range scales {
			var o *float32
			if offset != nil {
				o = &offsets[i]
			}
			packed[i] = int64(packScale(s, o, rounding))
		}
		return kernel.SetInts(out.View(), packed)
	}, nil
}

// spread reads a tensor that broadcasts to a shape.
func spread(t *Tensor, shape []int64) ([]float32, error) {
	v, err := t.View().Broadcast(shape)
	if err != nil {
		return nil, err
	}
	return kernel.Floats(v)
}

// packParams answers aclnnTransQuantParam(scaleArray, scaleSize, offsetArray, offsetSize,
// quantParam, quantParamSize), which works on host memory; the caller frees what it gets.
func (l *Library) packParams(t *rt.Thread, a []uint64) uint64 {
	refuse := func(code int32, text string) uint64 {
		return l.fail(t, &Error{Code: code, Text: "aclnnTransQuantParam: " + text})
	}
	if a[0] == 0 || a[4] == 0 || a[5] == 0 {
		return refuse(nullPointer, "scaleArray, quantParam or quantParamSize is null")
	}
	scales, offsets := rt.Read[float32](a[0], a[1]), []float32(nil)
	if a[2] != 0 {
		offsets = rt.Read[float32](a[2], a[3])
	}
	if len(scales) == 0 || a[2] != 0 && len(offsets) == 0 {
		return refuse(invalidParam, "scaleSize or offsetSize is 0")
	}
	n := max(len(scales), len(offsets))
	if len(scales) != 1 && len(scales) != n || len(offsets) > 1 && len(offsets) != n {
		return refuse(invalidParam, fmt.Sprintf("%d scales and %d offsets; one of them has one element, or both as many", len(scales), len(offsets)))
	}
	p := rt.Malloc(8 * n)
	packed := unsafe.Slice((*uint64)(p), n)
	for i := range packed {
		var offset *float32
		if offsets != nil {
			offset = &offsets[min(i, len(offsets)-1)]
		}
		packed[i] = packScale(scales[min(i, len(scales)-1)], offset, false)
	}
	rt.Write(a[4], p)
	rt.Write(a[5], uint64(n))
	return 0
}
