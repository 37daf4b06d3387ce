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
	c.Shape(out, []int64{keep, tokens.Shape[1]}, "numOutTokens of the rows sorted by expert")
	c.Shape(places, []int64{total}, "one place for each element of indices")
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
		for i, o := range order {
			at[o], order[i] = int64(i), o/choices
		}
		if err := kernel.FromIndices(places.View(), at); err != nil || out.Len() == 0 {
			return err
		}
		return kernel.Rows(out.View(), tokens.View(), order[:keep])
	}, nil
}

func tokenPermuteGrad(c *Call) (Run, error) {
	grad, places, out, k := c.Tensor("permutedOutputGrad"), c.Tensor("sortedIndices"), c.Tensor("out"), c.Int("numTopk")
	c.unpadded()
	c.DType(grad, transformerTypes...)
	c.SameDType(grad, out)
	c.DType(places, dtype.Int32)
	c.Rank(grad, 2, 2)
	c.Rank(places, 1, 1)
	if k <= 0 || places.Len()%max(k, 1) != 0 {
		c.Invalid("numTopk is %d; it must divide the number of elements of %v", k, places)
	}
	if c.Err() == nil {
		c.Shape(out, []int64{places.Len() / k, grad.Shape[1]}, "a row for each numTopk places")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error { return combineRows(out.View(), grad.View(), places, k, nil) }, nil
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
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error { return combineRows(out.View(), x.View(), places, choices, probs) }, nil
}

func tokenUnpermuteGrad(c *Call) (Run, error) {
	x, grad, places := c.Tensor("permuteTokens"), c.Tensor("unpermutedTokensGrad"), c.Tensor("sortedIndices")
	probs, gradX := c.Optional("probsOptional"), c.Tensor("permutedTokensGradOut")
	var gradProbs *Tensor
	choices := c.unpermuting(x, places, probs, grad)
	c.Same(x, gradX)
	if probs != nil {
		gradProbs = c.Tensor("probsGradOut")
		c.Same(probs, gradProbs)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	f := &finalizing{Call: c, x: x, places: places, scales: probs, out: grad, choices: choices}
	return func(*Exec) error { return f.gradients(gradX, gradProbs) }, nil
}
