package autograd_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/mask"
)

// weight is a parameter of a test: its values on the host, and the variable.
type weight struct {
	values []float32
	shape  []int64
	v      *autograd.Var
}

// problem is a computation with parameters whose gradients are compared with differences of values.
type problem struct {
	b       *opstest.Bench
	weights []*weight
}

// param makes a parameter of normal values.
func (p *problem) param(shape ...int64) *autograd.Var {
	return p.values(opstest.Random(aclnn.Float32, uint64(len(p.weights)+1), opstest.Size(shape)), shape...)
}

func (p *problem) values(values []float32, shape ...int64) *autograd.Var {
	w := &weight{values: values, shape: shape}
	w.v = autograd.NewParameter(p.b.Floats(aclnn.Float32, values, shape...), p.b.Empty(aclnn.Float32, shape...))
	p.weights = append(p.weights, w)
	return w.v
}

// total computes Σ outputs·factors in float64 on the host.
func (p *problem) total(forward func(t *autograd.Tape) []*autograd.Var, factors [][]float32) float64 {
	tape := autograd.New(p.b.T.Context(), p.b.Stream, p.b.Registry, autograd.Options{NoGrad: true, Seed: 3})
	sum := 0.0
	for i, y := range forward(tape) {
		require.NoError(p.b.T, tape.Err())
		for j, x := range p.b.Read(y.Value) {
			sum += float64(x) * float64(factors[i][j])
		}
	}
	require.NoError(p.b.T, tape.Close())
	return sum
}

// check compares the gradients of all parameters, at some elements, with central differences.
func (p *problem) check(forward func(t *autograd.Tape) []*autograd.Var) {
	t := p.b.T
	tape := autograd.New(t.Context(), p.b.Stream, p.b.Registry, autograd.Options{Seed: 3})
	outputs := forward(tape)
	require.NoError(t, tape.Err())
	var factors [][]float32
	var seeds []autograd.Output
	for i, y := range outputs {
		f := opstest.Random(aclnn.Float32, uint64(100+i), y.Value.Len())
		factors = append(factors, f)
		seeds = append(seeds, autograd.Output{Var: y, Grad: p.b.Floats(aclnn.Float32, f, y.Shape()...)})
	}
	require.NoError(t, tape.BackwardFrom(seeds...))
	require.NoError(t, tape.Close())
	rng := rand.New(rand.NewPCG(1, 2))
	const step = 1.0 / 128
	for i, w := range p.weights {
		got := p.b.Read(w.v.Grad)
		scale := 0.0
		for _, g := range got {
			scale = max(scale, math.Abs(float64(g)))
		}
		for range 6 {
			at := rng.IntN(len(w.values))
			shifted := func(by float32) float64 {
				values := append([]float32(nil), w.values...)
				values[at] += by
				require.NoError(t, aclnn.CopyToDevice(t.Context(), p.b.Stream, w.v.Value, values))
				return p.total(forward, factors)
			}
			want := (8*(shifted(step)-shifted(-step)) - (shifted(2*step) - shifted(-2*step))) / (12 * step)
			require.NoError(t, aclnn.CopyToDevice(t.Context(), p.b.Stream, w.v.Value, w.values))
			require.InDelta(t, want, got[at], 2e-3*math.Max(scale, 1), "parameter %d %v, element %d", i, w.shape, at)
		}
	}
}

// forward is a computation on a tape.
type forward func(t *autograd.Tape) []*autograd.Var

// TestGradients compares the gradient of every operator with differences of its values.
func TestGradients(t *testing.T) {
	of := func(vars ...*autograd.Var) []*autograd.Var { return vars }
	cases := map[string]func(p *problem) forward{
		"linear": func(p *problem) forward {
			x, w, b := p.param(3, 5), p.param(4, 5), p.param(4)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.Linear(x, w, b)) }
		},
		"linear, bias used before": func(p *problem) forward {
			x, w, v, b := p.param(3, 5), p.param(5, 5), p.param(5, 5), p.param(5)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.Linear(t.Linear(x, w, b), v, b)) }
		},
		"matmul": func(p *problem) forward {
			a, b := p.param(2, 3, 5), p.param(2, 5, 4)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.MatMul(a, b)) }
		},
		"grouped matmul": func(p *problem) forward {
			x, w, b := p.param(5, 3), p.param(2, 3, 4), p.param(2, 4)
			groups := autograd.Groups{Groups: ops.Groups{Host: []int64{2, 3}}}
			return func(t *autograd.Tape) []*autograd.Var {
				return of(t.GroupedMatmul(x, w, b, groups), t.GroupedMatmul(t.Scale(x, 2), w, b, groups))
			}
		},
		"embedding": func(p *problem) forward {
			w, ids := p.param(6, 3), opstest.Data(p.b, aclnn.Int32, []int32{1, 5, 1, 0}, 4)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.Embedding(w, t.Input(ids))) }
		},
		"rms norm": func(p *problem) forward {
			x, w := p.param(3, 8), p.param(8)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.RMSNorm(x, w, 1e-6)) }
		},
		"rms norm of 1 + weight": func(p *problem) forward {
			x, w := p.param(3, 8), p.param(8)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.RMSNorm(x, t.AddScalar(w, 1), 1e-6)) }
		},
		"add rms norm": func(p *problem) forward {
			x, y, w := p.param(3, 8), p.param(3, 8), p.param(8)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.AddRMSNorm(x, y, w, 1e-6)) }
		},
		"add rms norm, sum alone": func(p *problem) forward {
			x, y, w := p.param(3, 8), p.param(3, 8), p.param(8)
			return func(t *autograd.Tape) []*autograd.Var {
				sum, _ := t.AddRMSNorm(x, y, w, 1e-6)
				return of(sum)
			}
		},
		"layer norm": func(p *problem) forward {
			x, w, b := p.param(3, 8), p.param(8), p.param(8)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.LayerNorm(t.LayerNorm(x, w, b, 1e-5), w, b, 0.5)) }
		},
		"a residual stream": func(p *problem) forward {
			x, w, v := p.param(3, 8), p.param(8), p.param(8, 8)
			return func(t *autograd.Tape) []*autograd.Var {
				y := t.Linear(t.RMSNorm(x, w, 1e-6), v, nil)
				sum, normed := t.AddRMSNorm(x, y, w, 1e-6)
				return of(t.Add(sum, t.Sigmoid(normed)))
			}
		},
		"gated norm": func(p *problem) forward {
			x, z, w := p.param(3, 8), p.param(3, 8), p.param(8)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.GatedNorm(x, z, w, 1e-6)) }
		},
		"rope": func(p *problem) forward {
			q, k := p.param(2, 3, 4, 8), p.param(2, 3, 2, 8)
			cos, _ := p.b.Input(aclnn.Float32, 50, 1, 3, 1, 8)
			sin, _ := p.b.Input(aclnn.Float32, 51, 1, 3, 1, 8)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.RoPE(q, k, cos, sin)) }
		},
		"rope of neighbours": func(p *problem) forward {
			q, k := p.param(2, 3, 4, 8), p.param(2, 3, 2, 8)
			cos, _ := p.b.Input(aclnn.Float32, 50, 1, 3, 1, 4)
			sin, _ := p.b.Input(aclnn.Float32, 51, 1, 3, 1, 4)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.RoPEInterleaved(q, k, cos, sin)) }
		},
		"rope, keys unused": func(p *problem) forward {
			q, k := p.param(2, 3, 4, 8), p.param(2, 3, 2, 8)
			cos, _ := p.b.Input(aclnn.Float32, 50, 1, 3, 1, 8)
			return func(t *autograd.Tape) []*autograd.Var {
				q, _ := t.RoPE(q, k, cos, cos)
				return of(q)
			}
		},
		"swiglu": func(p *problem) forward {
			x := p.param(3, 8)
			return func(t *autograd.Tape) []*autograd.Var {
				return of(t.SwiGLU(x), t.ClippedSwiGLU(t.Scale(x, 1), ops.ClippedSwiGLUArgs{Alpha: 1.702, Limit: 9, Offset: 1, Interleaved: true}))
			}
		},
		"swiglu of two": func(p *problem) forward {
			x, y := p.param(3, 8), p.param(3, 8)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.SwiGLUOf(x, y)) }
		},
		"attention": func(p *problem) forward {
			q, k, v, sinks := p.param(2, 5, 4, 8), p.param(2, 5, 2, 8), p.param(2, 5, 2, 8), p.param(4)
			return func(t *autograd.Tape) []*autograd.Var {
				return of(t.Attention(q, k, v, sinks, ops.AttentionArgs{Layout: ops.BSND, Mask: mask.Causal{}, Scale: 0.35}))
			}
		},
		"attention in BSH with dropout": func(p *problem) forward {
			q, k, v := p.param(1, 5, 32), p.param(1, 5, 16), p.param(1, 5, 16)
			return func(t *autograd.Tape) []*autograd.Var {
				return of(t.Attention(q, k, v, nil, ops.AttentionArgs{Layout: ops.BSH, Heads: 4, Scale: 0.35, KeepProb: 0.7}))
			}
		},
		"attention of packed sequences": func(p *problem) forward {
			q, k, v := p.param(7, 4, 8), p.param(7, 2, 8), p.param(7, 2, 8)
			m := mask.Varlen{CuQueries: []int64{3, 7}, CuKeys: []int64{3, 7}}
			return func(t *autograd.Tape) []*autograd.Var {
				return of(t.Attention(q, k, v, nil, ops.AttentionArgs{Layout: ops.TND, Mask: m, Scale: 0.35}))
			}
		},
		"dropout": func(p *problem) forward {
			x := p.param(40, 8)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.Dropout(x, 0.4)) }
		},
		"cross-entropy": func(p *problem) forward {
			x, labels := p.param(4, 7), opstest.Data(p.b, aclnn.Int32, []int32{1, -100, 6, 0}, 4)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.CrossEntropy(x, t.Input(labels), -100)) }
		},
		"linear cross-entropy": func(p *problem) forward {
			x, w, labels := p.param(7, 4), p.param(9, 4), opstest.Data(p.b, aclnn.Int32, []int32{1, -100, -100, -100, 8, 0, 3}, 7)
			return func(t *autograd.Tape) []*autograd.Var {
				chunked := t.LinearCrossEntropy(x, w, t.Input(labels), -100, autograd.LinearLoss{Bytes: 2 * 9 * 4})
				return of(t.Scale(chunked, 2), t.LinearCrossEntropy(x, w, t.Input(labels), -100, autograd.LinearLoss{}))
			}
		},
		"elementwise": func(p *problem) forward {
			x, y := p.param(3, 4), p.param(3, 4)
			return func(t *autograd.Tape) []*autograd.Var {
				return of(t.Add(t.Mul(t.Tanh(x), t.Sigmoid(y)), t.Scale(t.AddScalar(t.Mul(x, x), 2), -0.5)))
			}
		},
		"bias and gelu": func(p *problem) forward {
			x, b := p.param(2, 3, 4), p.param(4)
			return func(t *autograd.Tape) []*autograd.Var {
				return of(t.AddBias(t.Gelu(t.AddBias(x, b), false), b), t.Gelu(x, true))
			}
		},
		"a factor per row": func(p *problem) forward {
			x, y, z := p.param(3, 4), p.param(3, 1), p.param(1, 4)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.Mul(t.Mul(x, t.Sigmoid(y)), z)) }
		},
		"add to parts": func(p *problem) forward {
			x, w, y, z := p.param(3, 4), p.param(6, 4), p.param(3, 2), p.param(2, 6)
			columns := func(v *aclnn.Tensor) *aclnn.Tensor { return v.Narrow(1, 3, 2) }
			rows := func(v *aclnn.Tensor) *aclnn.Tensor { return v.Narrow(0, 1, 2) }
			return func(t *autograd.Tape) []*autograd.Var {
				kept := t.Sigmoid(t.Linear(x, w, nil))
				return of(t.AddTo(t.AddTo(t.Linear(x, w, nil), y, columns), t.Scale(z, 2), rows), t.AddTo(kept, y, columns))
			}
		},
		"join": func(p *problem) forward {
			x, y, z := p.param(2, 3, 4), p.param(2, 3, 2, 2), p.param(2, 3, 5)
			return func(t *autograd.Tape) []*autograd.Var {
				parts := t.Split(t.Scale(x, 1.5), 2, 1, 3)
				whole := t.Join(2, parts[1], y, t.Unflatten(z, 1, 3, 1), parts[0])
				return of(t.Mul(whole, whole), t.Join(0, x, z))
			}
		},
		"repeat": func(p *problem) forward {
			x := p.param(2, 3, 2)
			return func(t *autograd.Tape) []*autograd.Var {
				y := t.Repeat(x, 1, 3)
				return of(t.Mul(y, y))
			}
		},
		"derived": func(p *problem) forward {
			x, w, v, half := p.param(3, 8), p.param(8), p.param(2, 4, 8), p.param(16)
			same := func(d *aclnn.Tensor) *aclnn.Tensor { return d }
			transposed := func(d *aclnn.Tensor) *aclnn.Tensor { return d.Transpose(1, 2) }
			part := func(at int64) func(*aclnn.Tensor) *aclnn.Tensor {
				return func(d *aclnn.Tensor) *aclnn.Tensor { return d.Narrow(0, at, 4) }
			}
			read := func(f func(*aclnn.Tensor) *aclnn.Tensor) func(*aclnn.Scope, *aclnn.Tensor) *aclnn.Tensor {
				return func(_ *aclnn.Scope, v *aclnn.Tensor) *aclnn.Tensor { return f(v) }
			}
			return func(t *autograd.Tape) []*autograd.Var {
				plusOne := t.Derive(w, func(s *aclnn.Scope, v *aclnn.Tensor) *aclnn.Tensor {
					out := s.Like(v)
					aclnn.Launch(s, aclnn.Adds, aclnn.AddsParams{Self: v, Other: aclnn.Float(1), Alpha: aclnn.Float(1), Out: out})
					return out
				}, same)
				y := t.RMSNorm(x, plusOne, 1e-6)
				grouped := t.GroupedMatmul(y, t.Derive(v, read(transposed), transposed), nil, autograd.Groups{Groups: ops.Groups{Host: []int64{1, 2}}})
				joined := t.Join(0, t.Derive(half, read(part(2)), part(2)), t.Derive(half, read(part(9)), part(9)))
				return of(t.RMSNorm(t.RMSNorm(y, plusOne, 1e-6), joined, 1e-6), grouped)
			}
		},
		"dropout of a seed": func(p *problem) forward {
			x := p.param(40, 8)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.DropoutOf(x, 0.4, 5)) }
		},
		"views": func(p *problem) forward {
			x := p.param(4, 6)
			return func(t *autograd.Tape) []*autograd.Var {
				parts := t.Split(x, 1, 2, 3, 1)
				transposed := t.Contiguous(t.Transpose(t.Narrow(x, 0, 1, 2), 0, 1))
				return of(t.Mul(parts[1], parts[1]), t.Reshape(transposed, 3, 4))
			}
		},
		"parts whose operators write into the whole": func(p *problem) forward {
			x, w, v := p.param(4, 8), p.param(4), p.param(4)
			return func(t *autograd.Tape) []*autograd.Var {
				parts := t.Split(t.Scale(x, 1.5), 1, 4, 4)
				halves := t.Unflatten(parts[0], 1, 2, 2)
				parts[0] = t.Reshape(t.Contiguous(t.Mul(halves, halves)), 4, 4)
				return of(t.RMSNorm(parts[0], w, 1e-6), t.RMSNorm(t.Reshape(t.Contiguous(parts[1]), 4, 4), v, 1e-6))
			}
		},
		"delta gate": func(p *problem) forward {
			a, b, aLog, bias := p.param(2, 3, 4), p.param(2, 3, 4), p.param(4), p.param(4)
			return func(t *autograd.Tape) []*autograd.Var { return of(t.DeltaGate(a, b, aLog, bias)) }
		},
		"gated delta rule": func(p *problem) forward {
			q, k, v := p.param(1, 5, 2, 8), p.param(1, 5, 2, 8), p.param(1, 5, 4, 8)
			a, b, aLog, bias := p.param(1, 5, 4), p.param(1, 5, 4), p.param(4), p.param(4)
			return func(t *autograd.Tape) []*autograd.Var {
				decay, beta := t.DeltaGate(a, b, aLog, bias)
				return of(t.GatedDeltaFrom(q, k, v, decay, beta, nil, ops.GatedDeltaArgs{Scale: 0.35, Normalize: true}))
			}
		},
		"gated delta rule without states": func(p *problem) forward {
			qkv, decay, beta := p.param(1, 5, 64), p.param(1, 5, 4), p.param(1, 5, 4)
			return func(t *autograd.Tape) []*autograd.Var {
				parts := t.Split(t.Scale(qkv, 0.5), 2, 16, 16, 32)
				q, k, v := t.Unflatten(parts[0], 2, 2, 8), t.Unflatten(parts[1], 2, 2, 8), t.Unflatten(parts[2], 2, 4, 8)
				return of(t.GatedDelta(q, k, v, t.Scale(t.Sigmoid(decay), -1), beta, ops.GatedDeltaArgs{Scale: 0.35, Normalize: true}))
			}
		},
		"causal convolution": func(p *problem) forward {
			x, w, b := p.param(2, 5, 6), p.param(6, 3), p.param(6)
			return func(t *autograd.Tape) []*autograd.Var {
				return of(t.CausalConv(x, w, b, ops.CausalConvArgs{SiLU: true}))
			}
		},
		"routing by sigmoids in groups": func(p *problem) forward {
			router := p.values([]float32{1, 0.5, 0, 0, 0.5, 1, 0, 0, 0, 0, 1, 0.5, 0, 0, 0.5, 1}, 4, 4) // no choice of groups is close
			x := p.values([]float32{1, 0.2, -1, 0.1, -1, 0.3, 1, 0.2, 0.4, 1, 0.1, -1}, 3, 4)
			gateUp, down := p.param(4, 4, 10), p.param(4, 5, 4)
			return func(t *autograd.Tape) []*autograd.Var {
				r := t.MoERouting(t.Linear(x, router, nil), 2, ops.MoERoutingArgs{Score: ops.SigmoidScore, Normalize: true, Groups: 2, TopGroups: 1, GroupBest: 2, Scale: 2.5})
				rows := t.MoEPermute(x, r, 4)
				return of(t.MoEUnpermute(t.MoEExperts(rows.Rows, rows.Groups, gateUp, down), rows, r, nil))
			}
		},
		"experts": func(p *problem) forward {
			router := p.values([]float32{9, 1, 0, 0, 0, 8, 1, 0, 1, 0, 0, 9}, 3, 4) // no choice of experts is close
			x, gateUp, down, shared := p.param(6, 4), p.param(3, 4, 10), p.param(3, 5, 4), p.param(6, 4)
			return func(t *autograd.Tape) []*autograd.Var {
				r := t.MoERouting(t.Linear(x, router, nil), 2, ops.MoERoutingArgs{Normalize: true})
				rows := t.MoEPermute(x, r, 3)
				y := t.MoEUnpermute(t.MoEExperts(rows.Rows, rows.Groups, gateUp, down), rows, r, shared)
				return of(y, t.LoadBalance(0.3, r, t.MoERouting(t.Linear(x, router, nil), 2, ops.MoERoutingArgs{})))
			}
		},
	}
	for name, build := range cases {
		t.Run(name, func(t *testing.T) {
			p := &problem{b: opstest.New(t)}
			p.check(build(p))
		})
		t.Run(name+", recomputed", func(t *testing.T) {
			p := &problem{b: opstest.New(t)}
			f := build(p)
			p.check(func(t *autograd.Tape) []*autograd.Var {
				return t.Checkpoints("all", func() []*autograd.Var { return f(t) })
			})
		})
	}
}
