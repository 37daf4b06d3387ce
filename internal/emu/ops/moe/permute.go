package moe

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/op"
)

// unpadded refuses paddedMode, which the device does not support either.
func unpadded(c *op.Call) {
	if c.Bool("paddedMode") {
		c.Invalid("paddedMode is true; only false is supported")
	}
}

// tokenPermuteV2 is tokenPermute with a quantisation of the rows that only the Ascend950 has; other chips pass quantMode by.
func tokenPermuteV2(c *op.Call) (op.Run, error) {
	mode, scale := c.Int("quantMode"), c.Tensor("expandedScaleOut")
	switch {
	case c.Err() != nil:
	case !slices.Contains([]int64{-1, 2, 3, 9}, mode):
		c.Invalid("quantMode is %d; use -1, or on the Ascend950 2, 3 or 9", mode)
	case mode != -1 && c.Chip() == acceptance.Ascend950:
		c.Invalid("quantMode is %d: the emulator does not quantise the rows", mode)
	case scale.Len() != 0:
		c.Invalid("%v must be empty without a quantisation", scale)
	}
	return tokenPermute(c)
}

// tokenPermute sorts the rows of tokens, repeated once per expert, by expert, and records the
// new row of each copy.
func tokenPermute(c *op.Call) (op.Run, error) {
	tokens, indices, keep := c.Tensor("tokens"), c.Tensor("indices"), c.Int("numOutTokens")
	out, places := c.Tensor("permuteTokensOut"), c.Tensor("sortedIndicesOut")
	probs, outProbs := c.OptionalOf("probsOptional"), (*op.Tensor)(nil)
	unpadded(c)
	c.DType(tokens, append(slices.Clone(op.FloatTypes), dtype.Int8)...)
	c.SameDType(tokens, out)
	c.DType(indices, op.IndexTypes...)
	c.DType(places, dtype.Int32)
	c.Rank(tokens, 2, 2)
	c.Rank(indices, 1, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if tokens.Shape[0] != indices.Shape[0] {
		c.Invalid("%v and %v must have the same number of rows", tokens, indices)
	}
	total := indices.Len()
	switch {
	case keep <= 0: // a zero or negative count is relative to the total
		keep = max(total+keep, 0)
	default:
		keep = min(keep, total)
	}
	first, end := rowRange(c, total)
	if !ranged(c) {
		end = keep
	}
	c.Shape(out, []int64{end - first, tokens.Shape[1]}, "numOutTokens, or the range, of the rows sorted by expert")
	c.Shape(places, []int64{total}, "one place for each element of indices")
	if probs != nil {
		outProbs = c.Tensor("permuteProbsOut")
		c.DType(probs, op.FloatTypes...)
		c.SameDType(probs, outProbs)
		c.Shape(probs, indices.Shape, "as indices")
		c.Shape(outProbs, []int64{end - first}, "one for each row")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if total == 0 {
			return nil
		}
		expert, err := elementwise.Indices(indices.View())
		if err != nil {
			return err
		}
		choices := total / tokens.Shape[0]
		at := make([]int64, total)
		sorted := order.Stable(expert)
		if probs != nil && end > first {
			if err := indexing.PickFlat(outProbs.View(), probs.View(), sorted[first:end]); err != nil {
				return err
			}
		}
		for i, o := range sorted {
			at[o], sorted[i] = int64(i), o/choices
		}
		if err := indexing.SetInts(places.View(), at); err != nil || out.Len() == 0 {
			return err
		}
		return indexing.Rows(out.View(), tokens.View(), sorted[first:end])
	}, nil
}

// ranged reports whether the call restricts the rows to a range, those of one rank's experts.
func ranged(c *op.Call) bool { return c.Has("rangeOptional") && c.Ints("rangeOptional") != nil }

// rowRange returns the requested range of the sorted rows, or all total rows.
func rowRange(c *op.Call, total int64) (first, end int64) {
	if !ranged(c) {
		return 0, total
	}
	r := c.Ints("rangeOptional")
	if len(r) != 2 || r[0] < 0 || r[1] < r[0] || r[1] > total {
		c.Invalid("rangeOptional is %s; it must be a first and an end among %d rows", op.Dims(r), total)
		return 0, 0
	}
	return r[0], r[1]
}

func tokenPermuteGrad(c *op.Call) (op.Run, error) {
	grad, places, k := c.Tensor(c.Either("permutedOutputGrad", "permutedTokensOutputGrad")), c.Tensor("sortedIndices"), c.Int("numTopk")
	out, gradProbs, outProbs := c.Tensor(c.Either("out", "tokenGradOut")), c.OptionalOf("permutedProbsOutputGradOptional"), (*op.Tensor)(nil)
	unpadded(c)
	c.DType(grad, op.FloatTypes...)
	c.SameDType(grad, out)
	c.DType(places, dtype.Int32)
	c.Rank(grad, 2, 2)
	c.Rank(places, 1, 1)
	if k <= 0 || places.Len()%max(k, 1) != 0 {
		c.Invalid("numTopk is %d; it must divide the number of elements of %v", k, places)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Shape(out, []int64{places.Len() / k, grad.Shape[1]}, "a row for each numTopk places")
	first, end := rowRange(c, places.Len())
	if ranged(c) {
		c.Shape(grad, []int64{end - first, grad.Shape[1]}, "the rows of the range")
	}
	if gradProbs != nil {
		outProbs = c.Tensor("probsGradOut")
		c.SameDType(grad, gradProbs, outProbs)
		c.Shape(gradProbs, grad.Shape[:1], "one for each row")
		c.Shape(outProbs, []int64{places.Len() / k, k}, "one for each place")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if outProbs != nil && outProbs.Len() > 0 { // view each probability as a row of one element
			one, each := gradProbs.As([]int64{gradProbs.Len(), 1}, []int64{gradProbs.Strides[0], 1}), []int64{places.Len(), 1}
			t, release := kernel.Temporary(each...)
			defer release()
			if err := combineRows(t, one, places, first, 1, nil); err != nil {
				return err
			}
			t.Shape, t.Strides = outProbs.Shape, op.ContiguousStrides(outProbs.Shape)
			if err := elementwise.Copy(outProbs.View(), t); err != nil {
				return err
			}
		}
		return combineRows(out.View(), grad.View(), places, first, k, nil)
	}, nil
}

// unpermuting reads the arguments that tokenUnpermute and its gradient share: x holds the
// permuted rows, y those of the tokens. It returns the number of rows per token.
func unpermuting(c *op.Call, x, places, probs, y *op.Tensor) (choices int64) {
	unpadded(c)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, y)
	c.DType(places, dtype.Int32)
	c.Rank(x, 2, 2)
	c.Rank(y, 2, 2)
	c.Rank(places, 1, 1)
	choices = 1
	if name := c.Either("numTopk", "topkNum"); c.Has(name) {
		if choices = c.Int(name); choices < 1 {
			c.Invalid("%s is %d; it must be above 0", name, choices)
		}
	}
	if probs != nil {
		c.DType(probs, op.FloatTypes...)
		c.Rank(probs, 2, 2)
		if c.Err() == nil {
			choices = probs.Shape[1]
			c.Shape(probs, []int64{y.Shape[0], choices}, "a row for each token")
		}
	}
	if c.Err() == nil {
		c.Shape(y, []int64{y.Shape[0], x.Shape[1]}, "rows as long as the permuted ones")
		c.Shape(places, []int64{y.Shape[0] * choices}, "one place for each choice of a token")
		if x.Shape[0] > places.Len() {
			c.Invalid("%v has more rows than %v has places", x, places)
		}
	}
	return choices
}

func tokenUnpermute(c *op.Call) (op.Run, error) {
	x, places, probs, out := c.Tensor("permutedTokens"), c.Tensor("sortedIndices"), c.Optional("probsOptional"), c.Tensor("out")
	choices := unpermuting(c, x, places, probs, out)
	first, _ := rowRange(c, places.Len())
	if c.Older() && probs != nil && x.DType == dtype.BFloat16 && probs.DType == dtype.Float16 {
		c.Fail(op.NoKernel, "CANN 8.1 has no kernel for %v with %v", x, probs)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return combineRows(out.View(), x.View(), places, first, choices, probs) }, nil
}

func tokenUnpermuteGrad(c *op.Call) (op.Run, error) {
	grad, places, probs, gradX := c.Tensor("unpermutedTokensGrad"), c.Tensor("sortedIndices"), c.Optional("probsOptional"), c.Tensor("permutedTokensGradOut")
	x, gradProbs := gradX, (*op.Tensor)(nil) // without probabilities only the shape is used
	if name := c.Either("permutedTokensOptional", "permuteTokens"); probs != nil || name == "permuteTokens" || c.Optional(name) != nil {
		x = c.Tensor(name)
	}
	choices := unpermuting(c, x, places, probs, grad)
	c.Same(x, gradX)
	if probs != nil {
		gradProbs = c.Tensor("probsGradOut")
		c.Same(probs, gradProbs)
		if c.Older() && probs.DType != x.DType {
			c.Fail(op.NoKernel, "CANN 8.1 has no kernel for %v with %v; their dtypes must be equal", x, probs)
		}
	}
	first, _ := rowRange(c, places.Len())
	if err := c.Err(); err != nil {
		return nil, err
	}
	f := &finalizing{Call: c, x: x, places: places, first: first, scales: probs, out: grad, choices: choices}
	return func(*op.Exec) error { return f.gradients(gradX, gradProbs) }, nil
}
