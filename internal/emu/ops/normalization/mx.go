package normalization

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// mxNorms lists the operators of the Ascend950 that normalise rows and quantise them with a power of two for each
// block of 32 elements (MX).
var mxNorms = op.Table{"RmsNormDynamicMxQuant": mxNorm, "AddRmsNormDynamicMxQuant": mxNorm}.Omits()

// mxNorm normalises the rows of x, or of x1 + x2, and quantises them. Phase one reports what the tiling of the
// kernel refuses with 561103.
func mxNorm(c *op.Call) (op.Run, error) {
	x, gamma, y, scale := c.Tensor(c.Either("x1", "x")), c.Tensor("gamma"), c.Tensor("yOut"), c.Tensor("mxscaleOut")
	beta, x2, rstd := c.Optional("beta"), (*op.Tensor)(nil), (*op.Tensor)(nil)
	inputs, sum := []*op.Tensor{x}, (*op.Tensor)(nil)
	if c.Has("x2") {
		x2, sum = c.Tensor("x2"), c.Tensor("xOut")
		inputs = append(inputs, x2, sum)
	}
	if c.Bool("outputRstd") {
		rstd = c.Tensor("rstdOut")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	s, round := mxNormTypes(c, inputs, gamma, beta, y, scale)
	if c.Err() != nil {
		return nil, c.Err()
	}
	n := x.Dim(-1)
	fits := func(t *op.Tensor, want []int64, what string) {
		if t != nil && !slices.Equal(t.Shape, want) {
			refuseTiling(c, "%v must have shape %s (%s)", t, op.Dims(want), what)
		}
	}
	fits(gamma, []int64{n}, "the rows of "+x.Name)
	fits(beta, []int64{n}, "the rows of "+x.Name)
	for _, t := range []*op.Tensor{x2, sum, y} {
		fits(t, x.Shape, "that of "+x.Name)
	}
	pairs, ones := append(slices.Clone(x.Shape), 2), slices.Clone(x.Shape)
	pairs[x.Rank()-1], ones[x.Rank()-1] = (n+2*minifloat.BlockSize-1)/(2*minifloat.BlockSize), 1
	fits(scale, pairs, "pairs of scales for blocks of 32")
	fits(rstd, ones, "one for each row")
	if rstd != nil && rstd.DType != dtype.Float32 {
		refuseTiling(c, "%v must be float32", rstd)
	}
	if y.DType.Bits() == 4 && n%2 != 0 {
		refuseTiling(c, "the rows of %v must be even, since two elements share a byte", y)
	}
	c.Plain(append(inputs, gamma, y)...)
	if y.DType.Bits() == 4 && !y.Contiguous() {
		c.Invalid("%v must be contiguous, since two elements share a byte", y)
	}
	eps := c.Float("epsilon")
	return func(*op.Exec) error {
		if n == 0 && rstd != nil {
			return elementwise.Fill(rstd.View(), elementwise.Real(math.NaN()))
		}
		if x.Len() == 0 {
			return nil
		}
		in, release, err := summed(x, x2, nil, sum)
		defer release()
		if err != nil {
			return err
		}
		// The device rounds the rows to the type of x before it quantises them.
		rows, releaseRows := kernel.TemporaryOf(x.DType, x.Shape...)
		defer releaseRows()
		if err := biasedRMSNorm(rows, leadingView(rstd, x.Rank()-1), in, gamma, beta, eps); err != nil {
			return err
		}
		values, err := elementwise.Doubles(rows)
		if err != nil {
			return err
		}
		return s.Rows(y.View(), scale.View(), values, round)
	}, c.Err()
}

// refuseTiling refuses a call whose kernel the operator looks at before it returns.
func refuseTiling(c *op.Call, format string, args ...any) {
	c.Fail(op.NoStep, format, args...)
}

// mxNormTypes checks element types and the attributes of the scales. inputs have the type of the first.
func mxNormTypes(c *op.Call, inputs []*op.Tensor, gamma, beta, y, scale *op.Tensor) (minifloat.Scaling, minifloat.Rounding) {
	is := func(t *op.Tensor, types ...dtype.Type) {
		if t != nil && !slices.Contains(types, t.DType) {
			refuseTiling(c, "%v has a dtype that is not supported; use one of %v", t, types)
		}
	}
	x := inputs[0]
	is(x, dtype.Float16, dtype.BFloat16)
	for _, t := range inputs {
		is(t, x.DType)
	}
	is(gamma, x.DType, dtype.Float32)
	is(beta, gamma.DType)
	is(y, dtype.Float4E2M1, dtype.Float4E1M2, dtype.Float8E4M3, dtype.Float8E5M2)
	is(y, dtype.Type(c.Int("dstType")))
	is(scale, dtype.Float8E8M0)
	if r := x.Rank(); r < 1 || r > 7 {
		refuseTiling(c, "%v has %d dimensions; use 1 to 7", x, r)
	}
	s, round, err := minifloat.NewScaling(y.DType, c.Int("scaleAlg"), 0, c.Text("roundMode"))
	if err != nil {
		refuseTiling(c, "%v", err)
	}
	if s.Algorithm == 2 {
		refuseTiling(c, "scaleAlg is 2; use 0, or 1 for types of eight bits")
	}
	return s, round
}

// biasedRMSNorm is kernel.RMSNorm with a bias, which may be nil, that is added before the result is rounded.
func biasedRMSNorm(out, rstd, x kernel.View, gamma, beta *op.Tensor, eps float64) error {
	if beta == nil {
		return rowwise.RMSNorm(out, rstd, x, gamma.View(), eps)
	}
	t, release := kernel.Temporary(x.Shape...)
	defer release()
	if err := rowwise.RMSNorm(t, rstd, x, gamma.View(), eps); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Add, dtype.Float32, out, []elementwise.Input{elementwise.Of(t), elementwise.Of(beta.View())}, elementwise.Real(1))
}
