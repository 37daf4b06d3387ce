package reduction

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// reduction describes an operator that reduces dimensions, as an entry of the tables.
type reduction struct {
	op        rowwise.Reduction
	parameter func(c *op.Call) float64
	real      bool // requires a floating-point output
	nonempty  bool // undefined for zero elements
	fills     bool // of zero elements out is filled, whatever its shape
	converts  bool // self is cast to the type of out first, of any type
}

// reductions lists the operators that reduce dimensions.
var reductions = op.Table{
	"ReduceSum":         reduction{op: rowwise.ReduceSum, fills: true, converts: true}.prepare,
	"ReduceNansum":      reduction{op: rowwise.ReduceNanSum, fills: true}.prepare,
	"Mean":              reduction{op: rowwise.ReduceMean, real: true}.prepare,
	"MeanV2":            reduction{op: rowwise.ReduceMean, real: true}.prepare,
	"Prod":              reduction{op: rowwise.ReduceProd, fills: true, converts: true}.prepare,
	"ProdDim":           reduction{op: rowwise.ReduceProd, fills: true, converts: true}.prepare,
	"Max":               reduction{op: rowwise.ReduceMax, nonempty: true}.prepare,
	"Min":               reduction{op: rowwise.ReduceMin, nonempty: true}.prepare,
	"Amax":              reduction{op: rowwise.ReduceMax, nonempty: true}.prepare,
	"Amin":              reduction{op: rowwise.ReduceMin, nonempty: true}.prepare,
	"MaxV2":             reduction{op: rowwise.ReduceMax, nonempty: true}.prepare,
	"Any":               reduction{op: rowwise.ReduceAny, fills: true}.prepare,
	"All":               reduction{op: rowwise.ReduceAll}.prepare,
	"LogSumExp":         reduction{op: rowwise.ReduceLogSumExp, real: true}.prepare,
	"Norm":              reduction{op: rowwise.ReduceNorm, real: true, parameter: normOrder("pScalar")}.prepare,
	"LinalgVectorNorm":  reduction{op: rowwise.ReduceNorm, real: true, parameter: normOrder("ord")}.prepare,
	"Var":               reduction{op: rowwise.ReduceVar, real: true, parameter: correction}.prepare,
	"VarCorrection":     reduction{op: rowwise.ReduceVar, real: true, parameter: correction}.prepare,
	"Std":               reduction{op: rowwise.ReduceStd, real: true, parameter: correction}.prepare,
	"VarMean":           moments(rowwise.ReduceVar, "varOut"),
	"StdMeanCorrection": moments(rowwise.ReduceStd, "stdOut"),
	"Aminmax":           aminmax,
	"AminmaxDim":        aminmax,
	"AminmaxAll":        aminmax,
	"MaxDim":            extreme(true),
	"MinDim":            extreme(false),
	"ArgMax":            extreme(true),
	"ArgMin":            extreme(false),
}

// normOrder reads the order of a norm; null means 2.
func normOrder(name string) func(c *op.Call) float64 {
	return func(c *op.Call) float64 {
		if s := c.OptionalScalar(name); s != nil {
			return s.Float64()
		}
		return 2
	}
}

// correction returns the number that a variance subtracts from the number of elements.
func correction(c *op.Call) float64 {
	switch {
	case c.Has("correction"):
		return float64(c.Int("correction"))
	case c.Bool("unbiased"):
		return 1
	}
	return 0
}

// axes reads the dimensions to reduce, under the name and type that the operator uses. An empty
// or null list means all dimensions. It also returns whether they are kept with size 1.
func axes(c *op.Call, self *op.Tensor) (axes []int, keep bool) {
	for _, p := range c.Op.Params {
		switch p.Name {
		case "keepdim", "keepDim", "keepDims":
			keep = c.Bool(p.Name)
		case "dim", "dims":
			if p.Class == op.IntClass {
				axes = []int{c.Axis(self, c.Int(p.Name))}
				continue
			}
			for _, d := range c.Ints(p.Name) {
				axis := c.Axis(self, d)
				if slices.Contains(axes, axis) {
					c.Invalid("%s %v names dimension %d twice", p.Name, c.Ints(p.Name), axis)
				}
				axes = append(axes, axis)
			}
		}
	}
	if len(axes) == 0 {
		if skip := "noopWithEmptyAxes"; c.Has(skip) && c.Bool(skip) || c.Has("noopWithEmptyDims") && c.Bool("noopWithEmptyDims") {
			return nil, keep
		}
		for i := range self.Rank() {
			axes = append(axes, i)
		}
	}
	return slices.DeleteFunc(axes, func(i int) bool { return i >= self.Rank() }), keep
}

// reduced checks that out has the shape of self without axes. It returns a function, to be
// called in Run, that views out in that shape.
func reduced(c *op.Call, out, self *op.Tensor, axes []int, keep bool) func() kernel.View {
	for _, t := range []*op.Tensor{out, self} {
		if !kernel.Computes(t.DType) {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
	place := placed(c, out, self, axes, keep)
	return func() kernel.View { return place(out.View()) }
}

// placed checks that out has the shape of self without axes. It returns a function that gives a view of
// out, or of a part of its elements, that shape.
func placed(c *op.Call, out, self *op.Tensor, axes []int, keep bool) func(of kernel.View) kernel.View {
	c.Plain(out, self)
	want, shape, at := []int64{}, []int64{}, []int{}
	for i, d := range self.Shape {
		switch {
		case !slices.Contains(axes, i):
			want = append(want, d)
		case keep:
			want = append(want, 1)
		}
	}
	// CANN takes all shapes of one element for the same, except in LogSumExp.
	if op.Count(want) != 1 || out.Len() != 1 || c.Op.Name == "LogSumExp" {
		c.Shape(out, want, "self without the reduced dimensions")
	}
	if c.Err() != nil {
		return nil
	}
	next := 0
	for i, d := range self.Shape {
		if !slices.Contains(axes, i) {
			shape, at = append(shape, d), append(at, next)
		}
		if keep || !slices.Contains(axes, i) {
			next++
		}
	}
	return func(of kernel.View) kernel.View {
		strides := make([]int64, len(at))
		for i, k := range at {
			if k < len(of.Strides) {
				strides[i] = of.Strides[k]
			}
		}
		of.Shape, of.Strides = shape, strides
		return of
	}
}

// prepare prepares the form with one output.
func (r reduction) prepare(c *op.Call) (op.Run, error) {
	i := slices.IndexFunc(c.Op.Params, func(p op.Param) bool { return p.Class == op.TensorClass })
	self := c.Tensor(c.Op.Params[i].Name)
	axes, keep := axes(c, self)
	return r.run(c, c.Tensor("out"), self, axes, keep)
}

func (r reduction) run(c *op.Call, out, self *op.Tensor, axes []int, keep bool) (op.Run, error) {
	if c.Has("dtype") {
		if want := dtype.Type(c.Int("dtype")); want != out.DType && want != dtype.Undefined {
			c.Invalid("%v must have dtype %v, the argument dtype", out, want)
		}
	}
	if out.DType.IsComplex() && (r.op == rowwise.ReduceSum || r.op == rowwise.ReduceMean || r.op == rowwise.ReduceProd) && self.Len() > 0 {
		return r.ofComplex(c, out, self, axes, keep)
	}
	if r.op == rowwise.ReduceMean && op.Category(out.DType) == 1 && self.Len() > 0 {
		return meanOfIntegers(c, out, self, axes, keep)
	}
	if r.real && !out.DType.IsFloat() {
		c.Invalid("%v must have a floating-point dtype", out)
	}
	if r.fills && self.Len() == 0 {
		return r.fill(c, out)
	}
	convert := r.converts && !op.Castable(self.DType, out.DType)
	if !convert && !op.Castable(self.DType, out.DType) && r.op != rowwise.ReduceAny && r.op != rowwise.ReduceAll {
		c.Invalid("%v cannot be reduced to %v", self, out)
	}
	for _, axis := range axes {
		if r.nonempty && self.Shape[axis] == 0 {
			c.Vacuous("dimension %d of %v is empty; there is no largest or smallest element", axis, self)
		}
	}
	view := reduced(c, out, self, axes, keep)
	parameter := 0.0
	if r.parameter != nil {
		parameter = r.parameter(c)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		in, fn := self.View(), r.op
		switch {
		case convert && out.DType == dtype.Bool && fn == rowwise.ReduceSum:
			fn = rowwise.ReduceAny
		case convert && out.DType == dtype.Bool: // a product
			fn = rowwise.ReduceAll
		case convert:
			t, release := kernel.TemporaryOf(out.DType, self.Shape...)
			defer release()
			if err := elementwise.Copy(t, in); err != nil {
				return err
			}
			in = t
		}
		return rowwise.Reduce(fn, view(), in, axes, parameter)
	}, nil
}

// ofComplex computes a sum, mean or product of complex numbers. Sums and means are those of the real and
// of the imaginary parts.
func (r reduction) ofComplex(c *op.Call, out, self *op.Tensor, axes []int, keep bool) (op.Run, error) {
	c.SameDType(self, out)
	if _, ok := op.PartTypes[self.DType]; !ok || self.DType == dtype.Complex32 {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	place := placed(c, out, self, axes, keep)
	if err := c.Err(); err != nil {
		return nil, err
	}
	if r.op == rowwise.ReduceProd {
		return func(*op.Exec) error { return complexProducts(out, self, axes) }, nil
	}
	return func(*op.Exec) error {
		re, im := self.Parts()
		outRe, outIm := out.Parts()
		if err := rowwise.Reduce(r.op, place(outRe), re, axes, 0); err != nil {
			return err
		}
		return rowwise.Reduce(r.op, place(outIm), im, axes, 0)
	}, nil
}

// meanOfIntegers computes the integer parts of means. The tensors have the same integers.
func meanOfIntegers(c *op.Call, out, self *op.Tensor, axes []int, keep bool) (op.Run, error) {
	c.Countable(self)
	if op.Category(self.DType) > 1 {
		c.Invalid("%v has no integers, as %v has", self, out)
	}
	placed(c, out, self, axes, keep)
	return func(*op.Exec) error {
		values, err := elementwise.Indices(self.View())
		if err != nil || out.Len() == 0 {
			return err
		}
		means := make([]int64, out.Len())
		for i, x := range values {
			means[reducedPlace(self, axes, i)] += x
		}
		for i := range means {
			means[i] /= self.Len() / out.Len()
		}
		return indexing.SetInts(out.View(), means)
	}, c.Err()
}

// complexProducts sets out to the products along axes.
func complexProducts(out, self *op.Tensor, axes []int) error {
	values, err := self.Numbers(self.Shape)
	if err != nil {
		return err
	}
	products := slices.Repeat([]complex128{1}, int(out.Len()))
	for i, x := range values {
		products[reducedPlace(self, axes, i)] *= x
	}
	return out.SetNumbers(products)
}

// reducedPlace returns the place of the result to which an element contributes.
func reducedPlace(self *op.Tensor, axes []int, element int) (at int64) {
	rest, step := int64(element), int64(1)
	for axis := self.Rank() - 1; axis >= 0; axis-- {
		n := self.Shape[axis]
		if !slices.Contains(axes, axis) {
			at += rest % n * step
			step *= n
		}
		rest /= n
	}
	return at
}

// fill sets out, whatever its shape, to the result for no elements.
func (r reduction) fill(c *op.Call, out *op.Tensor) (op.Run, error) {
	c.Plain(out)
	if !kernel.Computes(out.DType) {
		c.Invalid("%v has a dtype that is not supported", out)
	}
	n := elementwise.Whole(0)
	if r.op == rowwise.ReduceProd {
		n = elementwise.Whole(1)
	}
	return func(*op.Exec) error { return elementwise.Fill(out.View(), n) }, c.Err()
}

// moments computes a variance or deviation and the mean.
func moments(fn rowwise.Reduction, name string) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self := c.Tensor("self")
		axes, keep := axes(c, self)
		spread, err := reduction{op: fn, real: true, parameter: correction}.run(c, c.Tensor(name), self, axes, keep)
		if err != nil {
			return nil, err
		}
		mean, err := reduction{op: rowwise.ReduceMean, real: true}.run(c, c.Tensor("meanOut"), self, axes, keep)
		return op.Sequence([]op.Run{spread, mean}), err
	}
}

// aminmax computes the minimum and the maximum.
func aminmax(c *op.Call) (op.Run, error) {
	self := c.Tensor("self")
	axes, keep := axes(c, self)
	lo, err := reduction{op: rowwise.ReduceMin, nonempty: true}.run(c, c.Tensor("minOut"), self, axes, keep)
	if err != nil {
		return nil, err
	}
	hi, err := reduction{op: rowwise.ReduceMax, nonempty: true}.run(c, c.Tensor("maxOut"), self, axes, keep)
	return op.Sequence([]op.Run{lo, hi}), err
}

// extreme finds the maximum or minimum along one dimension: its index and, for the forms with
// two outputs, its value.
func extreme(largest bool) op.Prepare {
	return func(c *op.Call) (op.Run, error) {
		self := c.Tensor("self")
		axes, keep := axes(c, self)
		index := c.Tensor("out")
		var value func() kernel.View
		if c.Has("indices") {
			c.SameDType(self, index)
			value = reduced(c, index, self, axes, keep)
			index = c.Tensor("indices")
		}
		if !index.DType.IsInteger() {
			c.Invalid("%v must have an integer dtype", index)
		}
		for _, axis := range axes {
			if self.Shape[axis] == 0 {
				c.Vacuous("dimension %d of %v is empty; there is no largest or smallest element", axis, self)
			}
		}
		place := reduced(c, index, self, axes, keep)
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*op.Exec) error {
			var v kernel.View
			if value != nil {
				v = value()
			}
			return rowwise.ReduceArg(largest, v, place(), self.View(), axes)
		}, nil
	}
}
