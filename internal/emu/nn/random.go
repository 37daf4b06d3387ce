package nn

import (
	"math"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// randoms draw from distributions: a seed and an offset fix every element (kernel.Philox;
// the numbers are not those of the device). The Tensor forms read both on the stream.
var randoms = table{
	"InplaceUniform": uniform, "InplaceUniformTensor": uniform,
	"InplaceNormal": normalInPlace, "InplaceNormalTensor": normalInPlace,
	"NormalFloatFloat": normalFrom, "NormalFloatTensor": normalFrom, "NormalTensorFloat": normalFrom, "NormalTensorTensor": normalFrom,
	"InplaceRandom": randomIntegers, "InplaceRandomTensor": randomIntegers,
	"InplaceRandomWithoutFromTo": randomIntegers, "InplaceRandomWithoutFromToTensor": randomIntegers,
	"Bernoulli": bernoulli, "BernoulliTensor": bernoulli, "InplaceBernoulli": bernoulli, "InplaceBernoulliTensor": bernoulli,
	"SimThreadExponential": exponential,
	"Randperm":             randomPermutation, "Multinomial": multinomial, "MultinomialTensor": multinomial,
}

// generator reads seed and offset. The result is called in Run.
func (c *Call) generator() func() (kernel.Philox, error) {
	offset := uint64(c.Int("offset"))
	if !c.Has("seedTensor") {
		seed := uint64(c.Int("seed"))
		return func() (kernel.Philox, error) { return kernel.Philox{Seed: seed, Offset: offset}, nil }
	}
	seed, base := c.Tensor("seedTensor"), c.Tensor("offsetTensor")
	for _, t := range []*Tensor{seed, base} {
		c.DType(t, dtype.Int64)
		if t.Len() != 1 {
			c.Invalid("%v must have one element", t)
		}
	}
	return func() (kernel.Philox, error) {
		s, err := kernel.Indices(seed.View())
		if err != nil {
			return kernel.Philox{}, err
		}
		o, err := kernel.Indices(base.View())
		if err != nil {
			return kernel.Philox{}, err
		}
		return kernel.Philox{Seed: uint64(s[0]), Offset: uint64(o[0]) + offset}, nil
	}
}

// drawn is the Run that fills out from the generator.
func (c *Call) drawn(out *Tensor, draw func(p kernel.Philox) error) (Run, error) {
	c.countable(out)
	generator := c.generator()
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
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

func uniform(c *Call) (Run, error) {
	self, lo, hi := c.Tensor("selfRef"), c.Float("from"), c.Float("to")
	if !(lo <= hi) {
		c.Invalid("from %v is larger than to %v", lo, hi)
	}
	return c.drawn(self, func(p kernel.Philox) error { return p.Uniform(self.View(), lo, hi) })
}

// exponential draws from the distribution of the waiting times of events at the rate lambda.
func exponential(c *Call) (Run, error) {
	self, rate := c.Tensor("selfRef"), c.Float("lambda")
	c.plain(self)
	c.DType(self, transformerTypes...)
	if !(rate > 0) {
		c.Invalid("lambda is %v; it must be above 0", rate)
	}
	if n := c.Int("count"); n != self.Len() {
		c.Invalid("count is %d; it must be the number of elements of %v", n, self)
	}
	return c.drawn(self, func(p kernel.Philox) error {
		t, release := kernel.Temporary(self.Shape...)
		defer release()
		if err := p.Uniform(t, 0, 1); err != nil {
			return err
		}
		for _, op := range []kernel.Op{kernel.Neg, kernel.Log1p} {
			if err := kernel.Map(op, dtype.Float32, t, []kernel.Input{kernel.Of(t)}); err != nil {
				return err
			}
		}
		return kernel.Map(kernel.Mul, dtype.Float32, self.View(), []kernel.Input{kernel.Of(t), kernel.Const(kernel.Real(-1 / rate))})
	})
}

func (c *Call) deviation(x float64) float64 {
	if !(x >= 0) {
		c.Invalid("std is %v; it must not be negative", x)
	}
	return x
}

func normalInPlace(c *Call) (Run, error) {
	self, mean, std := c.Tensor("selfRef"), c.Float("mean"), c.deviation(c.Float("std"))
	return c.drawn(self, func(p kernel.Philox) error {
		return p.Normal(self.View(), kernel.Const(kernel.Real(mean)), kernel.Const(kernel.Real(std)))
	})
}

// normalFrom takes mean and std as numbers or as tensors that broadcast to out.
func normalFrom(c *Call) (Run, error) {
	out := c.Tensor("out")
	read := func(name string) func() kernel.Input {
		i := slices.IndexFunc(c.op.params, func(p param) bool { return p.name == name })
		if c.op.params[i].class != tensorClass {
			n := kernel.Real(c.Float(name))
			return func() kernel.Input { return kernel.Const(n) }
		}
		t := c.Tensor(name)
		c.countable(t)
		if shape, ok := broadcastShape(t.Shape, out.Shape); !ok || !slices.Equal(shape, out.Shape) {
			c.Invalid("%v does not broadcast to %v", t, out)
		}
		return func() kernel.Input { return kernel.Of(t.View()) }
	}
	mean, std := read("mean"), read("std")
	if strings.HasSuffix(c.op.name, "Float") {
		c.deviation(c.Float("std"))
	}
	return c.drawn(out, func(p kernel.Philox) error { return p.Normal(out.View(), mean(), std()) })
}

// randomIntegers draws whole numbers below to, or without bounds all that the dtype holds
// exactly, from 0 on.
func randomIntegers(c *Call) (Run, error) {
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
	return c.drawn(self, func(p kernel.Philox) error { return p.Integers(self.View(), lo, n) })
}

// wholeNumbers is how many whole numbers from 0 on a type holds exactly, without a gap.
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
	if unsigned(d) {
		return 1 << d.Bits()
	}
	return 1 << (d.Bits() - 1)
}

// bernoulli draws 0 and 1. self gives the shape of the forms with an output.
func bernoulli(c *Call) (Run, error) {
	self, out := c.target()
	c.SameShape(self, out)
	v := c.operand("prob")
	probability := func() kernel.Input { return kernel.Of(v.tensor.View()) }
	if v.scalar != nil {
		x := v.scalar.Float64()
		if !(x >= 0 && x <= 1) {
			c.Invalid("prob is %v; it must be in [0, 1]", x)
		}
		probability = func() kernel.Input { return kernel.Const(kernel.Real(x)) }
	} else {
		c.countable(v.tensor)
		if !v.tensor.DType.IsFloat() {
			c.Invalid("%v must have a floating-point dtype", v.tensor)
		}
		c.SameShape(out, v.tensor)
	}
	return c.drawn(out, func(p kernel.Philox) error { return p.Bernoulli(out.View(), probability()) })
}

func randomPermutation(c *Call) (Run, error) {
	n, out := c.Int("n"), c.Tensor("out")
	c.Shape(out, []int64{n}, "n numbers")
	return c.drawn(out, func(p kernel.Philox) error { return p.Permutation(out.View()) })
}

// multinomial draws places in the rows of self, a matrix or one row.
func multinomial(c *Call) (Run, error) {
	self, out, n, replace := c.Tensor("self"), c.Tensor("out"), c.Int("numsamples"), c.Bool("replacement")
	c.plain(self)
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
	return c.drawn(out, func(p kernel.Philox) error { return p.Multinomial(out.View(), self.View(), replace) })
}

// probability reads the chance of an element to be dropped.
func (c *Call) probability(name string) float64 {
	p := c.Float(name)
	if math.IsNaN(p) || p < 0 || p > 1 {
		c.Invalid("%s is %v; it must be in [0, 1]", name, p)
	}
	return p
}
