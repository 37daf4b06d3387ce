package quantization

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
)

// dynamicScalings lists the operators of the Ascend950 that quantise numbers by blocks of one axis, of the last two
// axes, or of 32 rows and 32 columns (MX). Groups with gaps between them leave scales that are not written.
var dynamicScalings = op.Table{
	"DynamicMxQuant": dynamicMxQuant, "DynamicMxQuantV2": dynamicMxQuant, "DynamicMxQuantV3": dynamicMxQuant,
	"DynamicMxQuantWithDualAxis": dualMxQuant, "DynamicMxQuantWithDualAxisV2": dualMxQuant,
	"GroupedDynamicMxQuantWithDualAxis": groupedDualMxQuant,
	"DynamicBlockMxQuant":               blockMxQuant, "MxToBlockMxQuant": mxToBlock,
}.Omits("GroupedDynamicMxQuantWithDualAxis")

// Types to which and from which numbers are quantised by blocks.
var (
	mxTypes    = []dtype.Type{dtype.Float8E4M3, dtype.Float8E5M2, dtype.Float4E2M1, dtype.Float4E1M2}
	float8s    = mxTypes[:2]
	halfFloats = []dtype.Type{dtype.Float16, dtype.BFloat16}
)

// mxCall is a call that quantises x to one or two results of the same type, each with its scales.
type mxCall struct {
	*op.Call
	x       *op.Tensor
	y       []*op.Tensor
	scales  []*op.Tensor
	scaling minifloat.Scaling
	round   minifloat.Rounding
}

// newMx reads the tensors of a call, and checks their types and the rank of x.
func newMx(c *op.Call, from, to []dtype.Type, lowest, highest int, results ...string) *mxCall {
	m := &mxCall{Call: c, x: c.Tensor("x")}
	for i := 0; i < len(results); i += 2 {
		m.y, m.scales = append(m.y, c.Tensor(results[i])), append(m.scales, c.Tensor(results[i+1]))
	}
	if c.Err() != nil {
		return m
	}
	c.DType(m.x, from...)
	c.Plain(m.x)
	if r := m.x.Rank(); r < lowest || r > highest {
		c.Unfit("%v has %d dimensions; use %d to %d", m.x, r, lowest, highest)
	}
	for i, y := range m.y {
		c.DType(y, to...)
		c.DType(m.scales[i], dtype.Float8E8M0)
		c.Plain(y, m.scales[i])
	}
	if m.x.Len() == 0 {
		c.Unfit("%v is empty; it must have elements", m.x)
	}
	return m
}

// dense refuses results and scales with gaps.
func (m *mxCall) dense() {
	m.Dense(m.y...)
	m.Dense(m.scales...)
}

// result checks the type and the shape of results, and reads how numbers become that type.
func (m *mxCall) result(name string, shape []int64) {
	c := m.Call
	for _, y := range m.y {
		if d := dtype.Type(c.Int(name)); d != y.DType {
			c.Unfit("%s is %v, but %v; they must be the same type", name, d, y)
		}
		c.Fits(y, shape, "the numbers that are quantised")
	}
	if c.Err() != nil {
		return
	}
	m.scaling, m.round = mxScaling(c, m.y[0])
	if m.scaling.Algorithm == 2 && m.y[0].DType == dtype.Float4E1M2 {
		c.Unfit("scaleAlg is 2; for %v use 0", m.y[0].DType)
	}
	if m.scaling.Most != 0 && m.scaling.Algorithm != 2 {
		c.Unfit("dstTypeMax is %g, which scaleAlg %d does not use; use 0", m.scaling.Most, m.scaling.Algorithm)
	}
}

// pairs checks the shape of scales, which have two blocks of size elements along an axis in each place of it.
func (m *mxCall) pairs(scales *op.Tensor, shape []int64, axis int, size int64) {
	want := append(slices.Clone(shape), 2)
	want[axis] = minifloat.Pairs(shape[axis], size)
	m.Fits(scales, want, "pairs of scales for blocks of an axis")
}

// dynamicMxQuant quantises x by blocks of one axis.
func dynamicMxQuant(c *op.Call) (op.Run, error) {
	m := newMx(c, append(slices.Clone(halfFloats), dtype.Float32), mxTypes, 1, 7, "yOut", "mxscaleOut")
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.dense()
	m.result("dstType", m.x.Shape)
	axis, size := c.Axis(m.x, c.Int("axis")), c.Int("blocksize")
	switch wide := m.x.DType == dtype.Float32; {
	case c.Err() != nil:
		return nil, c.Err()
	case size <= 0 || size > 1024 || size%minifloat.BlockSize != 0:
		c.Unfit("blocksize is %d; use a multiple of 32 from 32 to 1024", size)
	case size != minifloat.BlockSize && (wide || m.scaling.Algorithm == 2):
		c.Unfit("blocksize is %d; with x in float32, or with scaleAlg 2, use 32", size)
	case wide && m.x.Shape[axis] < minifloat.BlockSize:
		c.Unfit("dimension %d of %v must have at least 32 elements, since x is float32", axis, m.x)
	case !c.Has("dstTypeMax") && m.scaling.Algorithm == 2:
		c.Unfit("scaleAlg is 2; use 0, or 1 for types of eight bits")
	}
	if c.Has("maxLowBound") {
		// The kernels look for zeros before they apply the bound: their scale is the least one.
		least := c.Float("maxLowBound")
		m.scaling.Least, m.scaling.Zeros = float64(float32(least)), true
		if !(least >= 0) || math.IsInf(least, 0) || least != 0 && m.scaling.Algorithm != 1 {
			c.Unfit("maxLowBound is %g; use a number from 0 on with scaleAlg 1, and 0 with others", least)
		}
	}
	if c.Err() == nil {
		m.pairs(m.scales[0], m.x.Shape, axis, size)
	}
	return func(*op.Exec) error {
		in, err := minifloat.Read(m.x.View())
		if err != nil {
			return err
		}
		return m.scaling.Along(m.y[0].View(), m.scales[0].View(), in, axis, size, m.round)
	}, c.Err()
}

// dualMxQuant quantises x twice: by blocks of the last axis, and by blocks of the axis before it.
func dualMxQuant(c *op.Call) (op.Run, error) {
	m := newMx(c, halfFloats, mxTypes, 2, 7, "y1Out", "mxscale1Out", "y2Out", "mxscale2Out")
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.dense()
	m.result("dstType", m.x.Shape)
	if !c.Has("dstTypeMax") && m.scaling.Algorithm == 2 {
		c.Unfit("scaleAlg is 2; use 0, or 1 for types of eight bits")
	}
	last := m.x.Rank() - 1
	m.pairs(m.scales[0], m.x.Shape, last, minifloat.BlockSize)
	m.pairs(m.scales[1], m.x.Shape, last-1, minifloat.BlockSize)
	return func(*op.Exec) error {
		in, err := minifloat.Read(m.x.View())
		if err != nil {
			return err
		}
		return m.both(in, nil, false)
	}, c.Err()
}

// both quantises numbers by blocks of their last axis, and by blocks of the axis before it. If there are groups of
// rows, which end at ends, each begins a block; gaps says whether the scales between groups become zeros.
func (m *mxCall) both(in []float64, ends []int64, gaps bool) error {
	y, scales := m.y[1].View(), m.scales[1].View()
	if err := m.scaling.Rows(m.y[0].View(), m.scales[0].View(), slices.Clone(in), m.round); err != nil {
		return err
	}
	if ends != nil {
		return mxGroups(m.scaling, y, scales, in, ends, gaps, m.round)
	}
	return m.scaling.Along(y, scales, in, len(y.Shape)-2, minifloat.BlockSize, m.round)
}

// groupedDualMxQuant quantises the groups of rows of x by blocks of their columns and of their rows.
func groupedDualMxQuant(c *op.Call) (op.Run, error) {
	m := newMx(c, halfFloats, float8s, 2, 2, "y1Out", "y1ScaleOut", "y2Out", "y2ScaleOut")
	groups := c.Tensor("groupIndex")
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.dense()
	c.DType(groups, dtype.Int64)
	c.Plain(groups)
	rows, n := m.x.Dim(0), m.x.Dim(1)
	if groups.Rank() != 1 || groups.Len() == 0 {
		c.Unfit("%v must have the ends of the groups in one dimension", groups)
	}
	if n%64 != 0 {
		c.Unfit("the rows of %v must have a multiple of 64 elements", m.x)
	}
	if alg := c.Int("scaleAlg"); alg != 1 {
		c.Unfit("scaleAlg is %d; use 1", alg)
	}
	if most := c.Float("maxDtypeValue"); most != 0 {
		c.Unfit("maxDtypeValue is %g; use 0, since it is reserved", most)
	}
	m.result("dstDtype", m.x.Shape)
	if c.Err() == nil {
		m.pairs(m.scales[0], m.x.Shape, 1, minifloat.BlockSize)
		c.Fits(m.scales[1], []int64{rows/64 + groups.Len(), n, 2}, "pairs of scales for blocks of the rows of groups")
	}
	return func(*op.Exec) error {
		ends, err := wholeEnds(groups, rows)
		if err != nil {
			return err
		}
		in, err := minifloat.Read(m.x.View())
		if err != nil {
			return err
		}
		return m.both(in, ends, true)
	}, c.Err()
}

// wholeEnds reads the ends of groups that have all rows together.
func wholeEnds(groups *op.Tensor, rows int64) ([]int64, error) {
	ends, err := op.RowEnds(groups, rows)
	if err == nil && ends[len(ends)-1] != rows {
		return nil, fmt.Errorf("%v holds %v; the last end must be %d, the number of rows", groups, ends, rows)
	}
	return ends, err
}

// blockMxQuant quantises blocks of 32 rows and 32 columns of the matrices of x. Each row and each column of a block
// has the scale of the block.
func blockMxQuant(c *op.Call) (op.Run, error) {
	m := newMx(c, halfFloats, mxTypes, 2, 3, "yOut", "scale1Out")
	columns := c.Tensor("scale2Out")
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.columns(columns)
	switch alg, most := c.Int("scaleAlg"), c.Float("dstTypeMax"); {
	case alg != 0 && alg != 2:
		c.Unfit("scaleAlg is %d; use 0, or 2 for float4_e2m1", alg)
	case most != 0 && most != 6 && most != 7:
		c.Unfit("dstTypeMax is %g; use 0, 6 or 7", most)
	}
	m.result("dstType", m.x.Shape)
	if c.Err() == nil {
		m.squares(columns)
	}
	return func(*op.Exec) error {
		x, err := minifloat.Read(m.x.View())
		if err != nil {
			return err
		}
		err = eachSquare(m.x.Shape, m.scales[0].View(), columns.View(), func(rows [][2]int64) float64 {
			var block []float64
			for _, r := range rows {
				block = append(block, x[r[0]:r[1]]...)
			}
			scale, factor := m.scaling.Block(block)
			for _, r := range rows {
				for i := r[0]; i < r[1]; i++ {
					x[i] = float64(float32(x[i]) * float32(factor))
				}
			}
			return scale
		})
		if err != nil {
			return err
		}
		return minifloat.Write(m.y[0].View(), x, m.round)
	}, c.Err()
}

// columns checks the type of scales of columns, and the strides of all results.
func (m *mxCall) columns(scales *op.Tensor) {
	m.dense()
	m.DType(scales, dtype.Float8E8M0)
	m.Plain(scales)
	m.Dense(scales)
}

// squares checks the shapes of scales of the rows and of the columns of blocks.
func (m *mxCall) squares(columns *op.Tensor) {
	last := m.x.Rank() - 1
	m.pairs(m.scales[0], m.x.Shape, last, minifloat.BlockSize)
	m.pairs(columns, m.x.Shape, last-1, minifloat.BlockSize)
}

// eachSquare calls f for each block of 32 rows and 32 columns of matrices, with the first and the end of the
// elements in each of its rows, and writes the scale that f returns for each row and each column of the block.
func eachSquare(shape []int64, scales1, scales2 kernel.View, f func(rows [][2]int64) float64) error {
	const size = minifloat.BlockSize
	last := len(shape) - 1
	m, n := shape[last-1], shape[last]
	pairs := [2]int64{minifloat.Pairs(n, size), minifloat.Pairs(m, size)}
	found1, found2 := make([]float64, scales1.Len()), make([]float64, scales2.Len())
	for matrix := range op.Count(shape[:last-1]) {
		for i := int64(0); i < m; i += size {
			for j := int64(0); j < n; j += size {
				var rows [][2]int64
				for k := i; k < min(i+size, m); k++ {
					first := (matrix*m + k) * n
					rows = append(rows, [2]int64{first + j, first + min(j+size, n)})
				}
				scale := f(rows)
				for k := i; k < min(i+size, m); k++ {
					found1[(matrix*m+k)*pairs[0]*2+j/size] = scale
				}
				for k := j; k < min(j+size, n); k++ {
					found2[((matrix*pairs[1]+i/size/2)*n+k)*2+i/size%2] = scale
				}
			}
		}
	}
	if err := minifloat.Write(scales1, found1, minifloat.Even); err != nil {
		return err
	}
	return minifloat.Write(scales2, found2, minifloat.Even)
}

// widerBy has the differences of the exponents of two types, by which scales of four bits become scales of eight.
var widerBy = map[dtype.Type]map[dtype.Type]int{
	dtype.Float4E2M1: {dtype.Float8E5M2: 13, dtype.Float8E4M3: 6},
	dtype.Float4E1M2: {dtype.Float8E5M2: 15, dtype.Float8E4M3: 8},
}

// mxToBlock turns numbers of four bits with scales for blocks of 32 elements of rows into numbers of eight bits with
// scales for blocks of 32 rows and 32 columns.
func mxToBlock(c *op.Call) (op.Run, error) {
	m := newMx(c, pairedTypes, float8s, 2, 3, "y", "scale1")
	given, columns := c.Tensor("mxscale"), c.Tensor("scale2")
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.columns(given)
	m.columns(columns)
	c.Dense(m.x)
	last := m.x.Rank() - 1
	if m.x.Shape[last]%2 != 0 || m.x.Shape[last-1]%64 != 0 {
		c.Unfit("%v must have a multiple of 64 rows and a multiple of 2 columns", m.x)
	}
	if d := dtype.Type(c.Int("dstType")); d != m.y[0].DType {
		c.Unfit("dstType is %v, but %v; they must be the same type", d, m.y[0])
	}
	c.Fits(m.y[0], m.x.Shape, "the numbers that are converted")
	m.squares(columns)
	m.pairs(given, m.x.Shape, last, minifloat.BlockSize)
	return func(*op.Exec) error {
		x, err := minifloat.Read(m.x.View())
		if err != nil {
			return err
		}
		scales, err := minifloat.Read(given.View())
		if err != nil {
			return err
		}
		n, pairs, wider := m.x.Shape[last], given.Shape[last], widerBy[m.x.DType][m.y[0].DType]
		err = eachSquare(m.x.Shape, m.scales[0].View(), columns.View(), func(rows [][2]int64) float64 {
			codes, most := make([]int, len(rows)), wider
			for i, r := range rows {
				codes[i] = exponentCode(scales[r[0]/n*pairs*2+r[0]%n/minifloat.BlockSize])
				most = max(most, codes[i])
			}
			for i, r := range rows {
				factor := 0.0 // if the difference leaves the exponents of bfloat16
				if shift := codes[i] - (most - wider); shift > -127 {
					factor = math.Ldexp(1, shift)
				}
				for j := r[0]; j < r[1]; j++ {
					x[j] *= factor
				}
			}
			return math.Ldexp(1, most-wider-127)
		})
		if err != nil {
			return err
		}
		return minifloat.Write(m.y[0].View(), x, minifloat.Even)
	}, c.Err()
}

// exponentCode returns the E8M0 code of a scale. The kernel computes with codes; NaN has the highest code, 255.
func exponentCode(scale float64) int {
	if math.IsNaN(scale) {
		return 255
	}
	return math.Ilogb(scale) + 127
}
