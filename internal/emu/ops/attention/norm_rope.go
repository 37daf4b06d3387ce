package attention

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// jointHeads normalise the heads of two inputs, images and text, join their tokens and rotate queries and keys.
var jointHeads = op.Table{"NormRopeConcat": normRopeConcat, "NormRopeConcatBackward": normRopeConcatGrad}.Selects()

// The norms of jointHeads.
const (
	noNorm = iota
	layerNorm
	affineLayerNorm
	rmsNorm
	affineRMSNorm
)

// jointInput is one of the inputs of a joint: [batch, tokens, heads, dim], normalised or not.
type jointInput struct {
	t            *op.Tensor // nil if there is none
	norm         int64
	weight, bias *op.Tensor
	mean, rstd   *op.Tensor // of each head of each token, for the gradient
	grad         *op.Tensor // as large as t
	weightGrad   *op.Tensor
	biasGrad     *op.Tensor
}

// joint has the tokens of two inputs one after the other: [batch, heads, tokens, dim].
type joint struct {
	*op.Call
	heads, dim, batch int64
	sin, cos          *op.Tensor // nil without a rotation
	half              bool       // pairs of halves rotate, not neighbours
	textFirst         bool
}

// newJoint reads what both directions share. like is a tensor [batch, tokens, heads, dim].
func newJoint(c *op.Call, like *op.Tensor) *joint {
	j := &joint{Call: c}
	if c.Err() != nil {
		return j
	}
	c.DType(like, op.FloatTypes...)
	c.Rank(like, 4, 4)
	if c.Err() != nil {
		return j
	}
	j.batch, j.heads, j.dim = like.Dim(0), like.Dim(2), like.Dim(3)
	if j.dim%2 != 0 || j.dim > 1024 || like.Len() == 0 {
		c.Unfit("%v must have an even number of elements in a head, up to 1024, and not be empty", like)
	}
	switch rope := c.Int("ropeType"); rope {
	case 0:
	case 1, 2:
		j.half, j.sin, j.cos = rope == 2, c.Tensor("ropeSin"), c.Tensor("ropeCos")
		if c.Err() == nil {
			c.Plain(j.sin, j.cos)
			c.SameDType(like, j.sin, j.cos)
			c.Fits(j.sin, []int64{j.sin.Dim(0), j.dim}, "angles of the first tokens")
			c.Fits(j.cos, j.sin.Shape, "that of ropeSin")
		}
	default:
		c.Fail(op.Unsupported, "ropeType is %d; 0 is none, 1 interleave, 2 half", rope)
	}
	switch order := c.Int("concatOrder"); order {
	case 0, 1:
		j.textFirst = order == 1
	default:
		c.Fail(op.Unsupported, "concatOrder is %d; 0 is images first, 1 text first", order)
	}
	return j
}

// check checks an input and its norm, the last of which the call knows.
func (j *joint) check(x *jointInput, like *op.Tensor, last int64) {
	if x.norm < noNorm || x.norm > last {
		j.Unfit("the type of norm is %d; use 0 to %d", x.norm, last)
	}
	if x.t == nil || j.Err() != nil {
		return
	}
	j.Plain(x.t)
	j.SameDType(like, x.t)
	j.Fits(x.t, []int64{j.batch, x.t.Dim(1), j.heads, j.dim}, "batch, tokens, heads and elements of a head")
	for _, t := range []*op.Tensor{x.weight, x.bias, x.weightGrad, x.biasGrad} {
		if t != nil && j.Err() == nil {
			j.Plain(t)
			j.SameDType(like, t)
			j.Fits(t, []int64{j.dim}, "one for each element of a head")
		}
	}
	for _, t := range []*op.Tensor{x.mean, x.rstd} {
		if t != nil && j.Err() == nil {
			j.Plain(t)
			j.DType(t, dtype.Float32)
			j.Fits(t, []int64{j.batch, x.t.Dim(1), j.heads, 1}, "one for each head of each token")
		}
	}
	if x.grad != nil && j.Err() == nil {
		j.Plain(x.grad)
		j.Same(x.t, x.grad)
	}
}

// checkAll checks queries, keys and values of both inputs, and joined, the tensors of their joined tokens.
func (j *joint) checkAll(inputs *[3][2]jointInput, joined [3]*op.Tensor, query *op.Tensor, last int64) {
	for i := range inputs {
		if j.Err() != nil {
			return
		}
		for k := range inputs[i] {
			j.check(&inputs[i][k], query, last)
		}
		total := inputs[i][0].tokens() + inputs[i][1].tokens()
		j.Plain(joined[i])
		j.SameDType(query, joined[i])
		j.Fits(joined[i], []int64{j.batch, j.heads, total, j.dim}, "the tokens of both inputs")
		if i < 2 && j.sin != nil && j.sin.Dim(0) > total {
			j.Unfit("%v has angles of more than %d tokens", j.sin, total)
		}
	}
	if inputs[1][0].tokens() != inputs[2][0].tokens() || inputs[1][1].tokens() != inputs[2][1].tokens() {
		j.Unfit("there must be as many values as keys: %v, %v", inputs[1][0].t, inputs[2][0].t)
	}
}

// tokens returns how many tokens an input has.
func (x *jointInput) tokens() int64 {
	if x.t == nil {
		return 0
	}
	return x.t.Dim(1)
}

// places calls f for each head of each token: with its number in the input, in the result, and its position in the result.
func (j *joint) places(x, other *jointInput, second bool, f func(from, to, position int64)) {
	first, total := int64(0), x.tokens()+other.tokens()
	if second != j.textFirst {
		first = other.tokens()
	}
	n := x.tokens()
	for r := range j.batch * n * j.heads {
		b, token, head := r/j.heads/n, r/j.heads%n, r%j.heads
		f(r, (b*j.heads+head)*total+first+token, first+token)
	}
}

// angles returns the sines and cosines.
func (j *joint) angles() (sin, cos []float64, err error) {
	if j.sin == nil {
		return nil, nil, nil
	}
	if sin, err = elementwise.Doubles(j.sin.View()); err != nil {
		return nil, nil, err
	}
	cos, err = elementwise.Doubles(j.cos.View())
	return sin, cos, err
}

// pair returns the elements of pair i of a head.
func (j *joint) pair(i int64) (a, b int64) {
	if j.half {
		return i, i + j.dim/2
	}
	return 2 * i, 2*i + 1
}

// numbers reads a tensor, which may be nil.
func numbers(t *op.Tensor) ([]float64, error) {
	if t == nil {
		return nil, nil
	}
	return elementwise.Doubles(t.View())
}

// normRopeConcat normalises queries and keys of both inputs, joins their tokens, transposes tokens and heads, and rotates the
// first ones of the joined queries and keys, those that have angles.
func normRopeConcat(c *op.Call) (op.Run, error) {
	query := c.Tensor("query")
	j := newJoint(c, query)
	if c.Err() != nil {
		return nil, c.Err()
	}
	inputs := [3][2]jointInput{}
	outs := [3]*op.Tensor{c.Tensor("queryOutput"), c.Tensor("keyOutput"), c.Tensor("valueOutput")}
	for i, name := range []string{"query", "key", "value"} {
		inputs[i][0].t, inputs[i][1].t = c.Tensor(name), c.Optional([]string{"encoderQuery", "encoderKey", "encoderValue"}[i])
		if i == 2 {
			break
		}
		for k, prefix := range [2]string{[]string{"normQuery", "normKey"}[i], []string{"normAddedQuery", "normAddedKey"}[i]} {
			x := &inputs[i][k]
			x.norm = c.Int([]string{"normType", "normAddedType"}[k])
			if x.t != nil && (x.norm == affineLayerNorm || x.norm == affineRMSNorm) {
				x.weight = c.Tensor(prefix + "Weight")
			}
			if x.t != nil && x.norm == affineLayerNorm {
				x.bias = c.Tensor(prefix + "Bias")
			}
			if x.t != nil && c.Bool("isTraining") && (x.norm == layerNorm || x.norm == affineLayerNorm) {
				x.mean, x.rstd = c.Tensor(prefix+"Mean"), c.Tensor(prefix+"Rstd")
			}
		}
	}
	j.checkAll(&inputs, outs, query, affineRMSNorm)
	eps := c.Float("eps")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		sin, cos, err := j.angles()
		if err != nil {
			return err
		}
		for i := range inputs {
			result := make([]float64, outs[i].Len())
			for k := range inputs[i] {
				x, other := &inputs[i][k], &inputs[i][1-k]
				if x.t == nil {
					continue
				}
				normed, err := x.normalise(j.dim, eps)
				if err != nil {
					return err
				}
				j.places(x, other, k == 1, func(from, to, position int64) {
					row := normed[from*j.dim:][:j.dim]
					if i < 2 && j.sin != nil && position < j.sin.Dim(0) {
						s, c := sin[position*j.dim:][:j.dim], cos[position*j.dim:][:j.dim]
						for p := range j.dim / 2 {
							a, b := j.pair(p)
							row[a], row[b] = float64(row[a]*c[a])-float64(row[b]*s[a]), float64(row[b]*c[b])+float64(row[a]*s[b])
						}
					}
					copy(result[to*j.dim:], row)
				})
			}
			if err := elementwise.SetFloats(outs[i].View(), result); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// normalise returns the normalised rows of an input, and writes their mean and rstd where they are requested.
func (x *jointInput) normalise(dim int64, eps float64) ([]float64, error) {
	rows, err := elementwise.Doubles(x.t.View())
	if err != nil || x.norm == noNorm {
		return rows, err
	}
	weight, err := numbers(x.weight)
	if err != nil {
		return nil, err
	}
	bias, err := numbers(x.bias)
	if err != nil {
		return nil, err
	}
	var means, rstds []float64
	for first := int64(0); first < int64(len(rows)); first += dim {
		row, mean := rows[first:][:dim], 0.0
		if x.norm == layerNorm || x.norm == affineLayerNorm {
			for _, v := range row {
				mean += v
			}
			mean /= float64(dim)
			for i := range row {
				row[i] -= mean
			}
		}
		rstd := 1 / math.Sqrt(dotted(row, row)/float64(dim)+eps)
		means, rstds = append(means, mean), append(rstds, rstd)
		for i := range row {
			row[i] *= rstd
			if weight != nil {
				row[i] *= weight[i]
			}
			if bias != nil {
				row[i] += bias[i]
			}
		}
	}
	if x.mean == nil {
		return rows, nil
	}
	if err := elementwise.SetFloats(x.mean.View(), means); err != nil {
		return nil, err
	}
	return rows, elementwise.SetFloats(x.rstd.View(), rstds)
}

// normRopeConcatGrad is the gradient of normRopeConcat, for layer norms.
func normRopeConcatGrad(c *op.Call) (op.Run, error) {
	query := c.Tensor("query")
	j := newJoint(c, query)
	if c.Err() != nil {
		return nil, c.Err()
	}
	inputs := [3][2]jointInput{}
	grads := [3]*op.Tensor{c.Tensor("gradQueryOutput"), c.Tensor("gradKeyOutput"), c.Tensor("gradValueOutput")}
	for i, name := range []string{"Query", "Key", "Value"} {
		for k, prefix := range [2]string{"norm" + name, "normAdded" + name} {
			x := &inputs[i][k]
			if k == 0 {
				x.grad = c.Tensor("grad" + name)
			} else {
				x.grad = c.Optional("gradEncoder" + name)
			}
			if i == 2 {
				x.t = x.grad // a value passes unchanged, so that only its size matters
				continue
			}
			if k == 0 {
				x.t = c.Tensor([]string{"query", "key"}[i])
			} else if x.t = c.Optional("encoder" + name); x.t != nil {
				x.grad = c.Tensor("gradEncoder" + name)
			}
			x.norm = c.Int([]string{"normType", "normAddedType"}[k])
			if x.t == nil || x.norm == noNorm {
				continue
			}
			x.mean, x.rstd = c.Tensor(prefix+"Mean"), c.Tensor(prefix+"Rstd")
			if x.norm == affineLayerNorm {
				x.weight = c.Tensor(prefix + "Weight")
				upper := "gradN" + prefix[1:]
				x.weightGrad, x.biasGrad = c.Tensor(upper+"Weight"), c.Tensor(upper+"Bias")
			}
		}
	}
	j.checkAll(&inputs, grads, query, affineLayerNorm)
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		sin, cos, err := j.angles()
		if err != nil {
			return err
		}
		for i := range inputs {
			dy, err := elementwise.Doubles(grads[i].View())
			if err != nil {
				return err
			}
			for k := range inputs[i] {
				x, other := &inputs[i][k], &inputs[i][1-k]
				if x.t == nil {
					continue
				}
				rows := make([]float64, x.t.Len())
				j.places(x, other, k == 1, func(from, to, position int64) {
					row := rows[from*j.dim:][:j.dim]
					copy(row, dy[to*j.dim:])
					if i < 2 && j.sin != nil && position < j.sin.Dim(0) {
						s, c := sin[position*j.dim:][:j.dim], cos[position*j.dim:][:j.dim]
						for p := range j.dim / 2 {
							a, b := j.pair(p)
							row[a], row[b] = float64(row[a]*c[a])+float64(row[b]*s[b]), float64(row[b]*c[b])-float64(row[a]*s[a])
						}
					}
				})
				if err := x.backward(rows, j.dim); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// backward turns the gradient of normalised rows into the gradient of the rows, in place, and writes this one and the gradients of weight and bias.
func (x *jointInput) backward(rows []float64, dim int64) error {
	if x.norm == noNorm {
		return elementwise.SetFloats(x.grad.View(), rows)
	}
	var read [4][]float64
	for i, t := range []*op.Tensor{x.t, x.mean, x.rstd, x.weight} {
		var err error
		if read[i], err = numbers(t); err != nil {
			return err
		}
	}
	weightGrad, biasGrad := make([]float64, dim), make([]float64, dim)
	for r, mean := range read[1] {
		dy, rstd := rows[int64(r)*dim:][:dim], read[2][r]
		normed := slices.Clone(read[0][int64(r)*dim:][:dim])
		for i := range normed {
			normed[i] = (normed[i] - mean) * rstd
			weightGrad[i] += float64(dy[i] * normed[i])
			biasGrad[i] += dy[i]
			if read[3] != nil {
				dy[i] *= read[3][i]
			}
		}
		average, along := 0.0, dotted(dy, normed)/float64(dim)
		for _, d := range dy {
			average += d / float64(dim)
		}
		for i := range dy {
			dy[i] = rstd * (dy[i] - average - float64(normed[i]*along))
		}
	}
	if err := elementwise.SetFloats(x.grad.View(), rows); err != nil || x.weight == nil {
		return err
	}
	if err := elementwise.SetFloats(x.weightGrad.View(), weightGrad); err != nil {
		return err
	}
	return elementwise.SetFloats(x.biasGrad.View(), biasGrad)
}
