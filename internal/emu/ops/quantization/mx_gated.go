package quantization

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// mxGates lists the operators of the Ascend950 that quantise the result of a gated unit, or of another quantisation,
// by blocks (MX). Rows after the last group are not written.
var mxGates = op.Table{
	"SwigluMxQuant": swigluMxQuant, "SwigluMxQuantWithDualAxis": swigluDualMxQuant, "SituMxQuant": situMxQuant,
	"DynamicDualLevelMxQuant": dualLevelMxQuant,
}.Selects("SwigluMxQuant").Omits("SwigluMxQuant", "SwigluMxQuantWithDualAxis")

// gated returns numbers that compute makes of x, in rows of a shape, rounded to the type of x as the kernels round them
// before they quantise them. compute gets a contiguous x.
func (m *mxCall) gated(shape []int64, compute func(out, x kernel.View) error) ([]float64, error) {
	x, release := kernel.TemporaryOf(m.x.DType, m.x.Shape...)
	defer release()
	if err := elementwise.Copy(x, m.x.View()); err != nil {
		return nil, err
	}
	wide, releaseWide := kernel.Temporary(shape...)
	defer releaseWide()
	if err := compute(wide, x); err != nil {
		return nil, err
	}
	rounded, releaseRounded := kernel.TemporaryOf(m.x.DType, shape...)
	defer releaseRounded()
	if err := elementwise.Copy(rounded, wide); err != nil {
		return nil, err
	}
	return elementwise.Doubles(rounded)
}

// oneOfTwo reads an axis of x that the document limits to the last two.
func (m *mxCall) oneOfTwo(name string) int {
	axis := m.Axis(m.x, m.Int(name))
	if m.Err() == nil && axis < m.x.Rank()-2 {
		m.Unfit("%s is %d; use one of the last two dimensions of %v", name, m.Int(name), m.x)
	}
	return axis
}

// swigluMxQuant quantises a gated unit of the last axis of x or of the axis before it, by blocks of one of these.
func swigluMxQuant(c *op.Call) (op.Run, error) {
	m := newMx(c, halfFloats, mxTypes, 2, 7, "yOut", "mxscaleOut")
	if c.Err() != nil {
		return nil, c.Err()
	}
	gated, axis, last := m.oneOfTwo("activateDim"), m.oneOfTwo("axis"), m.x.Rank()-1
	if c.Err() != nil {
		return nil, c.Err()
	}
	mode, limit, groups := c.Int("swigluMode"), c.Float("clampLimit"), c.Optional("groupIndexOptional")
	switch most := c.Float("maxDtypeValue"); {
	case mode != 0 && mode != 1:
		c.Unfit("swigluMode is %d; use 0 or 1", mode)
	case mode == 1 && gated != last:
		c.Unfit("swigluMode is 1, whose halves are the even and the odd elements of the last dimension; activateDim must be that")
	case mode == 1 && (!(limit > 0) || math.IsInf(limit, 0)):
		c.Unfit("clampLimit is %g; use a finite number above 0 with swigluMode 1", limit)
	case most != 0:
		c.Unfit("maxDtypeValue is %g; use 0, since only scaleAlg 2 uses it, which is not supported", most)
	case c.Int("scaleAlg") == 2:
		c.Unfit("scaleAlg is 2; use 0, or 1 for types of eight bits")
	}
	if m.x.Shape[gated]%2 != 0 {
		c.Unfit("dimension %d of %v must be even", gated, m.x)
	}
	half := slices.Clone(m.x.Shape)
	half[gated] /= 2
	if c.Err() == nil {
		m.result("dstType", half)
		m.pairs(m.scales[0], half, axis, minifloat.BlockSize)
	}
	m.countedRows(groups, gated == last && axis == last)
	return func(*op.Exec) error {
		n := half[last]
		rows, ends := op.Count(half[:last]), []int64(nil)
		if groups != nil {
			var err error
			if ends, err = op.GroupEnds(groups, rows, true); err != nil {
				return err
			}
			if err := withRows(groups, ends); err != nil {
				return err
			}
		}
		values, err := m.gated(half, func(out, x kernel.View) error {
			if mode == 0 {
				gate := rowwise.SwishGate
				gate.Left = c.Bool("activateLeft")
				return gate.Forward(out, kernel.View{}, x, gated)
			}
			x.Shape, x.Strides = []int64{rows, 2 * n}, []int64{2 * n, 1}
			out.Shape, out.Strides = []int64{rows, n}, []int64{n, 1}
			gate := rowwise.ClippedGate{Alpha: c.Float("gluAlpha"), Limit: limit, Bias: c.Float("gluBias"), Interleaved: true}
			return gate.Forward(out, x, kernel.View{})
		})
		if err != nil {
			return err
		}
		if groups == nil {
			return m.scaling.Along(m.y[0].View(), m.scales[0].View(), values, axis, minifloat.BlockSize, m.round)
		}
		used, pairs := ends[len(ends)-1], minifloat.Pairs(n, minifloat.BlockSize)*2
		return m.scaling.Rows(m.y[0].As([]int64{used, n}, []int64{n, 1}), m.scales[0].As([]int64{used, pairs}, []int64{pairs, 1}), values[:used*n], m.round)
	}, c.Err()
}

// withRows refuses groups without rows, which the documents of gated units exclude.
func withRows(groups *op.Tensor, ends []int64) error {
	first := int64(0)
	for g, end := range ends {
		if end == first {
			return fmt.Errorf("%v has a group %d without rows; each group must have one", groups, g)
		}
		first = end
	}
	return nil
}

// countedRows checks groups that have numbers of rows.
func (m *mxCall) countedRows(groups *op.Tensor, rows bool) {
	if groups == nil {
		return
	}
	m.DType(groups, dtype.Int64)
	m.Plain(groups)
	m.Dense(m.y[0], m.scales[0])
	switch mode := m.Int("groupMode"); {
	case groups.Rank() != 1 || groups.Len() < 1 || groups.Len() > 256:
		m.Unfit("%v must have 1 to 256 groups in one dimension", groups)
	case mode == 1:
		m.Unfit("groupMode is 1 (ends of groups), but the document and the kernel add up the elements of groupIndexOptional; use 0")
	case mode != 0:
		m.Unfit("groupMode is %d; use 0", mode)
	case !rows:
		m.Unfit("groupIndexOptional is given, but activateDim or axis is not the last dimension; the document does not describe where the scales of groups are")
	}
}

// swigluDualMxQuant quantises a gated unit of the rows of x by blocks of its columns and of its rows.
func swigluDualMxQuant(c *op.Call) (op.Run, error) {
	m := newMx(c, halfFloats, mxTypes, 2, 2, "y1Out", "mxscale1Out", "y2Out", "mxscale2Out")
	if c.Err() != nil {
		return nil, c.Err()
	}
	groups, rows, n := c.Optional("groupIndexOptional"), m.x.Dim(0), m.x.Dim(1)/2
	if m.x.Dim(1)%2 != 0 {
		c.Unfit("the rows of %v must have an even number of elements", m.x)
	}
	if most := c.Float("maxDtypeValue"); most != 0 {
		c.Unfit("maxDtypeValue is %g; use 0, since it is reserved", most)
	}
	if c.Int("scaleAlg") == 2 {
		c.Unfit("scaleAlg is 2; use 0, or 1 for types of eight bits")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	half := []int64{rows, n}
	m.result("dstType", half)
	m.pairs(m.scales[0], half, 1, minifloat.BlockSize)
	if groups == nil {
		m.pairs(m.scales[1], half, 0, minifloat.BlockSize)
	} else {
		c.DType(groups, dtype.Int64)
		c.Plain(groups)
		if groups.Rank() != 1 || groups.Len() == 0 {
			c.Unfit("%v must have the ends of the groups in one dimension", groups)
		}
		c.Fits(m.scales[1], []int64{rows/64 + groups.Len(), n, 2}, "pairs of scales for blocks of the rows of groups")
	}
	return func(*op.Exec) error {
		var ends []int64
		if groups != nil {
			var err error
			if ends, err = wholeEnds(groups, rows); err != nil {
				return err
			}
			if err := withRows(groups, ends); err != nil {
				return err
			}
		}
		values, err := m.gated(half, func(out, x kernel.View) error {
			gate := rowwise.SwishGate
			gate.Left = c.Bool("activateLeft")
			return gate.Forward(out, kernel.View{}, x, 1)
		})
		if err != nil {
			return err
		}
		return m.both(values, ends, false)
	}, c.Err()
}

// situMxQuant quantises a gated unit whose halves are bounded by tanh, by blocks of its rows.
func situMxQuant(c *op.Call) (op.Run, error) {
	m := newMx(c, halfFloats, float8s, 1, 8, "yOut", "yScaleOut")
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := m.x.Rank() - 1
	g := rowwise.TanhBoundGate{Beta: c.Float("beta"), Linear: c.Float("linearBeta"), Left: c.Bool("activateLeft")}
	switch {
	case !(g.Beta > 0) || math.IsInf(g.Beta, 0):
		c.Unfit("beta is %g; use a finite number above 0", g.Beta)
	case math.IsNaN(g.Linear) || math.IsInf(g.Linear, 0):
		c.Unfit("linearBeta is %g; use a finite number", g.Linear)
	case c.Int("axis") != -1:
		c.Unfit("axis is %d; use -1", c.Int("axis"))
	case m.x.Shape[last]%2 != 0:
		c.Unfit("the last dimension of %v must be even", m.x)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	half := slices.Clone(m.x.Shape)
	half[last] /= 2
	m.result("dstType", half)
	m.pairs(m.scales[0], half, last, minifloat.BlockSize)
	return func(*op.Exec) error {
		values, err := m.gated(half, func(out, x kernel.View) error { return g.Forward(out, x, last) })
		if err != nil {
			return err
		}
		return m.scaling.Rows(m.y[0].View(), m.scales[0].View(), values, m.round)
	}, c.Err()
}

// coarseSize is the number of elements with a common scale of the first level.
const coarseSize = 512

// dualLevelMxQuant divides blocks of 512 elements of the rows of x by float32 scales, and quantises the quotients,
// rounded to the type of x, by blocks of 32.
func dualLevelMxQuant(c *op.Call) (op.Run, error) {
	m := newMx(c, halfFloats, []dtype.Type{dtype.Float4E2M1}, 1, 7, "yOut", "level1ScaleOut")
	coarse, smooth := c.Tensor("level0ScaleOut"), c.Optional("smoothScaleOptional")
	if c.Err() != nil {
		return nil, c.Err()
	}
	last := m.x.Rank() - 1
	n := m.x.Shape[last]
	c.DType(coarse, dtype.Float32)
	c.Plain(coarse)
	if smooth != nil {
		c.Plain(smooth)
		c.SameDType(m.x, smooth)
		c.Fits(smooth, []int64{n}, "the rows of x")
	}
	if size := c.Int("level0BlockSize"); size != coarseSize {
		c.Unfit("level0BlockSize is %d; use 512", size)
	}
	if size := c.Int("level1BlockSize"); size != minifloat.BlockSize {
		c.Unfit("level1BlockSize is %d; use 32", size)
	}
	c.Fits(m.y[0], m.x.Shape, "the numbers that are quantised")
	want := slices.Clone(m.x.Shape)
	want[last] = (n + coarseSize - 1) / coarseSize
	c.Fits(coarse, want, "scales for blocks of 512")
	m.pairs(m.scales[0], m.x.Shape, last, minifloat.BlockSize)
	if c.Err() == nil {
		m.scaling, m.round = mxScaling(c, m.y[0])
	}
	return func(*op.Exec) error {
		scales := []float64{}
		values, err := m.gated(m.x.Shape, func(out, x kernel.View) error {
			if smooth != nil {
				if err := elementwise.Map(elementwise.Mul, dtype.Float32, x, []elementwise.Input{elementwise.Of(x), elementwise.Of(smooth.View())}); err != nil {
					return err
				}
			}
			v, err := elementwise.Doubles(x)
			if err != nil {
				return err
			}
			for row := range slices.Chunk(v, int(n)) {
				for block := range slices.Chunk(row, coarseSize) {
					scales = append(scales, divideByLargest(block))
				}
			}
			return elementwise.SetFloats(out, v)
		})
		if err != nil {
			return err
		}
		if err := elementwise.SetFloats(coarse.View(), scales); err != nil {
			return err
		}
		return m.scaling.Rows(m.y[0].View(), m.scales[0].View(), values, m.round)
	}, c.Err()
}

// divideByLargest divides a block by a scale that maps its largest finite number to that of float4_e2m1, and returns
// the scale. Zeros stay zeros.
func divideByLargest(block []float64) float64 {
	most := 0.0
	for _, v := range block {
		if v = math.Abs(v); v > most && !math.IsInf(v, 0) {
			most = v
		}
	}
	sixth := float32(1) / 6
	scale := float32(most) * sixth
	if scale < 0x1p-126 {
		scale = 0
	}
	for i, v := range block {
		if v != 0 {
			block[i] = float64(float32(v) / scale)
		}
	}
	return float64(scale)
}
