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
	"MatmulAllReduceV3":          matmulAllReduce, "QuantMatmulAllReduceV4": matmulAllReduce, "QuantMatmulAllReduceV5": matmulAllReduce, "WeightQuantMatmulAllReduceV2": matmulAllReduce,

	"MatmulAllReduceAddRmsNorm": matmulAllReduce, "InplaceMatmulAllReduceAddRmsNorm": matmulAllReduce,
	"QuantMatmulAllReduceAddRmsNorm": matmulAllReduce, "InplaceQuantMatmulAllReduceAddRmsNorm": matmulAllReduce,
	"WeightQuantMatmulAllReduceAddRmsNorm": matmulAllReduce, "InplaceWeightQuantMatmulAllReduceAddRmsNorm": matmulAllReduce,

	"AllGatherMatmul": allGatherMatmul, "MatmulReduceScatter": matmulReduceScatter,
	"AllGatherMatmulV2": allGatherMatmul, "MatmulReduceScatterV2": matmulReduceScatter,
}

// group reads the communication arguments that every fused product has.
func group(c *op.Call) op.Communicator {
	c.Needs("x1", "x2", "output", "dequantScale", "antiquantScale", "residual", "gamma", "normOut", "y")
	switch c.Op.Name {
	case "MatmulAllReduceV2", "MatmulAllReduceV3":
		c.Needs("x3")
	case "QuantMatmulAllReduceV4", "QuantMatmulAllReduceV5":
		c.Needs("x2Scale")
	case "AllGatherMatmulV2", "MatmulReduceScatterV2":
		if x1 := c.Tensor("x1"); x1.DType == dtype.Int8 || x1.DType == dtype.Int4 {
			c.Needs("x2Scale")
		}
	}
	if c.Has("reduceOp") {
		if op := c.RequiredText("reduceOp"); c.Err() == nil && op != "sum" {
			c.Invalid("reduceOp is %q; only sum is supported", op)
		}
	}
	if mode := c.Int("streamMode"); mode != 1 {
		c.Invalid("streamMode is %d; only 1 is supported", mode)
	}
	if c.Has("commQuantMode") && c.Int("commQuantMode") != 0 {
		c.Invalid("commQuantMode is %d; 1 quantises products of float8, of which the emulator knows only those of int8", c.Int("commQuantMode"))
	}
	if n := c.IntOr("groupSize", 0); n != 0 {
		c.Invalid("groupSize is %d; it divides factors of float8 into blocks, so only 0 is supported", n)
	}
	if c.Has("x1Scale") { // AllGatherMatmulV2 and MatmulReduceScatterV2
		engine(c, "aiv", "aiv")
		c.NoneOf("quantScale", "amaxOut", "amaxOutOptional")
		if n := c.Int("blockSize"); n != 0 {
			c.Invalid("blockSize is %d; results are not quantised, so use 0", n)
		}
		return groupOf(c, false)
	}
	engine(c, "ai_cpu", "ai_cpu")
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
	quantised := strings.HasPrefix(strings.TrimPrefix(c.Op.Name, "Inplace"), "Quant")
	if k == 0 && c.Has("gamma") {
		c.Invalid("%v and %v: K must not be 0", x1, x2)
	} else if k == 0 && quantised {
		c.Unfit("%v and %v: K must not be 0", x1, x2)
	}
	if c.Err() != nil {
		return &op.Absent
	}
	rows := op.Count(x1.Shape[:x1.Rank()-1])
	x := c.Reshaped(c.Contiguous(x1), rows, k)
	result = c.Scratch(d, rows, n)
	var run op.Run
	switch {
	case strings.Contains(c.Op.Name, "WeightQuant"):
		run = c.Operate("WeightQuantBatchMatmulV2", matmul.WeightQuantMatmul, map[string]any{
			"x": x, "weight": x2, "antiquantScale": c.Tensor("antiquantScale"), "antiquantOffsetOptional": c.Optional("antiquantOffset"),
			"biasOptional": bias, "antiquantGroupSize": c.Int("antiquantGroupSize"), "y": result,
		})
	case c.Has("x1Scale") && x1.DType == dtype.Int8: // MatmulReduceScatterV2
		scale, perRow := scalesOf(c, x1.Dim(0), n)
		if bias != nil {
			c.DType(bias, dtype.Float32)
		}
		run = scaledProduct(c, result, x, x2, scale, perRow, bias, false)
	case quantised:
		run = c.Operate("QuantMatmulV4", matmul.QuantMatmul, map[string]any{
			"x1": x, "x2": x2, "scale": c.Tensor(c.Either("dequantScale", "x2Scale")), "pertokenScaleOptional": c.OptionalOf("pertokenScaleOptional", "x1ScaleOptional"), "bias": bias, "out": result,
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
	c.Plain(x1, output)
	types := op.HalfTypes
	switch c.Op.Name {
	case "AllGatherMatmulV2":
		c.Plain(x2)
		types = append(slices.Clone(types), dtype.Int8, dtype.Int4)
	case "MatmulReduceScatterV2": // x2 may be FRACTAL_NZ
		types = append(slices.Clone(types), dtype.Int8)
	default:
		c.Plain(x2)
	}
	c.DType(x1, types...)
	c.SameDType(x1, x2)
	c.DType(output, op.HalfTypes...)
	half := slices.Contains(op.HalfTypes, x1.DType)
	if half {
		c.SameDType(x1, output)
	}
	c.Rank(x1, 2, 2)
	c.Rank(x2, 2, 2)
	if c.Has("x1Scale") && c.Err() == nil {
		if half {
			c.NoneOf("x1Scale", "x2Scale")
		}
		if x1.Len() == 0 || x2.Len() == 0 {
			c.Invalid("%v and %v must not be empty", x1, x2)
		}
		if x1.DType == dtype.Int4 && (x1.Dim(1)%2 != 0 || x2.Dim(1)%2 != 0) {
			c.Invalid("%v and %v: K and N must be even with int4", x1, x2)
		}
	}
	if c.Err() == nil && (x1.Dim(1) < lo || x1.Dim(1) >= hi) {
		c.Invalid("%v: K must be from %d to %d", x1, lo, hi-1)
	}
}

// scalesOf returns the scales of a quantised product by column, [1, n] or [n], and by row, [m, 1] or [m], which may be nil.
func scalesOf(c *op.Call, m, n int64) (columns, rows *op.Tensor) {
	columns, rows = c.Tensor("x2Scale"), c.Optional("x1Scale")
	c.Plain(columns)
	c.DType(columns, dtype.Float32, dtype.Int64)
	line := func(t *op.Tensor, n int64, shape []int64, what string) *op.Tensor {
		if !slices.Equal(t.Shape, shape) && !slices.Equal(t.Shape, []int64{n}) {
			c.Invalid("%v must have shape %s (%s)", t, op.Dims(shape), what)
		}
		if c.Err() != nil {
			return t
		}
		dense := c.Contiguous(t)
		v := *dense
		v.Shape, v.Strides = []int64{n}, []int64{1}
		if v.DType == dtype.Int64 {
			v.DType = dtype.Uint64 // both hold the bits of a float32
		}
		return c.Alias(v, dense)
	}
	columns = line(columns, n, []int64{1, n}, "one for each column of x2")
	if rows != nil {
		c.Plain(rows)
		c.DType(rows, dtype.Float32)
		rows = line(rows, m, []int64{m, 1}, "one for each row of x1")
	}
	return columns, rows
}

// gatherQuantised is allGatherMatmul with factors of int8 or int4.
func gatherQuantised(c *op.Call, comm op.Communicator, x1, x2, output, gathered *op.Tensor) (op.Run, error) {
	ranks, m := int64(comm.Size), x1.Dim(0)
	c.NoneOf("bias")
	columns, rows := scalesOf(c, m, x2.Dim(1))
	c.Dense(x1)
	if c.Err() != nil {
		return nil, c.Err()
	}
	all := c.Scratch(x1.DType, ranks*m, x1.Dim(1))
	bytes := inBytes(c, all)
	if gathered != nil && gathered.Len() == 0 {
		gathered = nil
	}
	if gathered != nil {
		c.Same(all, gathered)
		c.Dense(gathered)
		gathered = inBytes(c, gathered)
	}
	c.AllGather(comm, bytes, inBytes(c, x1))
	if rows != nil {
		own := rows
		rows = c.Scratch(dtype.Float32, ranks*m)
		c.AllGather(comm, rows, own)
	}
	run := scaledProduct(c, output, all, x2, columns, rows, nil, false)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(e *op.Exec) error {
		if gathered != nil {
			if err := elementwise.Copy(gathered.View(), bytes.View()); err != nil {
				return err
			}
		}
		return run(e)
	}, nil
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
	if !slices.Contains(op.HalfTypes, x1.DType) {
		return gatherQuantised(c, comm, x1, x2, output, gathered)
	}
	if c.Has("x1Scale") {
		c.NoneOf("bias") // the kernel of the second form has none
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
