package nn

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
)

// rotary are rotations of pairs of the last dimension by angles of positions.
var rotary = table{
	"RotaryPositionEmbedding": rotaryPositionEmbedding, "InterleaveRope": rotaryPositionEmbedding,
	"RotaryPositionEmbeddingGrad": rotaryGrad,
	"ApplyRotaryPosEmb":           applyRotary, "ApplyRotaryPosEmbV2": applyRotary, "RopeWithSinCosCache": cachedRotary,
}

// angles checks cos and sin for the heads of x.
func (c *Call) angles(cos, sin, x *Tensor, mode kernel.RotaryMode) {
	c.plain(x, cos, sin)
	c.DType(x, transformerTypes...)
	c.Same(cos, sin)
	c.SameDType(x, cos)
	if c.Err() != nil {
		return
	}
	if !broadcasts(cos.Shape, x.Shape) || cos.Dim(-1) != x.Dim(-1) {
		c.Invalid("%v must have the head dim of %v and broadcast to it in the other dimensions", cos, x)
	}
	if mode < 0 || mode > kernel.RotaryInterleaveHalf {
		c.Invalid("mode %d is unknown; 0 is half, 1 interleave, 2 quarter, 3 interleave-half", mode)
	}
	if d := x.Dim(-1); d%2 != 0 || mode == kernel.RotaryQuarter && d%4 != 0 {
		c.Invalid("the head dim of %v does not fit mode %d, which rotates pairs", x, mode)
	}
}

// rotaryPositionEmbedding rotates pairs of the last dimension of x; cos and sin broadcast to
// it in the others.
func rotaryPositionEmbedding(c *Call) (Run, error) {
	x, cos, sin, out := c.Tensor("x"), c.Tensor("cos"), c.Tensor("sin"), c.Tensor("out")
	mode := kernel.RotaryInterleaveHalf
	if c.Has("mode") {
		mode = kernel.RotaryMode(c.Int("mode"))
	}
	c.Rank(x, 3, 4)
	c.Same(x, out)
	c.angles(cos, sin, x, mode)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return kernel.Rotary(out.View(), x.View(), cos.View(), sin.View(), mode)
	}, nil
}

// rotaryGrad is the gradient of rotaryPositionEmbedding; those of the angles need x.
func rotaryGrad(c *Call) (Run, error) {
	dy, cos, sin, x := c.Tensor("dy"), c.Tensor("cos"), c.Tensor("sin"), c.Optional("xOptional")
	dx, mode := c.Tensor("dxOut"), kernel.RotaryMode(c.Int("mode"))
	var dcos, dsin *Tensor
	c.plain(dx)
	c.Rank(dy, 4, 4)
	c.Same(dy, dx)
	c.angles(cos, sin, dy, mode)
	if x != nil {
		dcos, dsin = c.Tensor("dcosOut"), c.Tensor("dsinOut")
		c.plain(x, dcos, dsin)
		c.Same(dy, x)
		c.Same(cos, dcos, dsin)
	}
	c.Rank(cos, dy.Rank(), dy.Rank())
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if dy.Len() == 0 {
			return zeroAll(dcos, dsin)
		}
		return kernel.RotaryGrad(dx.View(), optionalView(dcos), optionalView(dsin), dy.View(), optionalView(x), cos.View(), sin.View(), mode)
	}, nil
}

// rotaryModes are the values of rotaryMode.
var rotaryModes = map[string]kernel.RotaryMode{"": kernel.RotaryHalf, "half": kernel.RotaryHalf, "quarter": kernel.RotaryQuarter, "interleave": kernel.RotaryInterleave}

// applyRotary rotates queries and keys in place. The layouts, 1 (BSND), 2 (SBND), 3 (BNSD)
// and 4 (TND), do not change what broadcasts.
func applyRotary(c *Call) (Run, error) {
	query, key, cos, sin := c.Tensor("queryRef"), c.Tensor("keyRef"), c.Tensor("cos"), c.Tensor("sin")
	mode := kernel.RotaryHalf
	if c.Has("rotaryMode") {
		m, known := rotaryModes[c.Text("rotaryMode")]
		if mode = m; !known {
			c.Invalid("rotaryMode %q is unknown; use half, quarter or interleave", c.Text("rotaryMode"))
		}
	}
	rank := 4
	switch layout := c.Int("layout"); layout {
	case 1, 2, 3:
	case 4:
		rank = 3
	default:
		c.Invalid("layout %d is unknown; 1 is BSND, 2 SBND, 3 BNSD, 4 TND", layout)
	}
	heads := []*Tensor{query, key}
	for _, x := range heads {
		c.Rank(x, rank, rank)
		c.angles(cos, sin, x, mode)
	}
	c.SameDType(query, key)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		for _, x := range heads {
			if x.Len() == 0 {
				continue
			}
			if err := kernel.Rotary(x.View(), x.View(), cos.View(), sin.View(), mode); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// cachedRotary takes the angles of positions from rows of a table, whose first half are
// cosines and whose second half are sines, one for each pair of a head's first elements.
func cachedRotary(c *Call) (Run, error) {
	positions, cache, size := c.Tensor("positions"), c.Tensor("cosSinCache"), c.Int("headSize")
	from, to := []*Tensor{c.Tensor("queryIn"), c.Tensor("keyIn")}, []*Tensor{c.Tensor("queryOut"), c.Tensor("keyOut")}
	mode := kernel.RotaryInterleave
	if c.Bool("isNeoxStyle") {
		mode = kernel.RotaryHalf
	}
	c.plain(positions, cache)
	c.DType(positions, indexTypes...)
	c.Rank(positions, 1, 1)
	c.Rank(cache, 2, 2)
	if sections := c.Ints("mropeSection"); slices.ContainsFunc(sections, func(n int64) bool { return n != 0 }) {
		c.Invalid("mropeSection %s: angles of several positions are not supported; pass null", dims(sections))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	rotated := cache.Shape[1]
	if size <= 0 || rotated%2 != 0 || rotated > size {
		c.Invalid("%v has rows of %d, which must be even and not exceed headSize %d", cache, rotated, size)
		return nil, c.Err()
	}
	for i, x := range from {
		c.plain(x, to[i])
		c.DType(x, transformerTypes...)
		c.SameDType(x, cache)
		c.Same(x, to[i])
		c.Rank(x, 2, 2)
		if c.Err() == nil && (x.Shape[0] != positions.Len() || x.Shape[1]%size != 0) {
			c.Invalid("%v must have a row of heads of %d for each of %d positions", x, size, positions.Len())
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		n := positions.Len()
		if n == 0 {
			return nil
		}
		rows, release := kernel.Temporary(n, rotated)
		defer release()
		wide, releaseWide := kernel.Temporary(cache.Shape...)
		defer releaseWide()
		if err := kernel.Copy(wide, cache.View()); err != nil {
			return err
		}
		if err := kernel.Lookup(rows, wide, 0, positions.View()); err != nil {
			return err
		}
		cos, releaseCos := kernel.Temporary(n, 1, rotated)
		defer releaseCos()
		sin, releaseSin := kernel.Temporary(n, 1, rotated)
		defer releaseSin()
		for i, wide := range []kernel.View{cos, sin} {
			half := divided(rows.Part(1, int64(i)*rotated/2, rotated/2, 1), 0, n)
			for p := range int64(2) {
				// The angle of a pair stands at both of its places.
				place := wide.Part(2, p*rotated/2, rotated/2, 1)
				if mode == kernel.RotaryInterleave {
					place = wide.Part(2, p, rotated/2, 2)
				}
				if err := kernel.Copy(place, half); err != nil {
					return err
				}
			}
		}
		for i, x := range from {
			if x.Len() == 0 {
				continue
			}
			in, out := divided(x.View(), 1, x.Shape[1]/size), divided(to[i].View(), 1, x.Shape[1]/size)
			if err := kernel.Rotary(out.Part(2, 0, rotated, 1), in.Part(2, 0, rotated, 1), cos, sin, mode); err != nil {
				return err
			}
			if rest := size - rotated; rest > 0 {
				if err := kernel.Copy(out.Part(2, rotated, rest, 1), in.Part(2, rotated, rest, 1)); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// broadcasts reports whether a shape has the rank of another and its sizes, or ones.
func broadcasts(shape, to []int64) bool {
	return len(shape) == len(to) && !slices.ContainsFunc(axes(len(to)), func(i int) bool { return shape[i] != 1 && shape[i] != to[i] })
}

func axes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
