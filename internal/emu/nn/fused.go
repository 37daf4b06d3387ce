package nn

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// fused are products whose factors come from, or whose results go to, the other ranks of a
// group.
var fused = table{
	"MatmulAllReduce": matmulAllReduce, "MatmulAllReduceV2": matmulAllReduce,
	"QuantMatmulAllReduce": matmulAllReduce, "QuantMatmulAllReduceV2": matmulAllReduce, "QuantMatmulAllReduceV3": matmulAllReduce,
	"WeightQuantMatmulAllReduce": matmulAllReduce,

	"MatmulAllReduceAddRmsNorm": matmulAllReduce, "InplaceMatmulAllReduceAddRmsNorm": matmulAllReduce,
	"QuantMatmulAllReduceAddRmsNorm": matmulAllReduce, "InplaceQuantMatmulAllReduceAddRmsNorm": matmulAllReduce,
	"WeightQuantMatmulAllReduceAddRmsNorm": matmulAllReduce, "InplaceWeightQuantMatmulAllReduceAddRmsNorm": matmulAllReduce,

	"AllGatherMatmul": allGatherMatmul, "MatmulReduceScatter": matmulReduceScatter,
}

// pairTypes are those of both factors of a fused product that is not quantised.
var pairTypes = []dtype.Type{dtype.Float16, dtype.BFloat16}

// group reads the arguments that every fused product has.
func (c *Call) group() Communicator {
	if c.Has("reduceOp") {
		if op := c.RequiredText("reduceOp"); c.err == nil && op != "sum" {
			c.Invalid("reduceOp is %q; only sum is supported", op)
		}
	}
	if mode := c.Int("streamMode"); mode != 1 {
		c.Invalid("streamMode is %d; only 1 is supported", mode)
	}
	return c.communicator("group")
}

// flatProduct multiplies x1, whose leading dimensions count as rows, with x2 in the way that
// the operator's name says, and adds the bias and x3.
func (c *Call) flatProduct(x1, x2 *Tensor, d dtype.Type) (result *Tensor) {
	c.plain(x1)
	c.Rank(x1, 2, 3)
	c.Rank(x2, 2, 2)
	bias := c.optionalOf("bias", "biasOptional")
	if c.err != nil {
		return &absent
	}
	k, n := x1.Dim(-1), x2.Dim(-1)
	if k == 0 {
		c.Invalid("%v and %v: K must not be 0", x1, x2)
		return &absent
	}
	rows := x1.Len() / k
	x := c.reshaped(c.contiguous(x1), rows, k)
	result = c.scratch(d, rows, n)
	var run Run
	switch {
	case strings.Contains(c.op.name, "WeightQuant"):
		run = c.operate("WeightQuantBatchMatmulV2", weightQuantMatmul, map[string]any{
			"x": x, "weight": x2, "antiquantScale": c.Tensor("antiquantScale"), "antiquantOffsetOptional": c.Optional("antiquantOffset"),
			"biasOptional": bias, "antiquantGroupSize": c.Int("antiquantGroupSize"), "y": result,
		})
	case strings.Contains(c.op.name, "Quant"):
		run = c.operate("QuantMatmulV4", quantMatmul, map[string]any{
			"x1": x, "x2": x2, "scale": c.Tensor("dequantScale"), "pertokenScaleOptional": c.optionalOf("pertokenScaleOptional"), "bias": bias, "out": result,
		})
	default:
		c.DType(x1, pairTypes...)
		c.SameDType(x1, x2)
		p := product{out: result, a: left(x), b: right(x2), alpha: 1, types: pairTypes}
		if bias != nil {
			c.SameDType(x1, bias)
			c.Rank(bias, 1, 1)
			p.add, p.beta = bias, 1
		}
		if c.err == nil {
			run, c.err = c.product(p)
		}
	}
	x3 := c.optionalOf("x3", "x3Optional")
	if c.op.name == "MatmulAllReduceV2" {
		x3 = c.Tensor("x3")
	}
	if x3 != nil && c.err == nil {
		c.plain(x3)
		c.DType(x3, d)
		c.Shape(x3, resultShape(x1, n), "that of the product")
	}
	if c.err != nil {
		return &absent
	}
	c.compute(func(x *Exec) error {
		if err := run(x); err != nil || x3 == nil {
			return err
		}
		sum := result.As(x3.Shape, ContiguousStrides(x3.Shape))
		return kernel.Map(kernel.Add, dtype.Float32, sum, []kernel.Input{kernel.Of(sum), kernel.Of(x3.View())}, kernel.Real(1))
	})
	return result
}

// resultShape is x1's with another number of columns.
func resultShape(x1 *Tensor, n int64) []int64 {
	return append(slices.Clone(x1.Shape[:x1.Rank()-1]), n)
}

// matmulAllReduce sums the products of the ranks. With gamma it adds the result to the
// residual and normalises the sum.
func matmulAllReduce(c *Call) (Run, error) {
	comm := c.group()
	x1, x2 := c.Tensor("x1"), c.Tensor("x2")
	if c.Has("gamma") {
		return c.reducedNorm(comm, x1, x2)
	}
	output := c.Tensor("output")
	c.plain(output)
	c.DType(output, pairTypes...)
	product := c.flatProduct(x1, x2, output.DType)
	if c.err != nil {
		return nil, c.err
	}
	c.Shape(output, resultShape(x1, x2.Dim(-1)), "that of x1 with the columns of x2")
	if c.Has("commQuantScale1Optional") {
		before, after := c.Optional("commQuantScale1Optional"), c.Optional("commQuantScale2Optional")
		if (before == nil) != (after == nil) {
			c.Invalid("one of commQuantScale1Optional and commQuantScale2Optional is null; give both or none")
		} else if before != nil {
			return c.reduceInBytes(comm, output, product, before, after)
		}
	}
	c.allReduce(comm, product)
	result := c.reshaped(product, output.Shape...)
	return c.copyRun(output.View, result.View)
}

// reducedNorm is matmulAllReduce with a norm behind.
func (c *Call) reducedNorm(comm Communicator, x1, x2 *Tensor) (Run, error) {
	residual, gamma, norm := c.Tensor("residual"), c.Tensor("gamma"), c.Tensor("normOut")
	sum := residual
	if c.Has("y") {
		sum = c.Tensor("y")
	}
	c.plain(residual, norm, sum)
	c.DType(residual, pairTypes...)
	c.Rank(residual, 3, 3)
	c.Same(residual, norm, sum)
	product := c.flatProduct(x1, x2, residual.DType)
	if c.err != nil {
		return nil, c.err
	}
	n := x2.Dim(-1)
	if residual.Dim(-1) != n || residual.Len() != product.Len() || x1.Rank() == 3 && !slices.Equal(residual.Shape, resultShape(x1, n)) {
		c.Invalid("%v does not have the shape of the product of %v and %v", residual, x1, x2)
		return nil, c.err
	}
	c.Shape(gamma, []int64{n}, "a factor for each column")
	c.allReduce(comm, product)
	run := c.operate("AddRmsNorm", addRMSNorm, map[string]any{
		"x1": c.reshaped(product, residual.Shape...), "x2": residual, "gamma": gamma, "epsilon": c.Float("epsilon"),
		"yOut": norm, "rstdOut": c.scratch(dtype.Float32, residual.Shape[0], residual.Shape[1], 1), "xOut": sum,
	})
	return run, c.err
}

// reduceInBytes sums tensors that travel as int8: before and after are the scales of each
// column on the way to the sum and from it.
func (c *Call) reduceInBytes(comm Communicator, output, product, before, after *Tensor) (Run, error) {
	n := product.Dim(-1)
	for _, t := range []*Tensor{before, after} {
		c.plain(t)
		c.SameDType(output, t)
		if t.Len() != n || t.Rank() == 0 || t.Dim(-1) != n {
			c.Invalid("%v must have an element for each of %d columns", t, n)
		}
	}
	own := c.scratch(dtype.Int8, product.Shape...)
	all := c.scratch(dtype.Int8, append([]int64{int64(comm.Size)}, product.Shape...)...)
	if c.err != nil {
		return nil, c.err
	}
	row := func(t *Tensor) kernel.View { return t.As([]int64{n}, t.Strides[t.Rank()-1:]) }
	c.compute(func(*Exec) error {
		return kernel.Quantizer{Factor: row(before), Divide: true, Round: kernel.Round}.Quantize(own.View(), product.View())
	})
	c.allGather(comm, all, own)
	result := c.reshaped(product, output.Shape...)
	return func(*Exec) error {
		if product.Len() == 0 {
			return nil
		}
		f := dtype.Float32
		sum, release := kernel.Temporary(product.Shape...)
		defer release()
		if err := kernel.Reduce(kernel.ReduceSum, sum, all.View(), []int{0}, 0); err != nil {
			return err
		}
		// The sum is rounded to int8 once more, on its way back.
		if err := kernel.Map(kernel.Mul, f, sum, []kernel.Input{kernel.Of(sum), kernel.Of(row(before))}); err != nil {
			return err
		}
		if err := (kernel.Quantizer{Factor: row(after), Divide: true, Round: kernel.Round}).Quantize(own.View(), sum); err != nil {
			return err
		}
		if err := kernel.Map(kernel.Mul, f, product.View(), []kernel.Input{kernel.Of(own.View()), kernel.Of(row(after))}); err != nil {
			return err
		}
		return kernel.Copy(output.View(), result.View())
	}, nil
}

// pairOfMatrices checks the factors of a product with a collective of rows.
func (c *Call) pairOfMatrices(x1, x2, output *Tensor) {
	const lo, hi = 256, 65535
	c.plain(x1, x2, output)
	c.DType(x1, pairTypes...)
	c.SameDType(x1, x2, output)
	c.Rank(x1, 2, 2)
	c.Rank(x2, 2, 2)
	if c.err == nil && (x1.Dim(1) < lo || x1.Dim(1) >= hi) {
		c.Invalid("%v: K must be from %d to %d", x1, lo, hi-1)
	}
}

// allGatherMatmul multiplies the rows of all ranks.
func allGatherMatmul(c *Call) (Run, error) {
	comm := c.group()
	x1, x2, output, gathered := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("output"), c.Optional("gatherOut")
	c.pairOfMatrices(x1, x2, output)
	if index := c.Int("gatherIndex"); index != 0 {
		c.Invalid("gatherIndex is %d; only 0 is supported", index)
	}
	if c.err != nil {
		return nil, c.err
	}
	all := c.scratch(x1.DType, int64(comm.Size)*x1.Dim(0), x1.Dim(1))
	if gathered != nil && gathered.Len() > 0 {
		c.plain(gathered)
		c.Same(all, gathered)
	} else {
		gathered = nil
	}
	c.allGather(comm, all, c.contiguous(x1))
	p := product{out: output, a: left(all), b: right(x2), alpha: 1, types: pairTypes}
	if bias := c.Optional("bias"); bias != nil {
		c.SameDType(x1, bias)
		c.Rank(bias, 1, 1)
		p.add, p.beta = bias, 1
	}
	if c.err != nil {
		return nil, c.err
	}
	run, err := c.product(p)
	if err != nil || gathered == nil {
		return run, err
	}
	return func(x *Exec) error {
		if err := kernel.Copy(gathered.View(), all.View()); err != nil {
			return err
		}
		return run(x)
	}, nil
}

// matmulReduceScatter sums the products of the ranks and leaves each a block of rows.
func matmulReduceScatter(c *Call) (Run, error) {
	comm := c.group()
	x1, x2, output := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("output")
	c.pairOfMatrices(x1, x2, output)
	product := c.flatProduct(x1, x2, output.DType)
	if c.err != nil {
		return nil, c.err
	}
	rows, ranks := x1.Dim(0), int64(comm.Size)
	if rows%ranks != 0 {
		c.Invalid("%v has %d rows; they must divide among %d ranks", x1, rows, ranks)
		return nil, c.err
	}
	block := c.scratch(output.DType, rows/ranks, x2.Dim(1))
	c.Shape(output, block.Shape, "a block of rows of the product for each rank")
	c.reduceScatter(comm, block, product)
	return c.copyRun(output.View, block.View)
}
