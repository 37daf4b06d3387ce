package moe

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// groupGatingGrad is the gradient of MoeGatingTopK with sigmoids: of the weights wᵢ = factor·sᵢ / (Σ s + eps) of the chosen
// experts to the scores x, of which xNorm holds s = sigmoid(x).
func groupGatingGrad(c *op.Call) (op.Run, error) {
	norm, dy, chosen, out := c.Tensor("xNorm"), c.Tensor("gradY"), c.Tensor("expertIdx"), c.Tensor("out")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(norm, dy, chosen, out)
	c.DType(norm, dtype.Float32)
	c.DType(dy, op.FloatTypes...)
	c.DType(chosen, dtype.Int32)
	c.SameDType(dy, out)
	c.Rank(norm, 2, 2)
	c.Rank(dy, 2, 2)
	c.SameShape(dy, chosen)
	c.SameShape(norm, out)
	if kind := c.Int("normType"); kind != 1 {
		c.Invalid("normType is %d; the gradient exists for sigmoids, 1", kind)
	}
	if renorm := c.Int("renorm"); renorm != 0 && renorm != 1 {
		c.Invalid("renorm is %d; use 0 or 1", renorm)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	rows, experts, k := norm.Dim(0), norm.Dim(1), dy.Dim(1)
	const most = 2048
	switch {
	case rows < 1 || dy.Dim(0) != rows:
		c.Invalid("%v and %v must have as many rows, at least 1", norm, dy)
	case experts < 2 || experts > most || k < 1 || k > experts:
		c.Invalid("%v and %v: want 2 to %d experts, and 1 to all of them chosen", norm, dy, most)
	case !chosen.Contiguous() || !out.Contiguous():
		c.Invalid("%v and %v must be contiguous", chosen, out)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	factor, eps := c.Float("routedScalingFactor"), c.Float("eps")
	return func(*op.Exec) error {
		s, err := elementwise.Doubles(norm.View())
		if err != nil {
			return err
		}
		d, err := elementwise.Doubles(dy.View())
		if err != nil {
			return err
		}
		expert, err := elementwise.Indices(chosen.View())
		if err != nil {
			return err
		}
		dx := make([]float64, rows*experts)
		for i := range rows {
			scores, grads := s[i*experts:][:experts], dx[i*experts:][:experts]
			sum, mean := eps, 0.0
			for p := i * k; p < (i+1)*k; p++ {
				if expert[p] < 0 || expert[p] >= experts {
					return fmt.Errorf("%s: expertIdx has %d for %d experts", c.Name(), expert[p], experts)
				}
				sum += scores[expert[p]]
			}
			for p := i * k; p < (i+1)*k; p++ {
				mean += float64(scores[expert[p]] / sum * factor * d[p])
			}
			for p := i * k; p < (i+1)*k; p++ {
				grads[expert[p]] += (float64(factor*d[p]) - mean) / sum
			}
			for j, score := range scores {
				grads[j] *= score * (1 - score)
			}
		}
		return elementwise.SetFloats(out.View(), dx)
	}, nil
}
