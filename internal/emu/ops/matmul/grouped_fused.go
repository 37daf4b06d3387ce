package matmul

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// groupedFused lists the grouped quantised products that are fused with the next step of a
// mixture-of-experts layer.
var groupedFused = op.Table{
	"GroupedMatmulSwigluQuant": groupedGate, "GroupedMatmulSwigluQuantWeightNZ": groupedGate,
	"GroupedMatmulSwigluQuantV2": groupedGateOfLists, "GroupedMatmulSwigluQuantWeightNzV2": groupedGateOfLists,
	"GroupedMatmulFinalizeRouting": groupedFinalize, "GroupedMatmulFinalizeRoutingV2": groupedFinalize, "GroupedMatmulFinalizeRoutingV3": groupedFinalize,
	"GroupedMatmulFinalizeRoutingWeightNz": groupedFinalize, "GroupedMatmulFinalizeRoutingWeightNzV2": groupedFinalize,
}.Selects()

// byStorage accepts a FRACTAL_NZ tensor that is declared with its storage shape.
func byStorage(c *op.Call, t *op.Tensor, rank int) *op.Tensor {
	n := t.Rank()
	if !op.IsNZ(t.Format) || n != rank+2 {
		return t
	}
	v := *t
	v.Shape = append(slices.Clone(t.Shape[:n-4]), t.Shape[n-3]*t.Shape[n-2], t.Shape[n-4]*t.Shape[n-1])
	v.Strides, v.Storage = op.ContiguousStrides(v.Shape), slices.Clone(t.Shape)
	return c.Alias(v, t)
}

// quantGroups multiplies the rows of each group by its weight and dequantises the product.
type quantGroups struct {
	*op.Call
	x, weight, scale, rows, groups *op.Tensor
	bias, offset                   *op.Tensor   // the offset only for int4 weights
	scale8, scale4                 []dtype.Type // element types of scale for weights of int8 and of int4
	bias8                          bool         // an int8 weight may have a bias too, in bfloat16
	blocked                        bool         // scale may differ between equal blocks of K for int4 weights
	counts                         bool         // groups holds row counts, not ends
	transposed                     bool         // the weight is stored as [groups, n, k]
	bare                           bool         // an int4 weight has no bias: x is int4 too
	member                         bool         // the weight is of one group, and groups of all
	members                        []*quantGroups
	k, n                           int64
}

func (q *quantGroups) check() {
	q.Plain(q.x, q.scale, q.rows, q.groups)
	q.weight.SplitInt32()
	q.weight = byStorage(q.Call, q.weight, 3)
	if op.IsNZ(q.weight.Format) {
		q.CheckNZ(q.weight)
	} else {
		q.Plain(q.weight)
	}
	if q.bare {
		q.DType(q.x, dtype.Int4, dtype.Int32)
	} else {
		q.DType(q.x, dtype.Int8)
	}
	q.DType(q.rows, dtype.Float32)
	q.DType(q.groups, dtype.Int64)
	q.Rank(q.x, 2, 2)
	q.Rank(q.weight, 3, 3)
	if q.Err() != nil {
		return
	}
	shape, rows := newQuantOperand(q.Call, q.weight, q.transposed).shape(), newQuantOperand(q.Call, q.x, false).shape()
	q.k, q.n = shape[1], shape[2]
	if rows[1] != q.k {
		q.Invalid("%v and %v cannot be multiplied", q.x, q.weight)
	}
	q.Shape(q.rows, q.x.Shape[:1], "one for each row of x")
	if !q.member {
		q.Shape(q.groups, shape[:1], "one for each weight")
	}
	if q.weight.DType == dtype.Int8 {
		q.perGroup(q.scale, 1)
		q.DType(q.scale, q.scale8...)
		for _, t := range []*op.Tensor{q.bias, q.offset} {
			switch {
			case t == nil || t.Len() == 0:
			case t == q.bias && q.bias8:
				q.Plain(t)
				q.DType(t, dtype.BFloat16)
				q.perGroup(t, 1)
			default:
				q.Invalid("%v is given; with an int8 weight it is not supported", t)
			}
		}
		return
	}
	blocks := int64(1)
	if q.blocked && q.scale.Rank() == 3 {
		blocks = q.scale.Dim(1)
	}
	if blocks < 1 || q.k%blocks != 0 {
		q.Invalid("%v cuts the %d rows of %v into %d blocks; they must be equal", q.scale, q.k, q.weight, blocks)
	}
	q.perGroup(q.scale, blocks)
	q.DType(q.scale, q.scale4...)
	if q.bare {
		return
	}
	if q.bias == nil {
		q.Fail(op.NullPointer, "bias is null; an int4 weight needs it")
		return
	}
	for _, t := range []*op.Tensor{q.bias, q.offset} {
		if t != nil {
			q.Plain(t)
			q.DType(t, dtype.Float32)
			q.perGroup(t, 1)
		}
	}
}

// perGroup checks per-column numbers of each weight, or of each block of its rows: [groups, n] or
// [groups, blocks, n].
func (q *quantGroups) perGroup(t *op.Tensor, blocks int64) {
	g := q.weight.Dim(0)
	if !slices.Equal(t.Shape, []int64{g, q.n}) && !slices.Equal(t.Shape, []int64{g, blocks, q.n}) {
		q.Invalid("%v must be [%d,%d] or [%d,%d,%d]: one for each column of each weight", t, g, q.n, g, blocks, q.n)
	}
}

// ofGroup returns the numbers of one group as a matrix, with a row for each block if there are several.
func ofGroup(t *op.Tensor, group int64) kernel.View { return asMatrix(t.View().Select(0, group)) }

// asMatrix views one number, or a row of numbers, as a matrix.
func asMatrix(v kernel.View) kernel.View {
	for len(v.Shape) < 2 {
		v.Shape, v.Strides = slices.Insert(slices.Clone(v.Shape), 0, 1), slices.Insert(slices.Clone(v.Strides), 0, 0)
	}
	return v
}

// run calls f with the float32 product of each group that has rows.
func (q *quantGroups) run(f func(group, first int64, product kernel.View) error) error {
	ends, err := op.GroupEnds(q.groups, q.x.Dim(0), q.counts)
	if err != nil {
		return err
	}
	x, release, err := newQuantOperand(q.Call, q.x, false).view()
	defer release()
	if err != nil {
		return err
	}
	if q.members == nil {
		return q.multiplyGroups(x, ends, 0, f)
	}
	for group, part := range q.members[:len(ends)] {
		if err := part.multiplyGroups(x, ends[:group+1], int64(group), f); err != nil {
			return err
		}
	}
	return nil
}

// multiplyGroups multiplies the rows of the groups from number on by the weights of q, of which that of group number is the first.
func (q *quantGroups) multiplyGroups(x kernel.View, ends []int64, number int64, f func(group, first int64, product kernel.View) error) error {
	first := int64(0)
	if number > 0 {
		first = ends[number-1]
	}
	if ends[len(ends)-1] == first {
		return nil
	}
	right := newQuantOperand(q.Call, q.weight, q.transposed)
	weights, release, err := right.view()
	defer release()
	if err != nil {
		return err
	}
	for group := number; group < int64(len(ends)); group++ {
		n := ends[group] - first
		if n == 0 {
			continue
		}
		report := func(first int64, product kernel.View) error { return f(group, first, product) }
		if err := q.multiply(x.Narrow(0, first, n), group-number, first, n, weights.Select(0, group-number), right.tile(), report); err != nil {
			return err
		}
		first = ends[group]
	}
	return nil
}

// multiply multiplies n rows x from number first on by the weight of a group.
func (q *quantGroups) multiply(x kernel.View, group, first, n int64, weight kernel.View, tile int64, f func(int64, kernel.View) error) error {
	out, release := kernel.Temporary(n, q.n)
	defer release()
	rows := q.rows.As([]int64{q.x.Dim(0), 1}, []int64{q.rows.Strides[0], 0}).Narrow(0, first, n)
	p := gemmkernel.QuantProduct{Out: out, A: x, B: weight, Scale: scaleView(ofGroup(q.scale, group)), NZ: tile}
	if tile > 0 {
		// The weight of a group in FRACTAL_NZ starts at its first tile.
		p.B.Data = unsafe.Add(q.weight.Data, group*op.Count(op.NZShape([]int64{q.k, q.n}, q.transposed, tile)))
	}
	if q.weight.DType == dtype.Int8 {
		p.Rows = rows
		if err := p.Run(); err != nil {
			return err
		}
		if q.bias != nil && q.bias.Len() > 0 {
			if err := addRow(out, ofGroup(q.bias, group), 1); err != nil {
				return err
			}
		}
		return f(first, out)
	}
	if err := runBlocks(p); err != nil {
		return err
	}
	if q.bare {
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(rows)}); err != nil {
			return err
		}
		return f(first, out)
	}
	// The device multiplies by x - 8, and the bias corrects for the 8.
	eights, releaseEights := kernel.TemporaryInt8(1, q.k)
	defer releaseEights()
	if err := elementwise.Fill(eights, elementwise.Whole(8)); err != nil {
		return err
	}
	less, releaseLess := kernel.Temporary(1, q.n)
	defer releaseLess()
	p.Out, p.A = less, eights
	if err := runBlocks(p); err != nil {
		return err
	}
	if err := addRow(out, less, -1); err != nil {
		return err
	}
	if err := addRow(out, ofGroup(q.bias, group), 1); err != nil {
		return err
	}
	if q.offset != nil {
		if err := addOffsets(out, x, ofGroup(q.offset, group)); err != nil {
			return err
		}
	}
	if err := elementwise.Map(elementwise.Mul, dtype.Float32, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(rows)}); err != nil {
		return err
	}
	return f(first, out)
}

// addRow adds a row, multiplied by a factor, to each row of out.
func addRow(out, row kernel.View, factor float64) error {
	return elementwise.Map(elementwise.Add, dtype.Float32, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(row)}, elementwise.Real(factor))
}

// addOffsets adds the sums of the rows of x times the offsets of the columns, those of a weight times its scales.
func addOffsets(out, x, offsets kernel.View) error {
	sums, release := kernel.Temporary(x.Shape[0], 1)
	defer release()
	if err := rowwise.Reduce(rowwise.ReduceSum, sums.Select(1, 0), x, []int{1}, 0); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Addcmul, dtype.Float32, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(sums), elementwise.Of(offsets)}, elementwise.Real(1))
}

// runBlocks computes a product in float32. Scale has a row for each of the equal blocks of K.
func runBlocks(p gemmkernel.QuantProduct) error {
	scale, blocks := p.Scale, p.Scale.Shape[0]
	if blocks == 1 {
		return p.Run()
	}
	out, a, b, size := p.Out, p.A, p.B, p.B.Shape[0]/blocks
	part, release := kernel.Temporary(out.Shape...)
	defer release()
	for i := range blocks {
		p.A, p.B, p.Scale = a.Narrow(1, i*size, size), b.Narrow(0, i*size, size), scale.Narrow(0, i, 1)
		if i > 0 {
			p.Out = part
		}
		if err := p.Run(); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		if err := elementwise.Map(elementwise.Add, dtype.Float32, out, []elementwise.Input{elementwise.Of(out), elementwise.Of(part)}, elementwise.Real(1)); err != nil {
			return err
		}
	}
	return nil
}

// groupedGate multiplies the swish of one half of the product by the other half, and quantises
// each row by its largest magnitude. Rows after the last group are left unchanged.
func groupedGate(c *op.Call) (op.Run, error) {
	q := &quantGroups{
		Call: c, x: c.Tensor("x"), weight: c.Tensor("weight"), scale: c.Tensor("weightScale"), rows: c.Tensor("xScale"), groups: c.Tensor("groupList"),
		bias: c.Optional("bias"), scale8: op.FloatTypes, scale4: []dtype.Type{dtype.Uint64, dtype.Int64}, blocked: true,
	}
	out, scale := c.Tensor("output"), c.Tensor("outputScale")
	c.NoneOf("offset", "outputOffset")
	c.Plain(out, scale)
	if c.Err() == nil && c.Op.Name == "GroupedMatmulSwigluQuantWeightNZ" {
		q.weight.Format = dtype.FractalNZ
	}
	if q.check(); c.Err() != nil {
		return nil, c.Err()
	}
	return q.gate(out, scale, nil)
}

// gate returns the Run that multiplies the swish of one half of the product by the other half and by smooth, which may be nil, a number
// for each group or for each of its columns, and quantises the rows.
func (q *quantGroups) gate(out, scale, smooth *op.Tensor) (op.Run, error) {
	q.DType(out, dtype.Int8)
	q.DType(scale, dtype.Float32)
	if q.n%2 != 0 {
		q.Invalid("%v has %d columns; they must be two halves", q.weight, q.n)
	}
	q.Shape(out, []int64{q.x.Dim(0), q.n / 2}, "half of the columns of the product")
	q.Shape(scale, q.x.Shape[:1], "one for each row")
	if q.Err() != nil {
		return nil, q.Err()
	}
	return func(*op.Exec) error {
		return q.run(func(group, first int64, product kernel.View) error {
			n, half := product.Shape[0], q.n/2
			act, gate := product.Narrow(1, 0, half), product.Narrow(1, half, half)
			if err := elementwise.Map(elementwise.Swish, dtype.Float32, act, []elementwise.Input{elementwise.Of(act)}, elementwise.Real(1)); err != nil {
				return err
			}
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, act, []elementwise.Input{elementwise.Of(act), elementwise.Of(gate)}); err != nil {
				return err
			}
			if smooth != nil {
				if err := elementwise.Map(elementwise.Mul, dtype.Float32, act, []elementwise.Input{elementwise.Of(act), elementwise.Of(ofGroup(smooth, group))}); err != nil {
					return err
				}
			}
			return gemmkernel.DynamicQuantizer{}.Quantize(out.View().Narrow(0, first, n), scale.View().Narrow(0, first, n), act)
		})
	}, nil
}

// finalizeWeights returns the element types of the weight. CANN takes int4 weights in ND format only as int32
// elements that hold eight each.
func finalizeWeights(name string) []dtype.Type {
	switch name {
	case "GroupedMatmulFinalizeRoutingWeightNz":
		return []dtype.Type{dtype.Int8, dtype.Int4}
	case "GroupedMatmulFinalizeRoutingWeightNzV2":
		return []dtype.Type{dtype.Int8, dtype.Int4, dtype.Int32}
	}
	return []dtype.Type{dtype.Int32}
}

// ranks checks the numbers of dimensions that CANN wants with the scattered results.
func (q *quantGroups) ranks() {
	if q.weight.DType == dtype.Int8 {
		q.Rank(q.scale, 2, 2)
		return
	}
	q.Rank(q.scale, 3, 3)
	q.Rank(q.bias, 2, 2)
	if q.offset != nil {
		q.Rank(q.offset, 3, 3)
	}
}

// groupedFinalize multiplies the rows of the product by the weights of their experts and adds
// them to the rows of the result that rowIndex selects. The output of shared experts is added
// too.
func groupedFinalize(c *op.Call) (op.Run, error) {
	q := &quantGroups{
		Call: c, x: c.Tensor(c.Either("x1", "x")), weight: c.Tensor(c.Either("x2", "w")), scale: c.Tensor(c.Either("scale", "scaleOptional")),
		rows: c.Tensor("pertokenScaleOptional"), groups: c.Tensor(c.Either("groupList", "groupListOptional")),
		bias: c.OptionalOf("bias", "biasOptional"), offset: c.OptionalOf("offsetOptional"),
		scale8: []dtype.Type{dtype.Float32, dtype.BFloat16}, bias8: true, scale4: []dtype.Type{dtype.Int64},
	}
	shared, logit, index, out := c.OptionalOf("sharedInput", "sharedInputOptional"), c.Tensor(c.Either("logit", "logitOptional")), c.Tensor(c.Either("rowIndex", "rowIndexOptional")), c.Tensor(c.Either("out", "y"))
	for _, name := range []string{"antiquantScaleOptional", "antiquantOffsetOptional"} {
		if c.Has(name) && c.Optional(name) != nil {
			c.Fail(op.NullPointer, "%s is given; CANN has no use for it, pass null", name)
		}
	}
	nz := strings.Contains(c.Op.Name, "WeightNz")
	if q.bias == nil && !nz {
		c.Fail(op.NullPointer, "bias is null; an int4 weight needs it")
	}
	if c.Flag("transposeX1", "transposeX") || c.Flag("transposeX2", "transposeW") {
		c.Invalid("a factor is to be transposed; that is not supported")
	}
	if kind := c.Int("dtype"); kind != 0 {
		c.Invalid("dtype is %d; only 0, float32, is supported", kind)
	}
	switch kind := c.Int("groupListType"); kind {
	case 0, 1:
		q.counts = kind == 1
	default:
		c.Invalid("groupListType is %d; 0 is ends, 1 counts", kind)
	}
	c.Plain(index, out)
	if c.DType(q.weight, finalizeWeights(c.Op.Name)...); c.Err() != nil {
		return nil, c.Err()
	}
	if nz && q.weight.Format != dtype.FractalNZ {
		c.Invalid("%v has another format than FRACTAL_NZ; cast it with aclnnNpuFormatCast, or call the operator without WeightNz", q.weight)
		return nil, c.Err()
	}
	if q.check(); c.Err() != nil {
		return nil, c.Err()
	}
	if c.Has("tuningConfigOptional") {
		if hint := c.Ints("tuningConfigOptional"); len(hint) > 0 && (hint[0] < 0 || hint[0] > q.x.Dim(0)) {
			c.Invalid("tuningConfigOptional[0] is %d; the expected rows of a group must be 0 to %d", hint[0], q.x.Dim(0))
		}
	}
	q.ranks()
	c.DType(index, op.IndexTypes...)
	c.DType(out, dtype.Float32)
	c.Shape(index, q.x.Shape[:1], "one for each row of x")
	if out.Rank() != 2 || out.Dim(1) != q.n {
		c.Invalid("%v must have 2 dimensions and %d columns", out, q.n)
		return nil, c.Err()
	}
	c.Plain(logit)
	c.DType(logit, dtype.Float32)
	c.Shape(logit, q.x.Shape[:1], "one for each row of x")
	at, factor := c.Int("sharedInputOffset"), c.Float("sharedInputWeight")
	if shared != nil {
		c.Plain(shared)
		c.DType(shared, dtype.BFloat16)
		if shared.Rank() != 2 || shared.Dim(1) != q.n || at < 0 || at > out.Dim(0)-shared.Dim(0) {
			c.Invalid("%v does not fit into %v from row %d on", shared, out, at)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		if err := elementwise.Zero(out.View()); err != nil {
			return err
		}
		if shared != nil {
			into := out.View().Narrow(0, at, shared.Dim(0))
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, into, []elementwise.Input{elementwise.Of(shared.View()), elementwise.Const(elementwise.Real(factor))}); err != nil {
				return err
			}
		}
		return q.run(func(_, first int64, product kernel.View) error {
			n := product.Shape[0]
			column := logit.As([]int64{logit.Len(), 1}, []int64{logit.Strides[0], 0}).Narrow(0, first, n)
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, product, []elementwise.Input{elementwise.Of(product), elementwise.Of(column)}); err != nil {
				return err
			}
			return indexing.PutAt(indexing.ScatterAdd, out.View(), product, []kernel.View{index.View().Narrow(0, first, n)})
		})
	}, nil
}
