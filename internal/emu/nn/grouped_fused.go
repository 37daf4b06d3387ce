package nn

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// groupedFused are products of quantised rows with the weight of their group, and what a
// layer of experts does next.
var groupedFused = table{
	"GroupedMatmulSwigluQuant": groupedGate, "GroupedMatmulSwigluQuantWeightNZ": groupedGate,
	"GroupedMatmulFinalizeRouting": groupedFinalize, "GroupedMatmulFinalizeRoutingV2": groupedFinalize, "GroupedMatmulFinalizeRoutingV3": groupedFinalize,
	"GroupedMatmulFinalizeRoutingWeightNz": groupedFinalize, "GroupedMatmulFinalizeRoutingWeightNzV2": groupedFinalize,
}

// byStorage is a tensor in FRACTAL_NZ that may be given by the shape of its storage.
func (c *Call) byStorage(t *Tensor, rank int) *Tensor {
	n := t.Rank()
	if !isNz(t.Format) || n != rank+2 {
		return t
	}
	v := *t
	v.Shape = append(slices.Clone(t.Shape[:n-4]), t.Shape[n-3]*t.Shape[n-2], t.Shape[n-4]*t.Shape[n-1])
	v.Strides, v.Storage = ContiguousStrides(v.Shape), slices.Clone(t.Shape)
	c.views = append(c.views, view{t: &v, of: t})
	return &v
}

// quantGroups is the product of the rows of each group with its weight, scaled back.
type quantGroups struct {
	*Call
	x, weight, scale, rows, groups *Tensor
	bias, offset                   *Tensor // of int4 weights
	counts                         bool    // groups has numbers of rows, not ends
	k, n                           int64
}

func (q *quantGroups) check() {
	q.plain(q.x, q.scale, q.rows, q.groups)
	q.weight = q.byStorage(q.weight, 3)
	if isNz(q.weight.Format) {
		q.checkNz(q.weight)
	} else {
		q.plain(q.weight)
	}
	q.DType(q.x, dtype.Int8)
	q.DType(q.rows, dtype.Float32)
	q.DType(q.groups, dtype.Int64)
	q.Rank(q.x, 2, 2)
	q.Rank(q.weight, 3, 3)
	if q.err != nil {
		return
	}
	shape := q.quantOperand(q.weight, false).shape()
	q.k, q.n = shape[1], shape[2]
	if q.x.Dim(1) != q.k {
		q.Invalid("%v and %v cannot be multiplied", q.x, q.weight)
	}
	q.Shape(q.rows, q.x.Shape[:1], "one for each row of x")
	q.Shape(q.groups, shape[:1], "one for each weight")
	q.perGroup(q.scale)
	if q.weight.DType == dtype.Int8 {
		q.DType(q.scale, dtype.Float32, dtype.BFloat16)
		for _, t := range []*Tensor{q.bias, q.offset} {
			if t != nil && t.Len() > 0 {
				q.Invalid("%v is given; with an int8 weight it is not supported", t)
			}
		}
		q.bias, q.offset = nil, nil
		return
	}
	q.DType(q.scale, dtype.Int64, dtype.Uint64)
	if q.bias == nil {
		q.Fail(nullPointer, "bias is null; an int4 weight needs it")
		return
	}
	for _, t := range []*Tensor{q.bias, q.offset} {
		if t != nil {
			q.plain(t)
			q.DType(t, dtype.Float32)
			q.perGroup(t)
		}
	}
}

// perGroup checks numbers for the columns of each weight: [groups, n] or [groups, 1, n].
func (q *quantGroups) perGroup(t *Tensor) {
	g := q.weight.Dim(0)
	if !slices.Equal(t.Shape, []int64{g, q.n}) && !slices.Equal(t.Shape, []int64{g, 1, q.n}) {
		q.Invalid("%v must be [%d,%d] or [%d,1,%d]: one for each column of each weight", t, g, q.n, g, q.n)
	}
}

// of is the row of numbers of a group.
func (q *quantGroups) of(t *Tensor, group int64) kernel.View {
	v := t.View().Select(0, group)
	return kernel.View{Data: v.Data, DType: v.DType, Shape: []int64{1, q.n}, Strides: []int64{0, v.Strides[len(v.Strides)-1]}}
}

// run calls f with the product of each group that has rows, in float32.
func (q *quantGroups) run(f func(first int64, product kernel.View) error) error {
	ends, err := endsOf(q.groups, q.x.Dim(0), q.counts)
	if err != nil {
		return err
	}
	right := q.quantOperand(q.weight, false)
	weights, release, err := right.view()
	defer release()
	if err != nil {
		return err
	}
	first := int64(0)
	for group, end := range ends {
		if end == first {
			continue
		}
		if err := q.multiply(int64(group), first, end-first, weights.Select(0, int64(group)), right.tile(), f); err != nil {
			return err
		}
		first = end
	}
	return nil
}

func (q *quantGroups) multiply(group, first, n int64, weight kernel.View, tile int64, f func(int64, kernel.View) error) error {
	out, release := kernel.Temporary(n, q.n)
	defer release()
	x, d := q.x.View().Narrow(0, first, n), dtype.Float32
	rows := q.rows.As([]int64{q.x.Dim(0), 1}, []int64{q.rows.Strides[0], 0}).Narrow(0, first, n)
	p := kernel.QuantProduct{Out: out, A: x, B: weight, Scale: scaleView(q.of(q.scale, group)), NZ: tile}
	if tile > 0 {
		// A weight in FRACTAL_NZ begins where its tiles do.
		p.B.Data = unsafe.Add(q.weight.host, group*count(nzShape([]int64{q.k, q.n}, false, tile)))
	}
	if q.weight.DType == dtype.Int8 {
		p.Rows = rows
		if err := p.Run(); err != nil {
			return err
		}
		return f(first, out)
	}
	// The device multiplies by x - 8, which the bias makes up for.
	if err := p.Run(); err != nil {
		return err
	}
	eights, releaseEights := kernel.TemporaryInt8(1, q.k)
	defer releaseEights()
	if err := kernel.Fill(eights, kernel.Whole(8)); err != nil {
		return err
	}
	less, releaseLess := kernel.Temporary(1, q.n)
	defer releaseLess()
	p.Out, p.A = less, eights
	if err := p.Run(); err != nil {
		return err
	}
	add := func(t kernel.View, factor float64) error {
		return kernel.Map(kernel.Add, d, out, []kernel.Input{kernel.Of(out), kernel.Of(t)}, kernel.Real(factor))
	}
	if err := add(less, -1); err != nil {
		return err
	}
	if err := add(q.of(q.bias, group), 1); err != nil {
		return err
	}
	if q.offset != nil {
		sums, releaseSums := kernel.Temporary(n, 1)
		defer releaseSums()
		if err := kernel.Reduce(kernel.ReduceSum, sums.Select(1, 0), x, []int{1}, 0); err != nil {
			return err
		}
		in := []kernel.Input{kernel.Of(out), kernel.Of(sums), kernel.Of(q.of(q.offset, group))}
		if err := kernel.Map(kernel.Addcmul, d, out, in, kernel.Real(1)); err != nil {
			return err
		}
	}
	if err := kernel.Map(kernel.Mul, d, out, []kernel.Input{kernel.Of(out), kernel.Of(rows)}); err != nil {
		return err
	}
	return f(first, out)
}

// groupedGate multiplies the swish of one half of the product by the other half, and
// quantises each row by its extreme. Rows behind the last group are left alone.
func groupedGate(c *Call) (Run, error) {
	q := &quantGroups{Call: c, x: c.Tensor("x"), weight: c.Tensor("weight"), scale: c.Tensor("weightScale"), rows: c.Tensor("xScale"), groups: c.Tensor("groupList")}
	out, scale := c.Tensor("output"), c.Tensor("outputScale")
	c.noneOf("bias", "offset", "outputOffset")
	c.DType(q.weight, dtype.Int8)
	c.plain(out, scale)
	if c.err == nil && c.op.name == "GroupedMatmulSwigluQuantWeightNZ" {
		q.weight.Format = dtype.FractalNZ
	}
	if q.check(); c.err != nil {
		return nil, c.err
	}
	c.DType(out, dtype.Int8)
	c.DType(scale, dtype.Float32)
	if q.n%2 != 0 {
		c.Invalid("%v has %d columns; they must be two halves", q.weight, q.n)
	}
	c.Shape(out, []int64{q.x.Dim(0), q.n / 2}, "half of the columns of the product")
	c.Shape(scale, q.x.Shape[:1], "one for each row")
	if c.err != nil {
		return nil, c.err
	}
	return func(*Exec) error {
		return q.run(func(first int64, product kernel.View) error {
			n, half := product.Shape[0], q.n/2
			act, gate := product.Narrow(1, 0, half), product.Narrow(1, half, half)
			if err := kernel.Map(kernel.Swish, dtype.Float32, act, []kernel.Input{kernel.Of(act)}, kernel.Real(1)); err != nil {
				return err
			}
			if err := kernel.Map(kernel.Mul, dtype.Float32, act, []kernel.Input{kernel.Of(act), kernel.Of(gate)}); err != nil {
				return err
			}
			return kernel.DynamicQuantizer{}.Quantize(out.View().Narrow(0, first, n), scale.View().Narrow(0, first, n), act)
		})
	}, nil
}

// groupedFinalize adds the rows of the product, times the weight of their expert, to the rows
// of the result that they belong to, over what shared experts give.
func groupedFinalize(c *Call) (Run, error) {
	q := &quantGroups{
		Call: c, x: c.Tensor(c.either("x1", "x")), weight: c.Tensor(c.either("x2", "w")), scale: c.Tensor(c.either("scale", "scaleOptional")),
		rows: c.Tensor("pertokenScaleOptional"), groups: c.Tensor(c.either("groupList", "groupListOptional")),
		bias: c.optionalOf("bias", "biasOptional"), offset: c.optionalOf("offsetOptional"),
	}
	shared, logit, index, out := c.optionalOf("sharedInput", "sharedInputOptional"), c.optionalOf("logit", "logitOptional"), c.Tensor(c.either("rowIndex", "rowIndexOptional")), c.Tensor(c.either("out", "y"))
	c.noneOf("antiquantScaleOptional", "antiquantOffsetOptional")
	if c.flag("transposeX1", "transposeX") || c.flag("transposeX2", "transposeW") {
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
	c.plain(index, out)
	if q.check(); c.err != nil {
		return nil, c.err
	}
	c.DType(index, indexTypes...)
	c.DType(out, dtype.Float32)
	c.Shape(index, q.x.Shape[:1], "one for each row of x")
	if out.Rank() != 2 || out.Dim(1) != q.n {
		c.Invalid("%v must have 2 dimensions and %d columns", out, q.n)
		return nil, c.err
	}
	if logit != nil {
		c.plain(logit)
		c.DType(logit, dtype.Float32)
		c.Shape(logit, q.x.Shape[:1], "one for each row of x")
	}
	at, factor := c.Int("sharedInputOffset"), c.Float("sharedInputWeight")
	if shared != nil {
		c.plain(shared)
		c.DType(shared, dtype.BFloat16)
		if shared.Rank() != 2 || shared.Dim(1) != q.n || at < 0 || at+shared.Dim(0) > out.Dim(0) {
			c.Invalid("%v does not fit into %v from row %d on", shared, out, at)
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	return func(*Exec) error {
		if err := kernel.Zero(out.View()); err != nil {
			return err
		}
		if shared != nil {
			into := out.View().Narrow(0, at, shared.Dim(0))
			if err := kernel.Map(kernel.Mul, dtype.Float32, into, []kernel.Input{kernel.Of(shared.View()), kernel.Const(kernel.Real(factor))}); err != nil {
				return err
			}
		}
		return q.run(func(first int64, product kernel.View) error {
			n := product.Shape[0]
			if logit != nil {
				column := logit.As([]int64{logit.Len(), 1}, []int64{logit.Strides[0], 0}).Narrow(0, first, n)
				if err := kernel.Map(kernel.Mul, dtype.Float32, product, []kernel.Input{kernel.Of(product), kernel.Of(column)}); err != nil {
					return err
				}
			}
			return kernel.PutAt(kernel.ScatterAdd, out.View(), product, []kernel.View{index.View().Narrow(0, first, n)})
		})
	}, nil
}
