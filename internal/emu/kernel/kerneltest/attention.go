package kerneltest

import "math"

// Attention computes attention of one batch item directly from its definition, in float64 and
// with the whole score matrix. It is the reference for the flash attention kernels. Tensors are
// [heads, tokens, dim] in row-major order.
type Attention struct {
	Heads, KeyHeads, Rows, Cols, Dim, ValueDim int64
	Query, Key, Value, OutGrad                 []float64 // no gradients without OutGrad
	Scale                                      float64
	Score                                      func(head, row, col int64, product float64) float64 // nil multiplies by Scale
	Visible                                    func(head, row, col int64) bool                     // nil makes every cell visible
	Keep                                       func(head, row, col int64) float64                  // dropout factor; nil is 1
	ZeroMaskedRows                             bool
	Sinks                                      []float64 // of the heads: one more score of each row, whose value is zero; nil is none
}

// AttentionResult holds the outputs and gradients of Attention.
type AttentionResult struct {
	Out, Max, Sum                 []float64
	QueryGrad, KeyGrad, ValueGrad []float64
	SinkGrad                      []float64
}

// Compute evaluates the definition.
func (a *Attention) Compute() AttentionResult {
	r := AttentionResult{
		Out: make([]float64, a.Heads*a.Rows*a.ValueDim), Max: make([]float64, a.Heads*a.Rows), Sum: make([]float64, a.Heads*a.Rows),
		QueryGrad: make([]float64, a.Heads*a.Rows*a.Dim), KeyGrad: make([]float64, a.KeyHeads*a.Cols*a.Dim),
		ValueGrad: make([]float64, a.KeyHeads*a.Cols*a.ValueDim), SinkGrad: make([]float64, a.Heads),
	}
	if a.Cols == 0 {
		return r
	}
	for head := range a.Heads {
		for row := range a.Rows {
			a.computeRow(&r, head, row)
		}
	}
	return r
}

func (a *Attention) computeRow(r *AttentionResult, head, row int64) {
	kv, at := head/(a.Heads/a.KeyHeads), head*a.Rows+row
	query := a.Query[at*a.Dim:][:a.Dim]
	p, keep := make([]float64, a.Cols), make([]float64, a.Cols)
	top, sum := -math.MaxFloat32, 0.0
	for col := range a.Cols {
		p[col] = -math.MaxFloat32
		if a.Visible == nil || a.Visible(head, row, col) {
			product := dot(query, a.Key[(kv*a.Cols+col)*a.Dim:])
			if a.Score != nil {
				p[col] = a.Score(head, row, col, product)
			} else {
				p[col] = product * a.Scale
			}
		}
		top = max(top, p[col])
		keep[col] = 1
		if a.Keep != nil {
			keep[col] = a.Keep(head, row, col)
		}
	}
	if a.Sinks != nil {
		top = max(top, a.Sinks[head])
		sum = math.Exp(a.Sinks[head] - top)
	}
	sink := sum
	for col := range p {
		p[col] = math.Exp(p[col] - top)
		sum += p[col]
	}
	if top == -math.MaxFloat32 && a.ZeroMaskedRows {
		sum = math.MaxFloat32
		clear(p)
	}
	r.Max[at], r.Sum[at] = top, sum
	out := r.Out[at*a.ValueDim:][:a.ValueDim]
	for col := range a.Cols {
		p[col] /= sum
		add(out, a.Value[(kv*a.Cols+col)*a.ValueDim:], p[col]*keep[col])
	}
	if a.OutGrad == nil {
		return
	}
	outGrad := a.OutGrad[at*a.ValueDim:][:a.ValueDim]
	delta := dot(outGrad, out)
	r.SinkGrad[head] -= sink / sum * delta
	for col := range a.Cols {
		cell := kv*a.Cols + col
		add(r.ValueGrad[cell*a.ValueDim:][:a.ValueDim], outGrad, p[col]*keep[col])
		ds := p[col] * (dot(outGrad, a.Value[cell*a.ValueDim:])*keep[col] - delta) * a.Scale
		add(r.QueryGrad[at*a.Dim:][:a.Dim], a.Key[cell*a.Dim:], ds)
		add(r.KeyGrad[cell*a.Dim:][:a.Dim], query, ds)
	}
}

func dot(a, b []float64) float64 {
	s := 0.0
	for i, x := range a {
		s += x * b[i]
	}
	return s
}

func add(dst, src []float64, factor float64) {
	for i := range dst {
		dst[i] += factor * src[i]
	}
}
