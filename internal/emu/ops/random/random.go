package random

import (
	"math"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/random"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// randoms lists the operators that draw from distributions. A seed and an offset determine every
// element (random.Philox), but the numbers differ from the device's. The Tensor forms read seed
// and offset on the stream.
var randoms = op.Table{
	"InplaceUniform": uniform, "InplaceUniformTensor": uniform,
	"InplaceNormal": normalInPlace, "InplaceNormalTensor": normalInPlace,
	"NormalFloatFloat": normalFrom, "NormalFloatTensor": normalFrom, "NormalTensorFloat": normalFrom, "NormalTensorTensor": normalFrom,
	"InplaceRandom": randomIntegers, "InplaceRandomTensor": randomIntegers,
	"InplaceRandomWithoutFromTo": randomIntegers, "InplaceRandomWithoutFromToTensor": randomIntegers,
	"Bernoulli": bernoulli, "BernoulliTensor": bernoulli, "InplaceBernoulli": bernoulli, "InplaceBernoulliTensor": bernoulli,
	"SimThreadExponential": exponential,
	"Randperm":             randomPermutation, "Multinomial": multinomial, "MultinomialTensor": multinomial,
}.Overwrites("InplaceUniform", "InplaceUniformTensor", "InplaceNormal", "InplaceNormalTensor", "InplaceRandom", "InplaceRandomTensor", "InplaceRandomWithoutFromTo", "InplaceRandomWithoutFromToTensor", "InplaceBernoulli", "InplaceBernoulliTensor")

// drawn returns the Run that fills out from the generator.
func drawn(c *op.Call, out *op.Tensor, draw func(p random.Philox) error) (op.Run, error) {
	c.Plain(out)
	if !out.DType.IsComplex() { // CANN's rules refuse complex numbers where the operator has none
		c.Countable(out)
	}
	generator := c.Generator()
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		p, err := generator()
		if err != nil {
			return err
		}
		return draw(p)
	}, nil
}

func uniform(c *op.Call) (op.Run, error) {
	self, lo, hi := c.Tensor("selfRef"), c.Float("from"), c.Float("to")
	if !(lo <= hi) {
		c.Invalid("from %v is larger than to %v", lo, hi)
	}
	return drawn(c, self, func(p random.Philox) error { return p.Uniform(self.View(), lo, hi) })
}

// exponential draws from the exponential distribution with rate lambda.
func exponential(c *op.Call) (op.Run, error) {
	self, rate := c.Tensor("selfRef"), c.Float("lambda")
	c.Plain(self)
	c.DType(self, op.FloatTypes...)
	if !(rate > 0) {
		c.Invalid("lambda is %v; it must be above 0", rate)
	}
	if n := c.Int("count"); n != self.Len() {
		c.Invalid("count is %d; it must be the number of elements of %v", n, self)
	}
	return drawn(c, self, func(p random.Philox) error {
		t, release := kernel.Temporary(self.Shape...)
		defer release()
		if err := p.Uniform(t, 0, 1); err != nil {
			return err
		}
		for _, op := range []elementwise.Op{elementwise.Neg, elementwise.Log1p} {
			if err := elementwise.Map(op, dtype.Float32, t, []elementwise.Input{elementwise.Of(t)}); err != nil {
				return err
			}
		}
		return elementwise.Map(elementwise.Mul, dtype.Float32, self.View(), []elementwise.Input{elementwise.Of(t), elementwise.Const(elementwise.Real(-1 / rate))})
	})
}

func deviation(c *op.Call, x float64) float64 {
	if !(x >= 0) {
		c.Invalid("std is %v; it must not be negative", x)
	}
	return x
}

func normalInPlace(c *op.Call) (op.Run, error) {
	self, mean, std := c.Tensor("selfRef"), c.Float("mean"), deviation(c, c.Float("std"))
	return drawn(c, self, func(p random.Philox) error {
		return p.Normal(self.View(), elementwise.Const(elementwise.Real(mean)), elementwise.Const(elementwise.Real(std)))
	})
}

// normalFrom accepts mean and std as numbers or as tensors that broadcast to out.
func normalFrom(c *op.Call) (op.Run, error) {
	out := c.Tensor("out")
	read := func(name string) func() elementwise.Input {
		if c.Class(name) != op.TensorClass {
			n := elementwise.Real(c.Float(name))
			return func() elementwise.Input { return elementwise.Const(n) }
		}
		t := c.Tensor(name)
		c.Countable(t)
		if shape, ok := op.BroadcastShape(t.Shape, out.Shape); !ok || !slices.Equal(shape, out.Shape) {
			c.Invalid("%v does not broadcast to %v", t, out)
		}
		return func() elementwise.Input { return elementwise.Of(t.View()) }
	}
	mean, std := read("mean"), read("std")
	if strings.HasSuffix(c.Op.Name, "Float") {
		deviation(c, c.Float("std"))
	}
	return drawn(c, out, func(p random.Philox) error { return p.Normal(out.View(), mean(), std()) })
}

// randomIntegers draws integers below to. Without bounds it draws from 0 up to the largest
// integer below which the dtype represents all integers.
func randomIntegers(c *op.Call) (op.Run, error) {
	self := c.Tensor("selfRef")
	lo, n := int64(0), uint64(0)
	if c.Has("from") {
		lo = c.Int("from")
		if to := c.Int("to"); to <= lo {
			c.Invalid("from %d must be smaller than to %d", lo, to)
		} else {
			n = uint64(to) - uint64(lo)
		}
	} else {
		n = wholeNumbers(self.DType)
	}
	return drawn(c, self, func(p random.Philox) error {
		if !self.DType.IsComplex() {
			return p.Integers(self.View(), lo, n)
		}
		re, im := self.Parts()
		if err := p.Integers(re, lo, n); err != nil {
			return err
		}
		return elementwise.Fill(im, elementwise.Whole(0))
	})
}

// wholeNumbers returns how many consecutive integers from 0 on a type represents exactly;
// 0 stands for 2^64.
func wholeNumbers(d dtype.Type) uint64 {
	switch d {
	case dtype.Bool:
		return 2
	case dtype.BFloat16:
		return 1<<8 + 1
	case dtype.Float16:
		return 1<<11 + 1
	case dtype.Float32:
		return 1<<24 + 1
	case dtype.Float64:
		return 1<<53 + 1
	case dtype.Uint64:
		return 0
	}
	if op.Unsigned(d) {
		return 1 << d.Bits()
	}
	return 1 << (d.Bits() - 1)
}

// bernoulli draws 0 and 1. In the forms with an output, self only provides the shape.
func bernoulli(c *op.Call) (op.Run, error) {
	self, out := c.Target()
	c.SameShape(self, out)
	v := pointwise.Argument(c, "prob")
	probability := func() elementwise.Input {
		if v.Tensor.Len() == 1 { // for every element
			return elementwise.Of(v.Tensor.As(out.Shape, make([]int64, out.Rank())))
		}
		return elementwise.Of(v.Tensor.View())
	}
	if v.Scalar != nil {
		x := v.Scalar.Float64()
		if !(x >= 0 && x <= 1) {
			c.Invalid("prob is %v; it must be in [0, 1]", x)
		}
		probability = func() elementwise.Input { return elementwise.Const(elementwise.Real(x)) }
	} else {
		c.Countable(v.Tensor)
		if !v.Tensor.DType.IsFloat() {
			c.Invalid("%v must have a floating-point dtype", v.Tensor)
		}
		if v.Tensor.Len() != 1 {
			c.SameShape(out, v.Tensor)
		}
	}
	return drawn(c, out, func(p random.Philox) error { return p.Bernoulli(out.View(), probability()) })
}

func randomPermutation(c *op.Call) (op.Run, error) {
	n, out := c.Int("n"), c.Tensor("out")
	c.Shape(out, []int64{n}, "n numbers")
	return drawn(c, out, func(p random.Philox) error { return p.Permutation(out.View()) })
}

// multinomial draws indices of the elements of each row of self, which is a matrix or a single
// row.
func multinomial(c *op.Call) (op.Run, error) {
	self, out, n, replace := c.Tensor("self"), c.Tensor("out"), c.Int("numsamples"), c.Bool("replacement")
	c.Plain(self)
	c.DType(self, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64)
	c.DType(out, dtype.Int64)
	c.Rank(self, 1, 2)
	if err := c.Err(); err != nil {
		return nil, err
	}
	if k := self.Dim(-1); n < 1 || k == 0 || !replace && n > k {
		c.Invalid("numsamples is %d; it must be positive, and without replacement at most the %d weights of %v", n, k, self)
	}
	want := slices.Clone(self.Shape)
	want[len(want)-1] = n
	c.Shape(out, want, "numsamples for each row of self")
	return drawn(c, out, func(p random.Philox) error { return p.Multinomial(out.View(), self.View(), replace) })
}

// probability reads the drop probability.
func probability(c *op.Call, name string) float64 {
	p := c.Float(name)
	if math.IsNaN(p) || p < 0 || p > 1 {
		c.Invalid("%s is %v; it must be in [0, 1]", name, p)
	}
	return p
}
