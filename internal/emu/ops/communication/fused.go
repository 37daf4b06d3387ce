package communication

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/matmul"
	"github.com/goascend/cann/internal/emu/ops/normalization"
)

// fused are products that gather their factors from the ranks of a group, or that reduce or scatter
// their results over the ranks.
var fused = op.Table{
	"MatmulAllReduce": matmulAllReduce, "MatmulAllReduceV2": matmulAllReduce,
	"QuantMatmulAllReduce": matmulAllReduce, "QuantMatmulAllReduceV2": matmulAllReduce, "QuantMatmulAllReduceV3": matmulAllReduce,
	"WeightQuantMatmulAllReduce": matmulAllReduce,

	"MatmulAllReduceAddRmsNorm": matmulAllReduce, "InplaceMatmulAllReduceAddRmsNorm": matmulAllReduce,
	"QuantMatmulAllReduceAddRmsNorm": matmulAllReduce, "InplaceQuantMatmulAllReduceAddRmsNorm": matmulAllReduce,
	"WeightQuantMatmulAllReduceAddRmsNorm": matmulAllReduce, "InplaceWeightQuantMatmulAllReduceAddRmsNorm": matmulAllReduce,

	"AllGatherMatmul": allGatherMatmul, "MatmulReduceScatter": matmulReduceScatter,
}

// group reads the communication arguments that every fused product has.
func group(c *op.Call) op.Communicator {
	if c.Has("reduceOp") {
		if op := c.RequiredText("reduceOp"); c.Err() == nil && op != "sum" {
			c.Invalid("reduceOp is %q; only sum is supported", op)
		}
	}
	if mode := c.Int("streamMode"); mode != 1 {
		c.Invalid("streamMode is %d; only 1 is supported", mode)
	}
	return c.Communicator("group")
}

// flatProduct multiplies x1 by x2 and adds the bias and x3. The leading dimensions of x1 count as
// rows. The operator's name decides which kind of product it is.
func flatProduct(c *op.Call, x1, x2 *op.Tensor, d dtype.Type) (result *op.Tensor) {
	c.Plain(x1)
	c.Rank(x1, 2, 3)
	c.Rank(x2, 2, 2)
	bias := c.OptionalOf("bias", "biasOptional")
	if c.Err() != nil {
		return &op.Absent
	}
	k, n := x1.Dim(-1), x2.Dim(-1)
	if k == 0 {
		c.Invalid("%v and %v: K must not be 0", x1, x2)
		return &op.Absent
	}
	rows := x1.Len() / k
	x := c.Reshaped(c.Contiguous(x1), rows, k)
	result = c.Scratch(d, rows, n)
	var run op.Run
	switch {
	case strings.Contains(c.Op.Name, "WeightQuant"):
		run = c.Operate("WeightQuantBatchMatmulV2", matmul.WeightQuantMatmul, map[string]any{
			"x": x, "weight": x2, "antiquantScale": c.Tensor("antiquantScale"), "antiquantOffsetOptional": c.Optional("antiquantOffset"),
			"biasOptional": bias, "antiquantGroupSize": c.Int("antiquantGroupSize"), "y": result,
		})
	case strings.Contains(c.Op.Name, "Quant"):
		run = c.Operate("QuantMatmulV4", matmul.QuantMatmul, map[string]any{
			"x1": x, "x2": x2, "scale": c.Tensor("dequantScale"), "pertokenScaleOptional": c.OptionalOf("pertokenScaleOptional"), "bias": bias, "out": result,
		})
	default:
		c.DType(x1, op.HalfTypes...)
		c.SameDType(x1, x2)
		p := matmul.Product{Out: result, A: matmul.Left(x), B: matmul.Right(x2), Alpha: 1, Types: op.HalfTypes}
		if bias != nil {
			c.SameDType(x1, bias)
			c.Rank(bias, 1, 1)
			p.Add, p.Beta = bias, 1
		}
		if c.Err() == nil {
			run, _ = matmul.Multiply(c, p) // the call records the error
		}
	}
	x3 := c.OptionalOf("x3", "x3Optional")
	if c.Op.Name == "MatmulAllReduceV2" {
		x3 = c.Tensor("x3")
	}
	if x3 != nil && c.Err() == nil {
		c.Plain(x3)
		c.DType(x3, d)
		c.Shape(x3, resultShape(x1, n), "that of the product")
	}
	if c.Err() != nil {
		return &op.Absent
	}
	c.Compute(func(x *op.Exec) error {
		if err := run(x); err != nil || x3 == nil {
			return err
		}
		sum := result.As(x3.Shape, op.ContiguousStrides(x3.Shape))
		return elementwise.Map(elementwise.Add, dtype.Float32, sum, []elementwise.Input{elementwise.Of(sum), elementwise.Of(x3.View())}, elementwise.Real(1))
	})
	return result
}

// resultShape returns the shape of x1 with n columns.
func resultShape(x1 *op.Tensor, n int64) []int64 {
	return append(slices.Clone(x1.Shape[:x1.Rank()-1]), n)
}

// matmulAllReduce sums the products of the ranks. With gamma it also adds the residual and
// normalises the sum.
func matmulAllReduce(c *op.Call) (op.Run, error) {
	comm := group(c)
	x1, x2 := c.Tensor("x1"), c.Tensor("x2")
	if c.Has("gamma") {
		return reducedNorm(c, comm, x1, x2)
	}
	output := c.Tensor("output")
	c.Plain(output)
	c.DType(output, op.HalfTypes...)
	product := flatProduct(c, x1, x2, output.DType)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Shape(output, resultShape(x1, x2.Dim(-1)), "that of x1 with the columns of x2")
	if c.Has("commQuantScale1Optional") {
		before, after := c.Optional("commQuantScale1Optional"), c.Optional("commQuantScale2Optional")
		if (before == nil) != (after == nil) {
			c.Invalid("one of commQuantScale1Optional and commQuantScale2Optional is null; give both or none")
		} else if before != nil {
			return reduceInBytes(c, comm, output, product, before, after)
		}
	}
	c.AllReduce(comm, product)
	result := c.Reshaped(product, output.Shape...)
	return c.CopyRun(output.View, result.View)
}

// reducedNorm is matmulAllReduce followed by a norm.
func reducedNorm(c *op.Call, comm op.Communicator, x1, x2 *op.Tensor) (op.Run, error) {
	residual, gamma, norm := c.Tensor("residual"), c.Tensor("gamma"), c.Tensor("normOut")
	sum := residual
	if c.Has("y") {
		sum = c.Tensor("y")
	}
	c.Plain(residual, norm, sum)
	c.DType(residual, op.HalfTypes...)
	c.Rank(residual, 3, 3)
	c.Same(residual, norm, sum)
	product := flatProduct(c, x1, x2, residual.DType)
	if c.Err() != nil {
		return nil, c.Err()
	}
	n := x2.Dim(-1)
	if residual.Dim(-1) != n || residual.Len() != product.Len() || x1.Rank() == 3 && !slices.Equal(residual.Shape, resultShape(x1, n)) {
		c.Invalid("%v does not have the shape of the product of %v and %v", residual, x1, x2)
		return nil, c.Err()
	}
	c.Shape(gamma, []int64{n}, "a factor for each column")
	c.AllReduce(comm, product)
	run := c.Operate("AddRmsNorm", normalization.AddRMSNorm, map[string]any{
		"x1": c.Reshaped(product, residual.Shape...), "x2": residual, "gamma": gamma, "epsilon": c.Float("epsilon"),
		"yOut": norm, "rstdOut": c.Scratch(dtype.Float32, residual.Shape[0], residual.Shape[1], 1), "xOut": sum,
	})
	return run, c.Err()
}

// reduceInBytes sums tensors that the ranks exchange as int8. before and after are the scales of
// each column for the products and for their sum.
func reduceInBytes(c *op.Call, comm op.Communicator, output, product, before, after *op.Tensor) (op.Run, error) {
	n := product.Dim(-1)
	for _, t := range []*op.Tensor{before, after} {
		c.Plain(t)
		c.SameDType(output, t)
		if t.Len() != n || t.Rank() == 0 || t.Dim(-1) != n {
			c.Invalid("%v must have an element for each of %d columns", t, n)
		}
	}
	own := c.Scratch(dtype.Int8, product.Shape...)
	all := c.Scratch(dtype.Int8, append([]int64{int64(comm.Size)}, product.Shape...)...)
	if c.Err() != nil {
		return nil, c.Err()
	}
	row := func(t *op.Tensor) kernel.View { return t.As([]int64{n}, t.Strides[t.Rank()-1:]) }
	c.Compute(func(*op.Exec) error {
		return gemm.Quantizer{Factor: row(before), Divide: true, Round: elementwise.Round}.Quantize(own.View(), product.View())
	})
	c.AllGather(comm, all, own)
	result := c.Reshaped(product, output.Shape...)
	return func(*op.Exec) error {
		if product.Len() == 0 {
			return nil
		}
		f := dtype.Float32
		sum, release := kernel.Temporary(product.Shape...)
		defer release()
		if err := rowwise.Reduce(rowwise.ReduceSum, sum, all.View(), []int{0}, 0); err != nil {
			return err
		}
		// The sum, too, is transferred as int8, so it is quantised once more.
		if err := elementwise.Map(elementwise.Mul, f, sum, []elementwise.Input{elementwise.Of(sum), elementwise.Of(row(before))}); err != nil {
			return err
		}
		if err := (gemm.Quantizer{Factor: row(after), Divide: true, Round: elementwise.Round}).Quantize(own.View(), sum); err != nil {
			return err
		}
		if err := elementwise.Map(elementwise.Mul, f, product.View(), []elementwise.Input{elementwise.Of(own.View()), elementwise.Of(row(after))}); err != nil {
			return err
		}
		return elementwise.Copy(output.View(), result.View())
	}, nil
}

// pairOfMatrices checks the factors of a product whose rows are gathered or scattered.
func pairOfMatrices(c *op.Call, x1, x2, output *op.Tensor) {
	const lo, hi = 256, 65535
	c.Plain(x1, x2, output)
	c.DType(x1, op.HalfTypes...)
	c.SameDType(x1, x2, output)
	c.Rank(x1, 2, 2)
	c.Rank(x2, 2, 2)
	if c.Err() == nil && (x1.Dim(1) < lo || x1.Dim(1) >= hi) {
		c.Invalid("%v: K must be from %d to %d", x1, lo, hi-1)
	}
}

// allGatherMatmul gathers the rows of all ranks and multiplies them.
func allGatherMatmul(c *op.Call) (op.Run, error) {
	comm := group(c)
	x1, x2, output, gathered := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("output"), c.Optional("gatherOut")
	pairOfMatrices(c, x1, x2, output)
	if index := c.Int("gatherIndex"); index != 0 {
		c.Invalid("gatherIndex is %d; only 0 is supported", index)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	all := c.Scratch(x1.DType, int64(comm.Size)*x1.Dim(0), x1.Dim(1))
	if gathered != nil && gathered.Len() > 0 {
		c.Plain(gathered)
		c.Same(all, gathered)
	} else {
		gathered = nil
	}
	c.AllGather(comm, all, c.Contiguous(x1))
	p := matmul.Product{Out: output, A: matmul.Left(all), B: matmul.Right(x2), Alpha: 1, Types: op.HalfTypes}
	if bias := c.Optional("bias"); bias != nil {
		c.SameDType(x1, bias)
		c.Rank(bias, 1, 1)
		p.Add, p.Beta = bias, 1
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	run, err := matmul.Multiply(c, p)
	if err != nil || gathered == nil {
		return run, err
	}
	return func(x *op.Exec) error {
		if err := elementwise.Copy(gathered.View(), all.View()); err != nil {
			return err
		}
		return run(x)
	}, nil
}

// matmulReduceScatter sums the products of the ranks; each rank receives a block of rows.
func matmulReduceScatter(c *op.Call) (op.Run, error) {
	comm := group(c)
	x1, x2, output := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("output")
	pairOfMatrices(c, x1, x2, output)
	product := flatProduct(c, x1, x2, output.DType)
	if c.Err() != nil {
		return nil, c.Err()
	}
	rows, ranks := x1.Dim(0), int64(comm.Size)
	if rows%ranks != 0 {
		c.Invalid("%v has %d rows; they must divide among %d ranks", x1, rows, ranks)
		return nil, c.Err()
	}
	block := c.Scratch(output.DType, rows/ranks, x2.Dim(1))
	c.Shape(output, block.Shape, "a block of rows of the product for each rank")
	c.ReduceScatter(comm, block, product)
	return c.CopyRun(output.View, block.View)
}
