package recurrent

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// chunkedDelta is the gated delta rule over packed sequences: query and key [T,Nk,Dk], value [T,Nv,Dv], beta and the
// logarithm of the decay [T,Nv], states [B,Nv,Dv,Dk]. actualSeqLengths has the length of each sequence. CANN computes chunks of
// tokens at once, here they are computed one after another; the state is rounded at the end of a sequence only.
func chunkedDelta(c *op.Call) (op.Run, error) {
	q, k, v, beta, start := c.Tensor("query"), c.Tensor("key"), c.Tensor("value"), c.Tensor("beta"), c.Tensor("initialState")
	lengths, g, out, final := c.Tensor("actualSeqLengths"), c.Optional("gOptional"), c.Tensor("out"), c.Tensor("finalState")
	scale := c.Float("scaleValue")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(q, k, v, beta, start, lengths, out, final)
	for _, t := range []*op.Tensor{q, k, v, beta, out} {
		c.DType(t, dtype.BFloat16)
	}
	if c.Chip() == acceptance.Ascend950 {
		c.DType(start, dtype.BFloat16, dtype.Float32)
	} else {
		c.DType(start, dtype.BFloat16)
	}
	c.SameDType(start, final)
	c.DType(lengths, dtype.Int32)
	for _, t := range []*op.Tensor{q, k, v, out} {
		c.Rank(t, 3, 3)
	}
	c.Rank(start, 4, 4)
	c.Rank(lengths, 1, 1)
	if c.Err() != nil {
		return nil, c.Err()
	}
	tokens, hk, dk, hv, dv, batch := q.Dim(0), q.Dim(1), q.Dim(2), v.Dim(1), v.Dim(2), lengths.Dim(0)
	if g != nil {
		c.Plain(g)
		c.DType(g, dtype.Float32)
		c.Fits(g, []int64{tokens, hv}, "one for each token and value head")
	}
	c.Fits(k, q.Shape, "that of query")
	c.Fits(v, []int64{tokens, hv, dv}, "a value for each token of query")
	c.Fits(beta, []int64{tokens, hv}, "one for each token and value head")
	c.Fits(out, v.Shape, "that of value")
	c.Fits(start, []int64{batch, hv, dv, dk}, "a state [Dv,Dk] for each sequence and value head")
	c.Fits(final, start.Shape, "that of initialState")
	const heads, width = 64, 128
	if tokens < 1 || batch < 1 || hk < 1 || hv < 1 || hk > heads || hv > heads || dk < 1 || dv < 1 || dk > width || dv > width || hv%hk != 0 {
		c.Unfit("%v, %v and %v: want tokens and sequences, 1 to %d heads, value heads that are a multiple of key heads, and dimensions of 1 to %d", q, v, lengths, heads, width)
	}
	if !out.Contiguous() || !final.Contiguous() {
		c.Unfit("%v and %v must be contiguous", out, final)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		counts, err := elementwise.Indices(lengths.View())
		if err != nil {
			return err
		}
		if n := op.Total(counts); n != tokens {
			return fmt.Errorf("%s: actualSeqLengths has %d tokens in all, and query %d", c.Name(), n, tokens)
		}
		read := make([][]float64, 5)
		for i, t := range []*op.Tensor{q, k, v, beta, start} {
			if read[i], err = elementwise.Doubles(t.View()); err != nil {
				return err
			}
		}
		decay := make([]float64, tokens*hv)
		if g != nil {
			if decay, err = elementwise.Doubles(g.View()); err != nil {
				return err
			}
		}
		result := make([]float64, tokens*hv*dv)
		states := read[4]
		first := int64(0)
		for b, n := range counts {
			if n < 0 {
				return fmt.Errorf("%s: actualSeqLengths[%d] is %d", c.Name(), b, n)
			}
			for h := range hv {
				state := states[(int64(b)*hv+h)*dv*dk:][:dv*dk]
				for t := first; t < first+n; t++ {
					key, query := read[1][(t*hk+h/(hv/hk))*dk:][:dk], read[0][(t*hk+h/(hv/hk))*dk:][:dk]
					alpha, rate := math.Exp(decay[t*hv+h]), read[3][t*hv+h]
					for j := range dv {
						row, predicted, answer := state[j*dk:][:dk], 0.0, 0.0
						for i := range row {
							row[i] *= alpha
							predicted += float64(row[i] * key[i])
						}
						step := float64(rate * (read[2][(t*hv+h)*dv+j] - predicted))
						for i := range row {
							row[i] += float64(step * key[i])
							answer += float64(row[i] * query[i])
						}
						result[(t*hv+h)*dv+j] = scale * answer
					}
				}
			}
			first += n
		}
		if err := elementwise.SetFloats(out.View(), result); err != nil {
			return err
		}
		return elementwise.SetFloats(final.View(), states)
	}, nil
}
