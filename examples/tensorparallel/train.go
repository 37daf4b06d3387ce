package main

import (
	"context"
	"math/rand/v2"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/mask"
	"github.com/goascend/cann/ops/parallel"
)

const (
	batch, length, words, layers = 2, 32, 96, 2
	width, inner, heads, dim     = 64, 192, 4, 16
	epsilon                      = 1e-6
)

// model has this rank's part of a model. Its tensors live as long as the scope.
type model struct {
	*aclnn.Scope
	ctx                    context.Context
	tp                     *parallel.TensorParallel
	random                 *rand.Rand // that gives the same numbers on all ranks
	updates                []ops.AdamWArgs
	embedding, final, head *autograd.Var
	layers                 [layers]layer
	cos, sin, ids, labels  *aclnn.Tensor
}

// layer has the weights of a layer; qkv holds three projections one below the other, and gateUp two.
type layer struct{ attentionNorm, qkv, out, feedNorm, gateUp, down *autograd.Var }

func newModel(ctx context.Context, s *aclnn.Scope, tp *parallel.TensorParallel, tokens []int32) *model {
	m := &model{Scope: s, ctx: ctx, tp: tp, random: rand.New(rand.NewPCG(1, 2))}
	m.embedding, m.final, m.head = m.column(width, words), m.norm(), m.column(width, words)
	for i := range m.layers {
		m.layers[i] = layer{m.norm(), m.column(width, width, width, width), m.row(width, width), m.norm(), m.column(width, inner, inner), m.row(width, inner)}
	}
	cos, sin := ops.RoPETables(length, ops.RoPEFrequencies(dim, 10000), 1, false)
	m.cos, m.sin = data(m, aclnn.Float32, cos, 1, length, 1, dim), data(m, aclnn.Float32, sin, 1, length, 1, dim)
	m.ids, m.labels = data(m, aclnn.Int32, tokens[:batch*length], batch*length), data(m, aclnn.Int32, tokens[1:], batch*length)
	return m
}

// layer computes a layer; x is [tokens, width] and the same on all ranks.
func (m *model) layer(t *autograd.Tape, l layer, x *autograd.Var) *autograd.Var {
	n := heads / m.tp.Size()
	qkv := t.ColumnLinear(m.tp, t.RMSNorm(x, l.attentionNorm, epsilon), l.qkv, nil)
	parts := t.Split(t.Reshape(qkv, batch, length, 3*n, dim), 2, n, n, n)
	q, k := t.RoPE(parts[0], parts[1], m.cos, m.sin)
	y := t.Attention(q, k, parts[2], nil, ops.AttentionArgs{Layout: ops.BSND, Mask: mask.Causal{}, Scale: ops.ScaleOf(dim)})
	x, h := t.AddRMSNorm(x, t.RowLinear(m.tp, t.Reshape(y, batch*length, n*dim), l.out, nil), l.feedNorm, epsilon)
	return t.Add(x, t.RowLinear(m.tp, t.SwiGLU(t.ColumnLinear(m.tp, h, l.gateUp, nil)), l.down, nil))
}

// step trains the model once and returns the loss.
func (m *model) step(number int, reg *ops.Registry) (loss []float32) {
	t := autograd.New(m.ctx, m.Stream, reg, autograd.Options{})
	x := t.ParallelEmbedding(m.tp, m.embedding, t.Input(m.ids))
	for _, l := range m.layers {
		x = t.Checkpoint("layer", func() *autograd.Var { return m.layer(t, l, x) }) // or Block, which keeps more and computes less
	}
	logits := t.ColumnLinear(m.tp, t.RMSNorm(x, m.final, epsilon), m.head, nil)
	mean := t.ParallelCrossEntropy(m.tp, logits, t.Input(m.labels), ops.IgnoredLabel)
	m.Do(func() error { return t.Backward(mean) })
	m.Do(func() (err error) {
		loss, err = aclnn.ToSlice[float32](m.ctx, m.Stream, mean.Value)
		return err
	})
	m.Fail(t.Close())
	for i := range m.updates {
		m.updates[i].Step = number
	}
	m.Do(func() error { return reg.AdamWList().Run(m.ctx, m.Stream, &ops.AdamWListArgs{Updates: m.updates}) })
	return loss
}

// data makes a tensor with values.
func data[T acl.Element](m *model, dt aclnn.DType, values []T, shape ...int64) *aclnn.Tensor {
	t := m.Tensor(dt, shape...)
	m.Do(func() error { return aclnn.CopyToDevice(m.ctx, m.Stream, t, values) })
	return t
}

// random values of a weight, before it is cut.
func (m *model) whole(rows, columns int64) *aclnn.Tensor {
	values := make([]float32, rows*columns)
	for i := range values {
		values[i] = float32(0.1 * m.random.NormFloat64())
	}
	return data(m, aclnn.Float32, values, rows, columns)
}

// column makes a parameter whose rows the ranks divide; it holds projections of these sizes.
func (m *model) column(columns int64, rows ...int64) *autograd.Var {
	sum := int64(0)
	for _, n := range rows {
		sum += n
	}
	return m.parameter(m.tp.CutColumns(m.Scope, m.whole(sum, columns), rows...))
}

// row makes a parameter whose columns the ranks divide.
func (m *model) row(rows, columns int64) *autograd.Var {
	return m.parameter(m.tp.CutRows(m.Scope, m.whole(rows, columns)))
}

// norm makes a parameter that all ranks have.
func (m *model) norm() *autograd.Var {
	ones := m.Tensor(aclnn.Float32, width)
	m.Fill(ones, aclnn.Float(1))
	return m.parameter(ones)
}

func (m *model) parameter(value *aclnn.Tensor) *autograd.Var {
	a := ops.AdamWArgs{Param: value, Grad: m.Like(value), ExpAvg: m.Like(value), ExpAvgSq: m.Like(value), LR: 3e-3, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8}
	m.Zero(a.ExpAvg)
	m.Zero(a.ExpAvgSq)
	m.updates = append(m.updates, a)
	return autograd.NewParameter(a.Param, a.Grad)
}
