package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// pairAttentions are attention of pairs of nodes, as in Floyd's algorithm for shortest paths: the pair (n,m) attends to each k by the
// pairs (n,k) and (k,m).
var pairAttentions = op.Table{"FusedFloydAttention": floydAttention, "FusedFloydAttentionGrad": floydAttentionGrad}.Selects()

// floyd has the arguments of both directions.
type floyd struct {
	query, mask                  *op.Tensor    // [B,H,N,M,D] and [B,1,N,1,K], whose ones hide; nil is no mask
	keys, values                 [2]*op.Tensor // [B,H,N,K,D] and [B,H,K,M,D]
	batch, heads, n, m, k, width int64
	scale                        float64
}

// The statistics of softmax are repeated floydCopies times.
const floydCopies = 8

func readFloyd(c *op.Call, scale string) *floyd {
	f := &floyd{
		query: c.Tensor("query"), mask: c.Optional("attenMaskOptional"), scale: c.Float(scale),
		keys: [2]*op.Tensor{c.Tensor("key1"), c.Tensor("key2")}, values: [2]*op.Tensor{c.Tensor("value1"), c.Tensor("value2")},
	}
	if c.Err() != nil {
		return f
	}
	all := append(append([]*op.Tensor{f.query}, f.keys[:]...), f.values[:]...)
	c.Plain(all...)
	c.DType(f.query, op.HalfTypes...)
	c.SameDType(f.query, all[1:]...)
	if f.query.Rank() != 5 || f.keys[0].Rank() != 5 {
		c.Unfit("%v and %v must have 5 dimensions", f.query, f.keys[0])
	}
	if c.Err() != nil {
		return f
	}
	f.batch, f.heads, f.n, f.m, f.width, f.k = f.query.Dim(0), f.query.Dim(1), f.query.Dim(2), f.query.Dim(3), f.query.Dim(4), f.keys[0].Dim(3)
	for i, want := range [][]int64{{f.batch, f.heads, f.n, f.k, f.width}, {f.batch, f.heads, f.k, f.m, f.width}} {
		c.Fits(f.keys[i], want, "[B,H,N,K,D], or [B,H,K,M,D] for the second")
		c.Fits(f.values[i], want, "that of its keys")
	}
	if !slices.Contains([]int64{32, 64, 128}, f.width) || f.query.Len() == 0 || f.k == 0 {
		c.Unfit("%v: want 32, 64 or 128 elements, and no empty dimension", f.query)
	}
	if c.Tiled() && (f.n%16 != 0 || f.m%128 != 0 || f.k%128 != 0) {
		c.Unfit("%v and %v: N must be a multiple of 16, M and K of 128", f.query, f.keys[0])
	}
	if f.mask != nil {
		c.Plain(f.mask)
		c.DType(f.mask, dtype.Bool, dtype.Uint8)
		c.Fits(f.mask, []int64{f.batch, 1, f.n, 1, f.k}, "a column for each row of pairs")
	}
	return f
}

// stats checks the statistics of softmax, and other tensors as large as the query.
func (f *floyd) stats(c *op.Call, top, sum *op.Tensor, others ...*op.Tensor) {
	if c.Err() != nil {
		return
	}
	for _, t := range []*op.Tensor{top, sum} {
		c.Plain(t)
		c.DType(t, dtype.Float32)
		c.Fits(t, []int64{f.batch, f.heads, f.n, f.m, floydCopies}, "eight for each pair and head")
	}
	for _, t := range others {
		c.Plain(t)
		c.SameDType(f.query, t)
		c.Fits(t, f.query.Shape, "that of the query")
	}
}

// each calls row for each pair and head: with its number, and where the vectors of the keys that it sees begin in both lists.
func (f *floyd) each(name string, row func(r int64, at [][2]int64)) error {
	var hidden []int64
	if f.mask != nil {
		var err error
		if hidden, err = elementwise.Indices(f.mask.View()); err != nil {
			return err
		}
	}
	for r := range f.batch * f.heads * f.n * f.m {
		bh, n, m := r/f.m/f.n, r/f.m%f.n, r%f.m
		var at [][2]int64
		for k := range f.k {
			if hidden == nil || hidden[(bh/f.heads*f.n+n)*f.k+k] == 0 {
				at = append(at, [2]int64{((bh*f.n+n)*f.k + k) * f.width, ((bh*f.k+k)*f.m + m) * f.width})
			}
		}
		if len(at) == 0 {
			return fmt.Errorf("%s: %v hides all keys of row %d of sequence %d, for which no result is defined", name, f.mask, n, bh/f.heads)
		}
		row(r, at)
	}
	return nil
}

// sum returns the sum of two vectors.
func (f *floyd) sum(a, b []float64, at [2]int64) []float64 {
	s := slices.Clone(a[at[0]:][:f.width])
	for i, v := range b[at[1]:][:f.width] {
		s[i] += v
	}
	return s
}

func floydAttention(c *op.Call) (op.Run, error) {
	f := readFloyd(c, "scaleValueOptional")
	top, sum, out := c.Tensor("softmaxMaxOut"), c.Tensor("softmaxSumOut"), c.Tensor("attentionOutOut")
	f.stats(c, top, sum, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, err := read(f.query, f.keys[0], f.keys[1], f.values[0], f.values[1])
		if err != nil {
			return err
		}
		result := make([]float64, len(v[0]))
		var maxima, sums []float64
		if err := f.each(c.Name(), func(r int64, at [][2]int64) {
			scores, total := make([]float64, len(at)), 0.0
			for i, k := range at {
				scores[i] = f.scale * dotted(v[0][r*f.width:][:f.width], f.sum(v[1], v[2], k))
			}
			highest := slices.Max(scores)
			for i, s := range scores {
				scores[i] = math.Exp(s - highest)
				total += scores[i]
			}
			for i, k := range at {
				addTimes(result[r*f.width:], f.sum(v[3], v[4], k), scores[i]/total)
			}
			for range floydCopies {
				maxima, sums = append(maxima, highest), append(sums, total)
			}
		}); err != nil {
			return err
		}
		return write([][]float64{maxima, sums, result}, top, sum, out)
	}, nil
}

func floydAttentionGrad(c *op.Call) (op.Run, error) {
	f := readFloyd(c, "scaleValue")
	top, sum, dy, out := c.Tensor("softmaxMax"), c.Tensor("softmaxSum"), c.Tensor("dy"), c.Tensor("attentionIn")
	grads := []*op.Tensor{c.Tensor("dqOut"), c.Tensor("dk1Out"), c.Tensor("dk2Out"), c.Tensor("dv1Out"), c.Tensor("dv2Out")}
	f.stats(c, top, sum, dy, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(grads...)
	for i, like := range []*op.Tensor{f.query, f.keys[0], f.keys[1], f.values[0], f.values[1]} {
		c.Same(like, grads[i])
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		v, err := read(f.query, f.keys[0], f.keys[1], f.values[0], f.values[1], top, sum, dy, out)
		if err != nil {
			return err
		}
		d := make([][]float64, len(grads))
		for i := range d {
			d[i] = make([]float64, len(v[i]))
		}
		if err := f.each(c.Name(), func(r int64, at [][2]int64) {
			q, g := v[0][r*f.width:][:f.width], v[7][r*f.width:][:f.width]
			delta := dotted(g, v[8][r*f.width:][:f.width])
			for _, k := range at {
				key := f.sum(v[1], v[2], k)
				p := math.Exp(float64(f.scale*dotted(q, key))-v[5][r*floydCopies]) / v[6][r*floydCopies]
				ds := p * (dotted(g, f.sum(v[3], v[4], k)) - delta) * f.scale
				addTimes(d[0][r*f.width:], key, ds)
				for i := range 2 {
					addTimes(d[1+i][k[i]:], q, ds)
					addTimes(d[3+i][k[i]:], g, p)
				}
			}
		}); err != nil {
			return err
		}
		return write(d, grads...)
	}, nil
}
