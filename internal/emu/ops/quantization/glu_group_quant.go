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

// gateQuantisations lists the operators of the Ascend950 that quantise the result of a clamped gated
// unit to types of eight or four bits.
var gateQuantisations = op.Table{"SwigluGroupQuant": swigluGroupQuant}.Selects().Omits()

// gateQuant is one call.
type gateQuant struct {
	*op.Call
	mode                       int64
	gate                       rowwise.ClippedGate
	x, weight, counts, factors *op.Tensor
	y, scale, origin           *op.Tensor
	rows, width                int64 // of the result
	scaling                    minifloat.Scaling
}

// Modes of quantisation: by blocks of 128 or of 32 elements, or of groups of rows to HiFloat8, with
// factors that are given or from their largest elements.
const (
	byBlocks = iota
	byMX
	byFactors
	byGroups
)

func swigluGroupQuant(c *op.Call) (op.Run, error) {
	g := &gateQuant{
		Call: c, mode: c.Int("quantMode"), gate: rowwise.ClippedGate{Alpha: 1, Limit: c.Float("clampLimit")},
		x: c.Tensor("x"), weight: c.Optional("weightOptional"), counts: c.Optional("groupIndexOptional"), factors: c.Optional("scaleOptional"),
		y: c.Tensor("yOut"), scale: c.Tensor("yScaleOut"), origin: c.Tensor("yOriginOut"),
	}
	if c.Err() == nil {
		g.types()
	}
	if c.Err() == nil {
		g.attributes()
	}
	if c.Err() == nil {
		g.shapes()
	}
	return g.run, c.Err()
}

func (g *gateQuant) types() {
	c, blocks := g.Call, g.mode == byBlocks || g.mode == byMX
	c.Plain(g.x, g.y, g.scale, g.origin)
	c.Dense(g.x, g.y, g.scale, g.origin)
	for i, t := range []*op.Tensor{g.counts, g.weight, g.factors} {
		if t != nil {
			c.Plain(t)
			c.DType(t, []dtype.Type{dtype.Int64, dtype.Float32, dtype.Float32}[i])
			c.Dense(t)
		}
	}
	switch {
	case g.mode < byBlocks || g.mode > byGroups:
		c.Unfit("quantMode is %d; use 0 to 3", g.mode)
	case blocks:
		c.DType(g.x, dtype.Float16, dtype.BFloat16)
		c.DType(g.y, dtype.Float8E4M3, dtype.Float8E5M2, dtype.Float4E2M1, dtype.Float4E1M2)
		if d := dtype.Type(c.Int("dstType")); d != g.y.DType {
			c.Unfit("dstType is %v, but %v", d, g.y)
		}
	default:
		c.DType(g.x, op.FloatTypes...)
		c.DType(g.y, dtype.HiFloat8)
	}
	scales := dtype.Float32
	if g.mode == byMX {
		scales = dtype.Float8E8M0
	}
	c.DType(g.scale, scales)
	c.SameDType(g.x, g.origin)
}

func (g *gateQuant) attributes() {
	c, blocks, limit := g.Call, g.mode == byBlocks || g.mode == byMX, g.gate.Limit
	block, four := int64(128), g.y.DType.Bits() == 4
	g.scaling = minifloat.Scaling{Type: g.y.DType, Algorithm: 1, Least: 1e-4}
	if g.mode == byMX {
		block = minifloat.BlockSize
	}
	if four {
		g.scaling.Algorithm, g.scaling.Least = 0, 0
	}
	switch size := c.Int("blockSize"); {
	case limit != -1 && !(limit > 0) && (blocks || limit != 0):
		c.Unfit("clampLimit is %g; it must be above 0, or -1 for none", limit)
	case blocks && size != 0 && size != block:
		c.Unfit("blockSize is %d; use 0 or %d with quantMode %d", size, block, g.mode)
	case four && g.mode == byBlocks:
		c.Unfit("%v needs quantMode 1", g.y)
	case g.mode == byMX && !c.Bool("roundScale"):
		c.Unfit("roundScale is false; quantMode 1 needs true")
	case blocks && c.Bool("outputOrigin"):
		c.Unfit("outputOrigin is true; only quantMode 2 and 3 give the origin")
	case !blocks && c.Float("dstTypeMax") <= 0:
		c.Unfit("dstTypeMax is %g; it must be above 0", c.Float("dstTypeMax"))
	case g.mode == byFactors && g.factors == nil:
		c.Unfit("scaleOptional is null; quantMode 2 needs it")
	}
	if limit <= 0 {
		g.gate.Limit = math.Inf(1)
	}
}

func (g *gateQuant) shapes() {
	c, last := g.Call, g.x.Rank()-1
	least, most, unit := 2, kernel.MaxRank, int64(256)
	switch g.mode {
	case byMX:
		most--
	case byFactors, byGroups:
		least, unit = 1, 2
	}
	if r := g.x.Rank(); r < least || r > most {
		c.Unfit("%v has %d dimensions; use %d to %d", g.x, r, least, most)
		return
	}
	if n := g.x.Shape[last]; g.x.Len() == 0 || n%unit != 0 {
		c.Unfit("%v must have elements, and rows of a multiple of %d", g.x, unit)
		return
	}
	g.rows, g.width = op.Count(g.x.Shape[:last]), g.x.Shape[last]/2
	half, groups := append(slices.Clone(g.x.Shape[:last]), g.width), []int64{1}
	c.Fits(g.y, half, "x with half its last dimension")
	if c.Bool("outputOrigin") {
		c.Fits(g.origin, half, "x with half its last dimension")
	}
	if g.weight != nil && (g.weight.Rank() == 0 || g.weight.Len() != g.rows) {
		c.Unfit("%v must have an element for each of %d rows of x", g.weight, g.rows)
	}
	if g.counts != nil {
		if groups[0] = g.counts.Len(); g.counts.Rank() != 1 || groups[0] == 0 {
			c.Unfit("%v must be a vector with elements", g.counts)
		}
	}
	switch g.mode {
	case byBlocks:
		c.Fits(g.scale, append(slices.Clone(half[:last]), (g.width+127)/128), "one for each block of 128")
	case byMX:
		c.Fits(g.scale, append(slices.Clone(half[:last]), (g.width+63)/64, 2), "pairs of scales for blocks of 32")
	case byFactors:
		c.Fits(g.factors, groups, "one for each group")
	default:
		c.Fits(g.scale, groups, "one for each group")
	}
}

// run quantises the rows that belong to a group. The others keep the bytes that they have, but those of
// HiFloat8 become zero.
func (g *gateQuant) run(*op.Exec) error {
	t, release := kernel.Temporary(g.rows, g.width)
	defer release()
	weight := kernel.View{}
	if g.weight != nil {
		weight = g.weight.As([]int64{g.rows, 1}, []int64{1, 1})
	}
	if err := g.gate.Forward(t, g.x.As([]int64{g.rows, 2 * g.width}, []int64{2 * g.width, 1}), weight); err != nil {
		return err
	}
	if g.mode == byFactors || g.mode == byGroups {
		return g.hiFloats(t)
	}
	n, err := g.used()
	if err != nil || n == 0 {
		return err
	}
	t = t.Narrow(0, 0, n)
	y := g.y.As([]int64{n, g.width}, []int64{g.width, 1})
	columns := g.scale.Len() / g.rows
	scales := g.scale.As([]int64{n, columns}, []int64{columns, 1})
	if g.y.DType.Bits() == 4 { // the device rounds the rows to the type of x first
		rounded, release := kernel.TemporaryOf(g.x.DType, n, g.width)
		defer release()
		if err := elementwise.Copy(rounded, t); err != nil {
			return err
		}
		t = rounded
	}
	values, err := elementwise.Doubles(t)
	if err != nil {
		return err
	}
	if g.mode == byMX {
		return g.scaling.Rows(y, scales, values, minifloat.Even)
	}
	var found []float64
	for block := range slices.Chunk(values, 128) { // rows have a whole number of blocks
		found = append(found, g.block(block))
	}
	if err := minifloat.Write(scales, found, minifloat.Even); err != nil {
		return err
	}
	return minifloat.Write(y, values, minifloat.Even)
}

// used returns the number of rows in groups, at most all.
func (g *gateQuant) used() (int64, error) {
	if g.counts == nil {
		return g.rows, nil
	}
	counts, err := elementwise.Indices(g.counts.View())
	if err == nil && slices.Min(counts) < 0 {
		err = fmt.Errorf("%v holds %v; numbers of rows are not negative", g.counts, counts)
	}
	return min(op.Total(counts), g.rows), err
}

// block scales a block by its largest finite element and returns the scale. An element that is not
// finite stays as it is.
func (g *gateQuant) block(values []float64) float64 {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(float64(float32(v)), 0) }
	most := g.scaling.Least
	for _, v := range values {
		if finite(v) {
			most = max(most, math.Abs(v))
		}
	}
	limit := minifloat.Largest(g.y.DType)
	scale, factor := float64(float32(most)*float32(1/limit)), float64(float32(limit)/float32(most))
	if g.Bool("roundScale") {
		scale, factor = g.scaling.Block([]float64{most})
	}
	for i, v := range values {
		if w := float64(float32(v) * float32(factor)); finite(w) {
			values[i] = w
		}
	}
	return scale
}

// hiFloats quantises the rows of each group to HiFloat8. A group without rows has no scale.
func (g *gateQuant) hiFloats(t kernel.View) error {
	if g.Bool("outputOrigin") {
		if err := elementwise.Copy(g.origin.As(t.Shape, t.Strides), t); err != nil {
			return err
		}
	}
	ends, err := op.GroupEnds(g.counts, g.rows, true)
	if err != nil {
		return err
	}
	values, err := elementwise.Doubles(t)
	if err != nil {
		return err
	}
	var factors []float64
	if g.mode == byFactors {
		if factors, err = elementwise.Doubles(g.factors.View()); err != nil {
			return err
		}
	}
	err = op.EachGroup(ends, func(i int, first, n int64) error {
		rows := values[first*g.width : (first+n)*g.width]
		factor := float32(0)
		if factors != nil {
			factor = float32(factors[i])
		} else {
			most := 1e-8
			for _, v := range rows {
				most = max(most, math.Abs(v))
			}
			scale := float32(most) / float32(g.Float("dstTypeMax"))
			if factor = 1 / scale; g.counts != nil {
				factor = float32(g.Float("dstTypeMax")) / float32(most)
			}
			if err := elementwise.Fill(g.scale.View().Narrow(0, int64(i), 1), elementwise.Real(float64(scale))); err != nil {
				return err
			}
		}
		for j, v := range rows {
			rows[j] = float64(float32(v) * factor)
		}
		return nil
	})
	if err != nil {
		return err
	}
	clear(values[ends[len(ends)-1]*g.width:])
	return minifloat.Write(g.y.As(t.Shape, t.Strides), values, minifloat.Away)
}
