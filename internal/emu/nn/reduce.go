package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// reduction is an operator that reduces dimensions: an entry of the tables.
type reduction struct {
	op        kernel.Reduction
	parameter func(c *Call) float64
	real      bool // needs a floating-point output
	nonempty  bool // has no result for no elements
}

// reductions are the operators that reduce dimensions.
var reductions = table{
	"ReduceSum":         reduction{op: kernel.ReduceSum}.prepare,
	"ReduceNansum":      reduction{op: kernel.ReduceNanSum}.prepare,
	"Mean":              reduction{op: kernel.ReduceMean, real: true}.prepare,
	"MeanV2":            reduction{op: kernel.ReduceMean, real: true}.prepare,
	"Prod":              reduction{op: kernel.ReduceProd}.prepare,
	"ProdDim":           reduction{op: kernel.ReduceProd}.prepare,
	"Max":               reduction{op: kernel.ReduceMax, nonempty: true}.prepare,
	"Min":               reduction{op: kernel.ReduceMin, nonempty: true}.prepare,
	"Amax":              reduction{op: kernel.ReduceMax, nonempty: true}.prepare,
	"Amin":              reduction{op: kernel.ReduceMin, nonempty: true}.prepare,
	"MaxV2":             reduction{op: kernel.ReduceMax, nonempty: true}.prepare,
	"Any":               reduction{op: kernel.ReduceAny}.prepare,
	"All":               reduction{op: kernel.ReduceAll}.prepare,
	"LogSumExp":         reduction{op: kernel.ReduceLogSumExp, real: true}.prepare,
	"Norm":              reduction{op: kernel.ReduceNorm, real: true, parameter: normOrder("pScalar")}.prepare,
	"LinalgVectorNorm":  reduction{op: kernel.ReduceNorm, real: true, parameter: normOrder("ord")}.prepare,
	"Var":               reduction{op: kernel.ReduceVar, real: true, parameter: correction}.prepare,
	"VarCorrection":     reduction{op: kernel.ReduceVar, real: true, parameter: correction}.prepare,
	"Std":               reduction{op: kernel.ReduceStd, real: true, parameter: correction}.prepare,
	"VarMean":           moments(kernel.ReduceVar, "varOut"),
	"StdMeanCorrection": moments(kernel.ReduceStd, "stdOut"),
	"Aminmax":           aminmax,
	"AminmaxDim":        aminmax,
	"AminmaxAll":        aminmax,
	"MaxDim":            extreme(true),
	"MinDim":            extreme(false),
	"ArgMax":            extreme(true),
	"ArgMin":            extreme(false),
}

// normOrder reads the order of a norm; null means 2.
func normOrder(name string) func(c *Call) float64 {
	return func(c *Call) float64 {
		if s := c.OptionalScalar(name); s != nil {
			return s.Float64()
		}
		return 2
	}
}

// correction is what a variance subtracts from the number of elements.
func correction(c *Call) float64 {
	switch {
	case c.Has("correction"):
		return float64(c.Int("correction"))
	case c.Bool("unbiased"):
		return 1
	}
	return 0
}

// axes reads the dimensions to reduce under whatever name and class the operator has: none
// or null means all of them. It also tells whether they stay with size 1.
func (c *Call) axes(self *Tensor) (axes []int, keep bool) {
	for _, p := range c.op.params {
		switch p.name {
		case "keepdim", "keepDim", "keepDims":
			keep = c.Bool(p.name)
		case "dim", "dims":
			if p.class == intClass {
				axes = []int{c.Axis(self, c.Int(p.name))}
				continue
			}
			for _, d := range c.Ints(p.name) {
				axis := c.Axis(self, d)
				if slices.Contains(axes, axis) {
					c.Invalid("%s %v names dimension %d twice", p.name, c.Ints(p.name), axis)
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

// reduced checks that out has the shape self has without axes, and returns the view of out
// in that form, to be called in Run.
func (c *Call) reduced(out, self *Tensor, axes []int, keep bool) func() kernel.View {
	c.plain(out, self)
	for _, t := range []*Tensor{out, self} {
		if !kernel.Computes(t.DType) {
			c.Invalid("%v has a dtype that is not supported", t)
		}
	}
	want, shape, strides := []int64{}, []int64{}, []int64{}
	for i, d := range self.Shape {
		switch {
		case !slices.Contains(axes, i):
			want = append(want, d)
		case keep:
			want = append(want, 1)
		}
	}
	// Where nothing is left, CANN takes one element of one dimension too.
	if len(want) > 0 || !slices.Equal(out.Shape, []int64{1}) {
		c.Shape(out, want, "self without the reduced dimensions")
	}
	if c.Err() != nil {
		return nil
	}
	at := 0
	for i, d := range self.Shape {
		if !slices.Contains(axes, i) {
			shape, strides = append(shape, d), append(strides, out.Strides[at])
		}
		if keep || !slices.Contains(axes, i) {
			at++
		}
	}
	return func() kernel.View { return out.As(shape, strides) }
}

// prepare is the form with one output.
func (r reduction) prepare(c *Call) (Run, error) {
	i := slices.IndexFunc(c.op.params, func(p param) bool { return p.class == tensorClass })
	self := c.Tensor(c.op.params[i].name)
	axes, keep := c.axes(self)
	return r.run(c, c.Tensor("out"), self, axes, keep)
}

func (r reduction) run(c *Call, out, self *Tensor, axes []int, keep bool) (Run, error) {
	if c.Has("dtype") {
		if want := dtype.Type(c.Int("dtype")); want != out.DType && want != dtype.Undefined {
			c.Invalid("%v must have dtype %v, the argument dtype", out, want)
		}
	}
	if r.real && !out.DType.IsFloat() {
		c.Invalid("%v must have a floating-point dtype", out)
	}
	if !castable(self.DType, out.DType) && r.op != kernel.ReduceAny && r.op != kernel.ReduceAll {
		c.Invalid("%v cannot be reduced to %v", self, out)
	}
	for _, axis := range axes {
		if r.nonempty && self.Shape[axis] == 0 {
			c.Invalid("dimension %d of %v is empty; there is no largest or smallest element", axis, self)
		}
	}
	view := c.reduced(out, self, axes, keep)
	parameter := 0.0
	if r.parameter != nil {
		parameter = r.parameter(c)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error { return kernel.Reduce(r.op, view(), self.View(), axes, parameter) }, nil
}

// moments computes a variance or deviation and the mean.
func moments(op kernel.Reduction, name string) Prepare {
	return func(c *Call) (Run, error) {
		self := c.Tensor("self")
		axes, keep := c.axes(self)
		spread, err := reduction{op: op, real: true, parameter: correction}.run(c, c.Tensor(name), self, axes, keep)
		if err != nil {
			return nil, err
		}
		mean, err := reduction{op: kernel.ReduceMean, real: true}.run(c, c.Tensor("meanOut"), self, axes, keep)
		return sequence([]Run{spread, mean}), err
	}
}

// aminmax computes the smallest and the largest element.
func aminmax(c *Call) (Run, error) {
	self := c.Tensor("self")
	axes, keep := c.axes(self)
	lo, err := reduction{op: kernel.ReduceMin, nonempty: true}.run(c, c.Tensor("minOut"), self, axes, keep)
	if err != nil {
		return nil, err
	}
	hi, err := reduction{op: kernel.ReduceMax, nonempty: true}.run(c, c.Tensor("maxOut"), self, axes, keep)
	return sequence([]Run{lo, hi}), err
}

// extreme finds the largest or smallest element along one dimension: its place, and for
// the forms with two outputs its value.
func extreme(largest bool) Prepare {
	return func(c *Call) (Run, error) {
		self := c.Tensor("self")
		axes, keep := c.axes(self)
		index := c.Tensor("out")
		var value func() kernel.View
		if c.Has("indices") {
			c.SameDType(self, index)
			value = c.reduced(index, self, axes, keep)
			index = c.Tensor("indices")
		}
		if !index.DType.IsInteger() {
			c.Invalid("%v must have an integer dtype", index)
		}
		for _, axis := range axes {
			if self.Shape[axis] == 0 {
				c.Invalid("dimension %d of %v is empty; there is no largest or smallest element", axis, self)
			}
		}
		place := c.reduced(index, self, axes, keep)
		if err := c.Err(); err != nil {
			return nil, err
		}
		return func(*Exec) error {
			var v kernel.View
			if value != nil {
				v = value()
			}
			return kernel.ReduceArg(largest, v, place(), self.View(), axes)
		}, nil
	}
}
