package attention

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// rotary are the operators that rotate pairs of the last dimension by angles that depend on the
// position.
var rotary = op.Table{
	"RotaryPositionEmbedding": rotaryPositionEmbedding, "RotaryPositionEmbeddingV2": rotaryPositionEmbedding, "InterleaveRope": rotaryPositionEmbedding,
	"RotaryPositionEmbeddingGrad": rotaryGrad,
	"ApplyRotaryPosEmb":           applyRotary, "ApplyRotaryPosEmbV2": applyRotary, "RopeWithSinCosCache": cachedRotary, "RopeWithSinCosCacheV2": cachedRotary,
	"InplacePartialRotaryMul": partialRotary,
}.Selects("RotaryPositionEmbeddingGrad", "RopeWithSinCosCache", "RopeWithSinCosCacheV2", "InplacePartialRotaryMul")

// angles checks cos and sin against x.
func angles(c *op.Call, cos, sin, x *op.Tensor, mode rowwise.RotaryMode) {
	c.Plain(x, cos, sin)
	c.DType(x, op.FloatTypes...)
	c.Same(cos, sin)
	c.SameDType(x, cos)
	if c.Err() != nil {
		return
	}
	if !broadcasts(cos.Shape, x.Shape) || cos.Dim(-1) != x.Dim(-1) {
		c.Invalid("%v must have the head dim of %v and broadcast to it in the other dimensions", cos, x)
	}
	if d := x.Dim(-1); d%2 != 0 || mode == rowwise.RotaryQuarter && d%4 != 0 {
		c.Invalid("the head dim of %v does not fit mode %d, which rotates pairs", x, mode)
	}
}

// rotaryMode reads the argument mode. The documents know four modes, but the Atlas A2 has kernels for
// two: every mode other than interleave pairs the elements as half does.
func rotaryMode(c *op.Call) rowwise.RotaryMode {
	mode := rowwise.RotaryMode(c.Int("mode"))
	if mode < 0 || mode > rowwise.RotaryInterleaveHalf {
		c.Invalid("mode %d is unknown; 0 is half, 1 interleave, 2 quarter, 3 interleave-half", mode)
	}
	if mode != rowwise.RotaryInterleave {
		return rowwise.RotaryHalf
	}
	return mode
}

// rotaryPositionEmbedding rotates pairs of the last dimension of x. cos and sin broadcast to x in
// the other dimensions. The second version takes the rotation as a matrix too.
func rotaryPositionEmbedding(c *op.Call) (op.Run, error) {
	x, cos, sin, out := c.Tensor("x"), c.Tensor("cos"), c.Tensor("sin"), c.Tensor("out")
	mode := rowwise.RotaryInterleaveHalf
	if c.Has("mode") {
		mode = rotaryMode(c)
	}
	c.Rank(x, 3, 4)
	c.Same(x, out)
	angles(c, cos, sin, x, mode)
	var matrix *op.Tensor
	if c.Has("rotate") {
		matrix = c.Optional("rotate")
	}
	switch {
	case matrix != nil:
		checkRotation(c, matrix, x, cos)
	case c.Err() == nil && c.Has("mode") && mode == rowwise.RotaryHalf && x.Len() > 0:
		turnable(c, x, cos)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if matrix != nil {
		return func(*op.Exec) error { return turnByMatrix(out, x, cos, sin, matrix) }, nil
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return rowwise.Rotary(out.View(), x.View(), cos.View(), sin.View(), mode)
	}, nil
}

// checkRotation checks a matrix that rotates x, for which the kernel has other limits.
func checkRotation(c *op.Call, matrix, x, cos *op.Tensor) {
	if chip := c.Chip(); chip != acceptance.Ascend910B && chip != acceptance.Ascend910_93 {
		c.Invalid("rotate is supported on Ascend910B and Ascend910_93 only")
	}
	c.Plain(matrix)
	c.SameDType(x, matrix)
	if c.Err() != nil || x.Len() == 0 {
		return
	}
	if x.Rank() != 4 || x.Dim(3) > halfDims {
		c.Unfit("%v must have 4 dimensions, and at most %d elements in the last one", x, halfDims)
		return
	}
	c.Fits(matrix, []int64{x.Dim(3), x.Dim(3)}, "a square for the head dim")
	if s, r := x.Shape, cos.Shape; r[0] == 1 && r[1] == 1 && r[2] == 1 && s[0] != 1 && s[1] != 1 && s[2] != 1 {
		c.Unfit("one row of angles %v is for one position, and %v has more", cos, x)
	}
}

// turnByMatrix computes x·cos + (x·matrix)·sin.
func turnByMatrix(out, x, cos, sin, matrix *op.Tensor) error {
	if x.Len() == 0 {
		return nil
	}
	turned, release := kernel.Temporary(x.Shape...)
	defer release()
	rows, releaseRows := kernel.Temporary(x.Shape...)
	defer releaseRows()
	if err := elementwise.Copy(rows, x.View()); err != nil {
		return err
	}
	wide, releaseWide := kernel.Temporary(matrix.Shape...)
	defer releaseWide()
	if err := elementwise.Copy(wide, matrix.View()); err != nil {
		return err
	}
	flat := func(v kernel.View) kernel.View {
		n := v.Shape[3]
		v.Shape, v.Strides = []int64{v.Len() / n, n}, []int64{n, 1}
		return v
	}
	if err := gemm.Gemm(gemm.Product{Out: flat(turned), A: flat(rows), B: wide, Alpha: 1}); err != nil {
		return err
	}
	for _, by := range []struct {
		v kernel.View
		t *op.Tensor
	}{{rows, cos}, {turned, sin}} {
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, by.v, []elementwise.Input{elementwise.Of(by.v), elementwise.Of(by.t.View())}); err != nil {
			return err
		}
	}
	return elementwise.Map(elementwise.Add, dtype.Float32, out.View(), []elementwise.Input{elementwise.Of(rows), elementwise.Of(turned)}, elementwise.Real(1))
}

// What the tiling of rotations by halves takes on a 910B.
const (
	halfDims     = 896 // features of a head
	repeats      = 8   // repetitions of the angles of a position, in BNSD
	unevenDims   = 80  // features of a head from which uneven halves may repeat often
	vectorCores  = 48
	bytesOfBlock = 32
)

// turnable refuses the shapes that the tiling of rotations by halves refuses: in BNSD it leaves
// angles that repeat often to other operators, by thresholds that were measured.
func turnable(c *op.Call, x, cos *op.Tensor) {
	if x.Rank() != 4 {
		c.Unfit("the input shape must be 4-dimensional: %v", x)
		return
	}
	s, r := x.Shape, cos.Shape
	switch one := r[0] == 1 && r[1] == 1 && r[2] == 1; {
	case s[3] > halfDims:
		c.Unfit("input last dim (head_dim) should be less than %d: %v", halfDims, x)
	case slices.Equal(s, r):
	case one && s[0] != 1 && s[1] != 1 && s[2] != 1:
		c.Unfit("one row of angles %v is for one position, and %v has more", cos, x)
	case one || s[0] == r[0] || s[1] == r[1]: // not BNSD
	case s[3]/2*int64(x.DType.Size())%bytesOfBlock == 0 && s[0]*s[1] > repeats*s[2],
		s[3]/2*int64(x.DType.Size())%bytesOfBlock != 0 && 2*s[0]*s[1] > (s[2]+vectorCores-1)/vectorCores && s[3] < unevenDims:
		c.Unfit("%v: when input is BNSD layout and B * N is large or D is not aligned, please do not use RotaryPositionEmbedding fusion operator", x)
	}
}

// rotaryGrad is the gradient of rotaryPositionEmbedding. The gradients of cos and sin require x.
func rotaryGrad(c *op.Call) (op.Run, error) {
	dy, cos, sin, x := c.Tensor("dy"), c.Tensor("cos"), c.Tensor("sin"), c.Optional("xOptional")
	dx, mode := c.Tensor("dxOut"), rotaryMode(c)
	var dcos, dsin *op.Tensor
	c.Plain(dx)
	c.Rank(dy, 4, 4)
	c.Same(dy, dx)
	angles(c, cos, sin, dy, mode)
	if x != nil {
		dcos, dsin = c.Tensor("dcosOut"), c.Tensor("dsinOut")
		c.Plain(x, dcos, dsin)
		c.Same(dy, x)
		c.Same(cos, dcos, dsin)
	}
	c.Rank(cos, dy.Rank(), dy.Rank())
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if dy.Len() == 0 {
			return op.ZeroAll(dcos, dsin)
		}
		return rowwise.RotaryGrad(dx.View(), op.OptionalView(dcos), op.OptionalView(dsin), dy.View(), op.OptionalView(x), cos.View(), sin.View(), mode)
	}, nil
}

// Of aclnnApplyRotaryPosEmb.
const (
	applyLayout = 1   // BSND, the only one with a kernel on a 910B
	applyDim    = 128 // features of a head
)

// applyRotary rotates queries and keys in place. Layouts 2 (SBND), 3 (BNSD) and 4 (TND) and the modes
// interleave and quarter are for other chips.
func applyRotary(c *op.Call) (op.Run, error) {
	query, key, cos, sin := c.Tensor("queryRef"), c.Tensor("keyRef"), c.Tensor("cos"), c.Tensor("sin")
	mode := rowwise.RotaryHalf
	if c.Has("rotaryMode") {
		switch name := c.Text("rotaryMode"); name {
		case "", "half":
		case "interleave", "quarter":
			c.Unfit("rotaryMode %q has no kernel on this chip; use half", name)
		default:
			c.Invalid("rotaryMode %q is unknown; use half, quarter or interleave", name)
		}
	}
	if layout := c.Int("layout"); layout < 1 || layout > 4 {
		c.Invalid("layout %d is unknown; 1 is BSND, 2 SBND, 3 BNSD, 4 TND", layout)
	} else if layout != applyLayout {
		c.Unfit("layout is not one: it is %d", layout)
	}
	heads := []*op.Tensor{query, key}
	for _, x := range heads {
		c.Rank(x, 4, 4)
		angles(c, cos, sin, x, mode)
	}
	c.SameDType(query, key)
	if c.Err() == nil {
		applicable(c, query, key, cos)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		for _, x := range heads {
			if x.Len() == 0 {
				continue
			}
			if err := rowwise.Rotary(x.View(), x.View(), cos.View(), sin.View(), mode); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// applicable checks the sizes that the kernel's tiling takes.
func applicable(c *op.Call, query, key, cos *op.Tensor) {
	heads := query.Shape[2] + key.Shape[2]
	wide, once := int64(query.DType.Size()), int64(0)
	if query.DType == dtype.BFloat16 {
		wide, once = 4, 2*applyDim*4
	}
	// The bytes of a token: twice the rows, the angles, the results and the exchanged halves.
	bytes := heads*applyDim*wide*5 + 4*applyDim*int64(query.DType.Size()) + once
	switch {
	case query.Len() == 0 || key.Len() == 0:
		c.Unfit("%v and %v must not be empty", query, key)
	case !slices.Equal(query.Shape[:2], key.Shape[:2]) || !slices.Equal(query.Shape[:2], cos.Shape[:2]):
		c.Unfit("%v, %v and %v must have the same first two dimensions", query, key, cos)
	case query.Dim(-1) != applyDim:
		c.Unfit("last dims is not %d: %v", applyDim, query)
	case cos.Shape[2] != 1:
		c.Unfit("cos dim2 is not one: %v", cos)
	case bytes > unifiedBuffer:
		c.Unfit("oneLoop is too large: a token of %d heads takes %d bytes of the Unified Buffer's %d", heads, bytes, unifiedBuffer)
	}
}

// unifiedBuffer is the size of the Unified Buffer of a vector core of a 910B.
const unifiedBuffer = 192 << 10

// cachedRotary reads the angles of positions from the rows of a table. The first half of a row
// holds cosines, the second half sines, one for each pair of the rotated part of a head.
func cachedRotary(c *op.Call) (op.Run, error) {
	positions, cache, size := c.Tensor("positions"), c.Tensor("cosSinCache"), c.Int("headSize")
	from, to := []*op.Tensor{c.Tensor("queryIn"), c.Tensor("keyIn")}, []*op.Tensor{c.Tensor("queryOut"), c.Tensor("keyOut")}
	mode := rowwise.RotaryInterleave
	if c.Bool("isNeoxStyle") {
		mode = rowwise.RotaryHalf
	}
	c.Plain(positions, cache)
	c.DType(positions, op.IndexTypes...)
	c.Rank(cache, 2, 2)
	for _, t := range []*op.Tensor{positions, cache, from[0], from[1]} {
		if t.Len() == 0 {
			c.Invalid("%v is empty", t)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	rotated := cache.Shape[1]
	sections := rotarySections(c, rotated)
	places := sectionPlaces(sections)
	if mode := c.IntOr("cacheMode", 0); mode == 1 && len(sections) == 3 {
		places = alternatingPlaces(sections)
	} else if mode < 0 || mode > 1 || mode == 1 && sections != nil {
		c.Invalid("cacheMode is %d; use 0, or 1 with three sections", mode)
	}
	tokens := positions.Len()
	if sections == nil {
		c.Rank(positions, 1, 1)
	} else if tokens /= int64(len(sections)); !slices.Equal(positions.Shape, []int64{int64(len(sections)), tokens}) {
		c.Invalid("%v must have a row for each of mropeSection %s", positions, op.Dims(sections))
	}
	if size <= 0 || rotated%2 != 0 {
		c.Invalid("%v has rows of %d, which must be even, and headSize %d must be above 0", cache, rotated, size)
		return nil, c.Err()
	}
	if rotated > size {
		c.Fail(op.Unsupported, "%v has rows of %d, which must not exceed headSize %d", cache, rotated, size)
		return nil, c.Err()
	}
	if c.DType(from[0], op.FloatTypes...); c.Err() != nil { // an element of four bits has no size in bytes
		return nil, c.Err()
	}
	if line := int64(64 / from[0].DType.Size()); c.Tiled() && (size%line != 0 || rotated%line != 0) {
		c.Fail(op.Unsupported, "headSize %d and the rows of %v must be multiples of %d elements, 64 bytes", size, cache, line)
	}
	for i, x := range from {
		c.Plain(x, to[i])
		c.DType(x, op.FloatTypes...)
		c.SameDType(x, cache)
		c.Same(x, to[i])
		c.Rank(x, 2, 2)
		if c.Err() == nil && (x.Shape[0] != tokens || x.Shape[1]%size != 0) {
			c.Invalid("%v must have a row of heads of %d for each of %d positions", x, size, tokens)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		n := tokens
		rows, release := kernel.Temporary(n, rotated)
		defer release()
		wide, releaseWide := kernel.Temporary(cache.Shape...)
		defer releaseWide()
		if err := elementwise.Copy(wide, cache.View()); err != nil {
			return err
		}
		if sections == nil {
			if err := indexing.Lookup(rows, wide, 0, positions.View()); err != nil {
				return err
			}
		} else if err := lookUpSections(rows, wide, positions.View(), places); err != nil {
			return err
		}
		cos, releaseCos := kernel.Temporary(n, 1, rotated)
		defer releaseCos()
		sin, releaseSin := kernel.Temporary(n, 1, rotated)
		defer releaseSin()
		if err := spreadAngles(cos, sin, rows, mode); err != nil {
			return err
		}
		for i, x := range from {
			if x.Len() == 0 {
				continue
			}
			in, out := op.Divided(x.View(), 1, x.Shape[1]/size), op.Divided(to[i].View(), 1, x.Shape[1]/size)
			if err := rowwise.Rotary(out.Part(2, 0, rotated, 1), in.Part(2, 0, rotated, 1), cos, sin, mode); err != nil {
				return err
			}
			if rest := size - rotated; rest > 0 {
				if err := elementwise.Copy(out.Part(2, rotated, rest, 1), in.Part(2, rotated, rest, 1)); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// sectionLists are the values of mropeSection that CANN takes.
var sectionLists = [][]int64{{16, 24, 24}, {8, 12, 12}, {24, 20, 20}, {11, 11, 10}, {16, 16, 16, 16}}

// rotarySections returns how many angles of a token belong to each of its positions, or nil if it has one position.
func rotarySections(c *op.Call, rotated int64) []int64 {
	sections := c.Ints("mropeSection")
	switch {
	case sections == nil:
		return nil
	case len(sections) != 3 && len(sections) != 4 || slices.Min(sections) < 0:
		c.Invalid("mropeSection %s: it must have 3 or 4 numbers, none below 0", op.Dims(sections))
	case sections[0] == 0:
		return nil
	case op.Total(sections)*2 != rotated:
		c.Invalid("mropeSection %s: the sum must be %d, half of the columns of cosSinCache", op.Dims(sections), rotated/2)
	case !slices.ContainsFunc(sectionLists, func(s []int64) bool { return slices.Equal(s, sections) }):
		c.Invalid("mropeSection is %s; use one of %v", op.Dims(sections), sectionLists)
	}
	return sections
}

// angleRun are n angles from first on, step apart, that a section of a row has.
type angleRun struct{ section, first, n, step int64 }

// sectionPlaces puts the sections one after the other.
func sectionPlaces(sections []int64) (places []angleRun) {
	first := int64(0)
	for i, n := range sections {
		places, first = append(places, angleRun{int64(i), first, n, 1}), first+n
	}
	return places
}

// alternatingPlaces lets three sections alternate: the first one has every place that is not of the others.
func alternatingPlaces(sections []int64) []angleRun {
	half := op.Total(sections)
	places := []angleRun{{0, 0, half, 1}}
	for i := int64(1); i < 3; i++ {
		places = append(places, angleRun{i, i, (min(3*sections[1], half) - i + 2) / 3, 3})
	}
	return places
}

// lookUpSections reads the angles of each section from the row of its position. positions are [sections, tokens]; later places
// replace earlier ones.
func lookUpSections(rows, table, positions kernel.View, places []angleRun) error {
	half := rows.Shape[1] / 2
	one, release := kernel.Temporary(rows.Shape...)
	defer release()
	for _, p := range places {
		if err := indexing.Lookup(one, table, 0, positions.Select(0, p.section)); err != nil {
			return err
		}
		for _, at := range []int64{p.first, half + p.first} { // the cosines, then the sines
			if err := elementwise.Copy(rows.Part(1, at, p.n, p.step), one.Part(1, at, p.n, p.step)); err != nil {
				return err
			}
		}
	}
	return nil
}

// spreadAngles expands rows with half of the cosines and sines each to cos and sin [n, 1, rotated],
// where both elements of a pair have the same angle.
func spreadAngles(cos, sin, rows kernel.View, mode rowwise.RotaryMode) error {
	n, rotated := rows.Shape[0], rows.Shape[1]
	for i, wide := range []kernel.View{cos, sin} {
		half := op.Divided(rows.Part(1, int64(i)*rotated/2, rotated/2, 1), 0, n)
		for p := range int64(2) {
			place := wide.Part(2, p*rotated/2, rotated/2, 1)
			if mode == rowwise.RotaryInterleave {
				place = wide.Part(2, p, rotated/2, 2)
			}
			if err := elementwise.Copy(place, half); err != nil {
				return err
			}
		}
	}
	return nil
}

// broadcasts reports whether shape has the same rank as to, and in each dimension the same size or
// 1.
func broadcasts(shape, to []int64) bool {
	return len(shape) == len(to) && !slices.ContainsFunc(op.Axes(len(to)), func(i int) bool { return shape[i] != 1 && shape[i] != to[i] })
}

// partialRotary rotates the pairs (0,1), (2,3), … of a range of columns of x [B,S,N,D] in place. cos and sin are [B,S,1,·] or
// [B,1,1,·] with the width of the range.
func partialRotary(c *op.Call) (op.Run, error) {
	x, cos, sin, span := c.Tensor("xRef"), c.Tensor("cos"), c.Tensor("sin"), c.Ints("partialSlice")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(x, cos, sin)
	c.DType(x, op.FloatTypes...)
	c.Same(cos, sin)
	if cos.DType != dtype.Float32 {
		c.SameDType(x, cos)
	}
	c.Rank(x, 4, 4)
	c.Rank(cos, 4, 4)
	if mode := c.Int("rotary_mode"); mode != 1 {
		c.Invalid("rotary_mode is %d; only 1 is supported, neighbours as pairs", mode)
	}
	for _, t := range []*op.Tensor{x, cos, sin} {
		if t.Len() > 0 && !t.Contiguous() {
			c.Invalid("%v must be contiguous", t)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	const widest = 1024
	width := x.Dim(3)
	if span == nil {
		span = []int64{0, width}
	}
	if width > widest || width%2 != 0 {
		c.Invalid("%v: the last dimension must be even and at most %d", x, widest)
	}
	if len(span) != 2 || span[0] < 0 || span[1] < span[0] || span[1] > width || (span[1]-span[0])%2 != 0 {
		c.Invalid("partialSlice is %s; it must be [start, end) within the %d columns of %v, with an even number of them", op.Dims(span), width, x)
		return nil, c.Err()
	}
	n := span[1] - span[0]
	c.Shape(cos, []int64{x.Dim(0), cos.Dim(1), 1, n}, "[B,S,1,·] or [B,1,1,·], with the columns of partialSlice")
	if cos.Dim(1) != x.Dim(1) && cos.Dim(1) != 1 {
		c.Invalid("%v must have the tokens of %v, or 1", cos, x)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		if n == 0 || x.Len() == 0 {
			return nil
		}
		to := x.View().Narrow(3, span[0], n)
		v, err := elementwise.Doubles(to)
		if err != nil {
			return err
		}
		cosines, err := elementwise.Doubles(cos.View())
		if err != nil {
			return err
		}
		sines, err := elementwise.Doubles(sin.View())
		if err != nil {
			return err
		}
		tokens, heads := x.Dim(1), x.Dim(2)
		for row := range x.Dim(0) * tokens * heads {
			token := row / heads
			angle := (token/tokens*cos.Dim(1) + token%tokens%cos.Dim(1)) * n
			for i := int64(0); i < n; i += 2 {
				a, b := v[row*n+i], v[row*n+i+1]
				v[row*n+i] = float64(a*cosines[angle+i]) - float64(b*sines[angle+i])
				v[row*n+i+1] = float64(b*cosines[angle+i+1]) + float64(a*sines[angle+i+1])
			}
		}
		return elementwise.SetFloats(to, v)
	}, nil
}
