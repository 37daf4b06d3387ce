package model

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// quantized is a weight as codes with scales. Products with it also take the other factor in int8, with a scale for each token that
// the device computes (W8A8: values [out, in], a scale for each row), or in 16 bits.
type quantized struct {
	values, scales, offsets *aclnn.Tensor
	dynamic                 bool // W8A8
	bits                    int
	outputs, inputs, group  int64  // group: inputs that share a scale
	how                     string // for Model.Kept

	codes           []int8 // on the host, until they are copied
	factors, shifts []float32
}

// precise are linear layers that stay in 16 bits: they are small, and an error of a gate reaches everything behind it.
var precise = []string{".shared_expert_gate", ".in_proj_a", ".in_proj_b", ".in_proj_ba"}

// Quantize replaces the weights of the linear layers by int8 weights with a scale for each output, and returns how
// many bytes of this rank's memory that has saved. Embedding, head, router and the routed experts stay as they are.
// The model must have Config.Frozen and a dtype of 16 bits; it cannot be trained or saved afterwards. After an error
// the model must be closed.
func (m *Model) Quantize(ctx context.Context) (saved int, err error) {
	switch {
	case !m.Config.Frozen || m.dt == aclnn.Float32 || m.par.Shard:
		return 0, errors.New("model: Quantize needs a model with Config.Frozen and a dtype of 16 bits, without Shard")
	case m.adapter != nil:
		return 0, errors.New("model: Quantize of a model that uses an adapter; merge the adapter first, or use it afterwards")
	case m.quantized.Stream != nil:
		return 0, errQuantized
	}
	m.quantized = aclnn.Scope{Stream: m.st}
	for _, w := range m.narrowable() {
		q := &quantized{values: m.quantized.Tensor(aclnn.Int8, w.local()...), scales: m.quantized.Tensor(aclnn.Float32, w.local()[0]), dynamic: true}
		aclnn.Launch(&m.quantized, aclnn.DynamicQuant, aclnn.DynamicQuantParams{X: w.Value, YOut: q.values, ScaleOut: q.scales})
		if err := m.quantized.Err(); err != nil {
			return saved, fmt.Errorf("model: %v: %w", w, err)
		}
		saved += w.Value.Bytes() - q.values.Bytes() - q.scales.Bytes()
		if err := w.Value.Close(); err != nil {
			return saved, err
		}
		w.quantized = q
	}
	return saved, m.st.Synchronize(ctx)
}

var errQuantized = errors.New("model: the weights are quantised; load the model again for this")

// narrowable lists the weights that Quantize replaces.
func (m *Model) narrowable() (all []*Parameter) {
	inside := map[*Parameter]bool{} // weights that have linear layers as rows
	for _, q := range m.params.all {
		if q.linear && q.stack != nil {
			inside[q.stack] = true
		}
	}
	for u, weights := range m.params.units {
		for _, w := range weights {
			if u != embeddingUnit && u != m.headUnit() && (w.linear || inside[w]) && !w.absorbed && !slices.Contains(precise, path.Ext(w.module())) {
				all = append(all, w)
			}
		}
	}
	return all
}

// multiply returns x·weightᵀ, where x is [tokens, in] with any dimensions for the tokens. It has no gradient.
func (q *quantized) multiply(p *pass, x *autograd.Var) *autograd.Var {
	if !q.dynamic {
		return q.product(p, x)
	}
	if p.narrow.of != x { // queries, keys and values read the same tensor
		out := p.Record("quantisation", []*autograd.Var{x}, func(c *autograd.Call) {
			rows := x.Value.Reshape(-1, x.Dim(-1))
			a := aclnn.DynamicQuantParams{X: rows, YOut: c.Output(aclnn.Int8, rows.Shape()...), ScaleOut: c.Output(aclnn.Float32, rows.Dim(0))}
			c.Do(func() error { return aclnn.DynamicQuant(p.Stream(), a) })
		})
		p.narrow = narrowed{x, out[0], out[len(out)-1]}
	}
	return p.Record("quantised product", []*autograd.Var{p.narrow.values, p.narrow.scales}, func(c *autograd.Call) {
		shape := x.Shape()
		shape[len(shape)-1] = q.values.Dim(0)
		y := c.Output(p.dt, shape...)
		c.Do(func() error {
			return aclnn.QuantMatmulV4(p.Stream(), aclnn.QuantMatmulV4Params{
				X1: p.narrow.values.Value, X2: q.values, Scale: q.scales, PertokenScale: p.narrow.scales.Value, TransposeX2: true, Out: y.Reshape(-1, y.Dim(-1)),
			})
		})
	})[0]
}

// narrowed is the input of a product in int8.
type narrowed struct{ of, values, scales *autograd.Var }
