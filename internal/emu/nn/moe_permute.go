package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// unpadded refuses paddedMode, which the device does not have either.
func (c *Call) unpadded() {
	if c.Bool("paddedMode") {
		c.Invalid("paddedMode is true; only false is supported")
	}
}

// tokenPermute sorts the rows of tokens, repeated once per expert, by expert, and says where
// each copy went.
func tokenPermute(c *Call) (Run, error) {
	tokens, indices, keep := c.Tensor("tokens"), c.Tensor("indices"), c.Int("numOutTokens")
	out, places := c.Tensor("permuteTokensOut"), c.Tensor("sortedIndicesOut")
	probs, outProbs := c.optionalOf("probsOptional"), (*Tensor)(nil)
	c.unpadded()
	c.DType(tokens, append(slices.Clone(transformerTypes), dtype.Int8)...)
	c.SameDType(tokens, out)
	c.DType(indices, indexTypes...)
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
	case keep <= 0: // a slice that ends so far from the end, or nowhere
		keep = max(total+keep, 0)
	default:
		keep = min(keep, total)
	}
	first, end := c.rowRange(total)
	if !c.ranged() {
		end = keep
	}
	c.Shape(out, []int64{end - first, tokens.Shape[1]}, "numOutTokens, or the range, of the rows sorted by expert")
	c.Shape(places, []int64{total}, "one place for each element of indices")
	if probs != nil {
		outProbs = c.Tensor("permuteProbsOut")
		c.DType(probs, transformerTypes...)
		c.SameDType(probs, outProbs)
		c.Shape(probs, indices.Shape, "as indices")
		c.Shape(outProbs, []int64{end - first}, "one for each row")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if total == 0 {
			return nil
		}
		expert, err := kernel.Indices(indices.View())
		if err != nil {
			return err
		}
		choices := total / tokens.Shape[0]
		at := make([]int64, total)
		order := kernel.StableOrder(expert)
		if probs != nil && end > first {
			if err := kernel.PickFlat(outProbs.View(), probs.View(), order[first:end]); err != nil {
				return err
			}
		}
		for i, o := range order {
			at[o], order[i] = int64(i), o/choices
		}
		if err := kernel.SetInts(places.View(), at); err != nil || out.Len() == 0 {
			return err
		}
		return kernel.Rows(out.View(), tokens.View(), order[first:end])
	}, nil
}

// ranged reports whether the call names a range of rows: those of the experts of one rank.
func (c *Call) ranged() bool { return c.Has("rangeOptional") && c.Ints("rangeOptional") != nil }

// rowRange is the range of the sorted rows that there are, of total ones.
func (c *Call) rowRange(total int64) (first, end int64) {
	if !c.ranged() {
		return 0, total
	}
	r := c.Ints("rangeOptional")
	if len(r) != 2 || r[0] < 0 || r[1] < r[0] || r[1] > total {
		c.Invalid("rangeOptional is %s; it must be a first and an end among %d rows", dims(r), total)
		return 0, 0
	}
	return r[0], r[1]
}

func tokenPermuteGrad(c *Call) (Run, error) {
	grad, places, k := c.Tensor(c.either("permutedOutputGrad", "permutedTokensOutputGrad")), c.Tensor("sortedIndices"), c.Int("numTopk")
	out, gradProbs, outProbs := c.Tensor(c.either("out", "tokenGradOut")), c.optionalOf("permutedProbsOutputGradOptional"), (*Tensor)(nil)
	c.unpadded()
	c.DType(grad, transformerTypes...)
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
	first, end := c.rowRange(places.Len())
	if c.ranged() {
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
	return func(*Exec) error {
		if outProbs != nil && outProbs.Len() > 0 { // a row of one element for each place
			one, each := gradProbs.As([]int64{gradProbs.Len(), 1}, []int64{gradProbs.Strides[0], 1}), []int64{places.Len(), 1}
			t, release := kernel.Temporary(each...)
			defer release()
			if err := combineRows(t, one, places, first, 1, nil); err != nil {
				return err
			}
			t.Shape, t.Strides = outProbs.Shape, ContiguousStrides(outProbs.Shape)
			if err := kernel.Copy(outProbs.View(), t); err != nil {
				return err
			}
		}
		return combineRows(out.View(), grad.View(), places, first, k, nil)
	}, nil
}

// unpermuting reads what tokenUnpermute and its gradient share: x are the permuted rows, y
// those of the tokens. It returns the number of rows per token.
func (c *Call) unpermuting(x, places, probs, y *Tensor) (choices int64) {
	c.unpadded()
	c.DType(x, transformerTypes...)
	c.SameDType(x, y)
	c.DType(places, dtype.Int32)
	c.Rank(x, 2, 2)
	c.Rank(y, 2, 2)
	c.Rank(places, 1, 1)
	choices = 1
	if name := c.either("numTopk", "topkNum"); c.Has(name) {
		if choices = c.Int(name); choices < 1 {
			c.Invalid("%s is %d; it must be above 0", name, choices)
		}
	}
	if probs != nil {
		c.DType(probs, transformerTypes...)
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

func tokenUnpermute(c *Call) (Run, error) {
	x, places, probs, out := c.Tensor("permutedTokens"), c.Tensor("sortedIndices"), c.Optional("probsOptional"), c.Tensor("out")
	choices := c.unpermuting(x, places, probs, out)
	first, _ := c.rowRange(places.Len())
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error { return combineRows(out.View(), x.View(), places, first, choices, probs) }, nil
}

func tokenUnpermuteGrad(c *Call) (Run, error) {
	grad, places, probs, gradX := c.Tensor("unpermutedTokensGrad"), c.Tensor("sortedIndices"), c.Optional("probsOptional"), c.Tensor("permutedTokensGradOut")
	x, gradProbs := gradX, (*Tensor)(nil) // only the shape counts without probabilities
	if name := c.either("permutedTokensOptional", "permuteTokens"); probs != nil || name == "permuteTokens" || c.Optional(name) != nil {
		x = c.Tensor(name)
	}
	choices := c.unpermuting(x, places, probs, grad)
	c.Same(x, gradX)
	if probs != nil {
		gradProbs = c.Tensor("probsGradOut")
		c.Same(probs, gradProbs)
	}
	first, _ := c.rowRange(places.Len())
	if err := c.Err(); err != nil {
		return nil, err
	}
	f := &finalizing{Call: c, x: x, places: places, first: first, scales: probs, out: grad, choices: choices}
	return func(*Exec) error { return f.gradients(gradX, gradProbs) }, nil
}
