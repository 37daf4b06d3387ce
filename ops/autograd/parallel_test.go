package autograd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/autograd"
	"github.com/goascend/cann/ops/mask"
	"github.com/goascend/cann/ops/parallel"
)

// onRanks runs a test on n ranks, each a goroutine with a device of its own.
func onRanks(t *testing.T, n int, test func(b *opstest.Bench, comm *hccl.Comm)) {
	t.Helper()
	benches := opstest.Several(t, n)
	info, err := hccl.NewRootInfo(benches[0].Stream)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i, b := range benches {
		wg.Go(func() {
			comm, err := hccl.Join(t.Context(), b.Stream, hccl.RootInfo{ID: info.ID, Rank: i, Size: n}, hccl.Config{})
			require.NoError(t, err)
			defer func() { // also when the test ends this goroutine
				assert.NoError(t, b.Stream.Synchronize(context.Background()))
				assert.NoError(t, comm.Close())
			}()
			test(b, comm)
		})
	}
	wg.Wait()
}

// cut says how the ranks divide a tensor: by an axis, or not at all if parts is 0.
type cut struct{ axis, part, parts int64 }

// of returns the part of the values of a tensor, and its shape.
func (c cut) of(values []float32, shape []int64) ([]float32, []int64) {
	if c.parts == 0 {
		return values, shape
	}
	inner, mine := opstest.Size(shape[c.axis+1:]), shape[c.axis]/c.parts
	var part []float32
	for at := int64(0); at < int64(len(values)); at += shape[c.axis] * inner {
		part = append(part, values[at+c.part*mine*inner:][:mine*inner]...)
	}
	own := append([]int64(nil), shape...)
	own[c.axis] = mine
	return part, own
}

// split is a problem on one rank or on several: the parameters of a rank are parts of those of the problem.
type split struct {
	b    *opstest.Bench
	seed uint64
	all  []*autograd.Var
	cuts []cut
	// replicated are parameters of which all ranks have the whole, and gradients for their own rows.
	replicated []*autograd.Var
}

func (s *split) param(c cut, shape ...int64) *autograd.Var {
	s.seed++
	values, own := c.of(opstest.Random(aclnn.Float32, s.seed, opstest.Size(shape)), shape)
	v := autograd.NewParameter(s.b.Floats(aclnn.Float32, values, own...), s.b.Empty(aclnn.Float32, own...))
	s.all, s.cuts = append(s.all, v), append(s.cuts, c)
	return v
}

// side makes a stream for exchanges beside the kernels.
func (s *split) side() *acl.Stream {
	side, err := s.b.Stream.Device().NewStream()
	require.NoError(s.b.T, err)
	s.b.T.Cleanup(func() { require.NoError(s.b.T, side.Close()) })
	return side
}

// headGroups is attention between projections, with heads that are exchanged for positions in groups, one group beside the attention to another.
func headGroups(s *split, u *parallel.Ulysses, ranks int64, groups int, side *acl.Stream) func(t *autograd.Tape) *autograd.Var {
	const rows, width, dim, heads, keys = 8, 6, 4, 8, 4
	x := s.param(cut{1, u.Rank(), ranks}, 1, rows, width)
	s.seed = 100
	weight := func(out, in int64) *autograd.Var {
		s.seed++
		return autograd.NewParameter(s.b.Floats(aclnn.Float32, opstest.Random(aclnn.Float32, s.seed, out*in), out, in), s.b.Empty(aclnn.Float32, out, in))
	}
	wq, wk, wv, wo := weight(heads*dim, width), weight(keys*dim, width), weight(keys*dim, width), weight(width, heads*dim)
	s.replicated = append(s.replicated, wq, wk, wv, wo)
	return func(t *autograd.Tape) *autograd.Var {
		project := func(w *autograd.Var, heads int64) (parts []*autograd.Var, first *autograd.HeadExchange) {
			sizes := make([]int64, groups)
			for i := range sizes {
				sizes[i] = heads / ranks / int64(groups)
			}
			y := t.Reshape(t.Linear(x, w, nil), 1, -1, ranks, heads/ranks, dim)
			parts = t.Split(y, 3, sizes...)
			return parts, t.BeginToHeads(u, side, parts[0])
		}
		q, nextQ := project(wq, heads)
		k, nextK := project(wk, keys)
		v, nextV := project(wv, keys)
		var results []*autograd.HeadExchange
		for i := range groups {
			query, key, value := t.EndExchange(nextQ), t.EndExchange(nextK), t.EndExchange(nextV)
			if i+1 < groups {
				nextQ, nextK, nextV = t.BeginToHeads(u, side, q[i+1]), t.BeginToHeads(u, side, k[i+1]), t.BeginToHeads(u, side, v[i+1])
			}
			results = append(results, t.BeginToSequence(u, side, t.Attention(query, key, value, nil, ops.AttentionArgs{Layout: ops.BSND, Mask: mask.Causal{}, Scale: 0.4})))
		}
		return t.Linear(t.Reshape(t.EndExchange(results...), 1, -1, heads*dim), wo, nil)
	}
}

// TestHeadGroups: results and gradients, also of the weights of the projections, have the same bits with one group of heads between the kernels, and with groups that are exchanged beside them.
func TestHeadGroups(t *testing.T) {
	onRanks(t, 2, func(b *opstest.Bench, comm *hccl.Comm) {
		u := parallel.NewUlysses(comm, mask.ZigZag)
		var want [][]float32
		for _, o := range []struct {
			groups int
			beside bool
			around func(*autograd.Tape, string, func() *autograd.Var) *autograd.Var
		}{{1, false, (*autograd.Tape).Block}, {2, false, (*autograd.Tape).Block}, {1, true, (*autograd.Tape).Block}, {2, true, (*autograd.Tape).Block}, {2, true, (*autograd.Tape).Checkpoint}} {
			s := &split{b: b}
			var side *acl.Stream
			if o.beside {
				side = s.side()
			}
			forward := headGroups(s, u, 2, o.groups, side)
			complete := 0
			tape := autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{Complete: func(*autograd.Var) error { complete++; return nil }})
			y := o.around(tape, "all", func() *autograd.Var { return forward(tape) })
			require.NoError(b.T, tape.Err())
			got := [][]float32{b.Read(y.Value)}
			require.NoError(b.T, tape.BackwardFrom(autograd.Output{Var: y, Grad: b.Floats(aclnn.Float32, opstest.Random(aclnn.Float32, 9, 24), 1, 4, 6)}))
			require.NoError(b.T, tape.Close())
			for _, v := range append(s.all, s.replicated...) {
				got = append(got, b.Read(v.Grad))
			}
			require.Equal(b.T, 5, complete)
			if want == nil {
				want = got
			}
			require.Equal(b.T, want, got, "%d groups, beside the kernels: %v", o.groups, o.beside)
		}
	})
}

// TestExchangesThatAreNotEnded: a tape ends what it has begun, and refuses what cannot end.
func TestExchangesThatAreNotEnded(t *testing.T) {
	onRanks(t, 2, func(b *opstest.Bench, comm *hccl.Comm) {
		u := parallel.NewUlysses(comm, mask.Contiguous)
		s := &split{b: b}
		side := s.side()
		x := s.param(cut{}, 1, 4, 4, 2)
		tape := autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{})
		e := tape.BeginToHeads(u, side, x)
		tape.BeginToHeads(u, side, x)
		y := tape.EndExchange(e)
		require.NoError(b.T, tape.Err())
		require.Equal(b.T, []int64{1, 8, 2, 2}, y.Shape())
		tape.EndExchange(tape.BeginToHeads(u, side, x), tape.BeginToHeads(u, side, x))
		require.ErrorContains(b.T, tape.Close(), "several parts must be exchanges to the sequence")
		tape = autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{})
		e = tape.BeginToHeads(u, side, x)
		tape.EndExchange(e)
		tape.EndExchange(e)
		require.Error(b.T, tape.Err())
		require.Error(b.T, tape.Close())
		tape = autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{})
		tape.EndExchange()
		require.ErrorContains(b.T, tape.Close(), "no parts")
	})
}

// TestRanks compares gradients of layers that are split over ranks with those of one rank.
func TestRanks(t *testing.T) {
	// build makes the parameters, cut for a rank, and returns the computation, whose results are the same on all ranks or cut by rows.
	type build func(s *split, c *hccl.Comm, rank, ranks int64) (forward func(t *autograd.Tape) *autograd.Var, out cut)
	const rows, width, inner = 8, 8, 12
	group := func(c *hccl.Comm) parallel.Communicator {
		if c == nil {
			return nil
		}
		return c
	}
	feedForward := func(sequence bool) build {
		return func(s *split, c *hccl.Comm, rank, ranks int64) (func(t *autograd.Tape) *autograd.Var, cut) {
			tp := parallel.NewTensorParallel(s.b.Registry, group(c), sequence)
			byRows, byColumns, tokens := cut{0, rank, ranks}, cut{1, rank, ranks}, cut{}
			if sequence {
				tokens = byRows
			}
			x, up, down := s.param(tokens, rows, width), s.param(byRows, inner, width), s.param(byColumns, width, inner)
			bias, plain, over := s.param(byRows, inner), s.param(byColumns, width, inner), s.param(byRows, inner, width)
			return func(t *autograd.Tape) *autograd.Var {
				y := t.RowLinear(tp, t.Sigmoid(t.ColumnLinear(tp, t.Scale(x, 1), up, bias)), down, nil)
				// The same with the exchange apart.
				return t.Add(y, t.Reduce(tp, t.Linear(t.Sigmoid(t.Linear(t.Gather(tp, t.Scale(x, 1)), over, nil)), plain, nil)))
			}, tokens
		}
	}
	// experts are the weights of a layer of experts, which the ranks divide, or of each of which they have a shard.
	experts := func(s *split, c *hccl.Comm, rank, ranks int64, shards bool) (e *parallel.ExpertParallel, own int64, weights func(t *autograd.Tape) (gateUp, down *autograd.Var)) {
		gateCut, downCut, n := cut{0, rank, ranks}, cut{0, rank, ranks}, int64(1)
		if shards {
			gateCut, downCut, n = cut{3, rank, ranks}, cut{1, rank, ranks}, ranks
		}
		e, err := parallel.NewExpertParallel(group(c), int(n))
		require.NoError(s.b.T, err)
		gateUp, down := s.param(gateCut, 4, width, 2, inner), s.param(downCut, 4, inner, width)
		own = e.Experts(4)
		return e, own, func(t *autograd.Tape) (*autograd.Var, *autograd.Var) { return t.Reshape(gateUp, own, width, -1), down }
	}
	// gathered is a layer of experts over gathered tokens, with an expert that all tokens pass, beside which a stream may gather them.
	gathered := func(beside, shards bool) build {
		return func(s *split, c *hccl.Comm, rank, ranks int64) (func(t *autograd.Tape) *autograd.Var, cut) {
			e, own, weights := experts(s, c, rank, ranks, shards)
			var side *acl.Stream
			if beside {
				side = s.side()
			}
			tokens := cut{0, rank, ranks}
			x, logits := s.param(tokens, rows, width), s.param(tokens, rows, 4)
			common := autograd.NewParameter(s.b.Floats(aclnn.Float32, opstest.Random(aclnn.Float32, 55, width*width), width, width), nil)
			return func(t *autograd.Tape) *autograd.Var {
				var shared *autograd.Var
				all, r := t.GatherTokens(e, x, t.MoERouting(logits, 2, ops.MoERoutingArgs{Normalize: true}), side, func() { shared = t.Linear(x, common, nil) })
				p := t.OwnRows(e, all, r, 4, rows*min(own, 2), nil)
				gateUp, down := weights(t)
				return t.Add(t.ReduceTokens(e, t.MoEUnpermute(t.MoEExperts(p.Rows, p.Groups, gateUp, down), p, r, nil)), shared)
			}, tokens
		}
	}
	sent := func(shards bool) build {
		return func(s *split, c *hccl.Comm, rank, ranks int64) (func(t *autograd.Tape) *autograd.Var, cut) {
			e, _, weights := experts(s, c, rank, ranks, shards)
			tokens := cut{0, rank, ranks}
			x, logits := s.param(tokens, rows, width), s.param(tokens, rows, 4)
			return func(t *autograd.Tape) *autograd.Var {
				r := t.MoERouting(logits, 2, ops.MoERoutingArgs{Normalize: true})
				p := t.MoEPermute(x, r, 4)
				d := t.Dispatch(e, p)
				gateUp, down := weights(t)
				return t.MoEUnpermute(t.Combine(d, t.MoEExperts(d.Rows, d.Groups, gateUp, down)), p, r, nil)
			}, tokens
		}
	}
	cases := map[string]build{
		"tensor parallelism":   feedForward(false),
		"sequence parallelism": feedForward(true),
		"vocabulary": func(s *split, c *hccl.Comm, rank, ranks int64) (func(t *autograd.Tape) *autograd.Var, cut) {
			tp := parallel.NewTensorParallel(s.b.Registry, group(c), false)
			embedding, head := s.param(cut{0, rank, ranks}, 10, width), s.param(cut{0, rank, ranks}, 10, width)
			ids := opstest.Data(s.b, aclnn.Int32, []int32{1, 7, 9, 0, 3, 3, 5, 8}, rows)
			return func(t *autograd.Tape) *autograd.Var {
				x := t.ParallelEmbedding(tp, embedding, t.Input(ids))
				chunked := t.LinearCrossEntropy(t.Gather(tp, x), head, t.Input(ids), 9, autograd.LinearLoss{Parallel: tp, Bytes: 60})
				return t.Add(chunked, t.ParallelCrossEntropy(tp, t.Linear(t.Gather(tp, x), head, nil), t.Input(ids), 3))
			}, cut{}
		},
		"context parallelism": func(s *split, c *hccl.Comm, rank, ranks int64) (func(t *autograd.Tape) *autograd.Var, cut) {
			cp, err := parallel.NewContextParallel(s.b.Stream, s.b.Registry, group(c), mask.Contiguous)
			require.NoError(s.b.T, err)
			s.b.T.Cleanup(func() { require.NoError(s.b.T, cp.Close()) })
			tokens := cut{1, rank, ranks}
			q, k, v := s.param(tokens, 1, rows, 4, width), s.param(tokens, 1, rows, 2, width), s.param(tokens, 1, rows, 2, width)
			return func(t *autograd.Tape) *autograd.Var {
				return t.ContextAttention(cp, q, k, v, nil, ops.AttentionArgs{Layout: ops.BSND, Mask: mask.Causal{}, Scale: 0.4})
			}, tokens
		},
		"context parallelism of delta nets": func(s *split, c *hccl.Comm, rank, ranks int64) (func(t *autograd.Tape) *autograd.Var, cut) {
			cp, err := parallel.NewContextParallel(s.b.Stream, s.b.Registry, group(c), mask.Contiguous)
			require.NoError(s.b.T, err)
			s.b.T.Cleanup(func() { require.NoError(s.b.T, cp.Close()) })
			tokens := cut{1, rank, ranks}
			q, k, v := s.param(tokens, 1, rows, 2, width), s.param(tokens, 1, rows, 2, width), s.param(tokens, 1, rows, 4, width)
			gate, beta := s.param(tokens, 1, rows, 4), s.param(tokens, 1, rows, 4)
			x, taps := s.param(tokens, 1, rows, 4*width), autograd.NewParameter(s.b.Floats(aclnn.Float32, opstest.Random(aclnn.Float32, 77, 12*width), 4*width, 3), nil)
			return func(t *autograd.Tape) *autograd.Var {
				decay := t.Scale(t.Sigmoid(gate), -1)
				y := t.ContextGatedDelta(cp, q, k, v, decay, t.Sigmoid(beta), ops.GatedDeltaArgs{Scale: 0.4, Normalize: true})
				return t.Add(t.Reshape(y, 1, -1, 4*width), t.ContextCausalConv(cp, x, taps, nil, ops.CausalConvArgs{SiLU: true}))
			}, tokens
		},
		"ulysses": func(s *split, c *hccl.Comm, rank, ranks int64) (func(t *autograd.Tape) *autograd.Var, cut) {
			u := parallel.NewUlysses(group(c), mask.Contiguous)
			tokens := cut{1, rank, ranks}
			q, k, v := s.param(tokens, 1, rows, 4, width), s.param(tokens, 1, rows, 2, width), s.param(tokens, 1, rows, 2, width)
			return func(t *autograd.Tape) *autograd.Var {
				y := t.Attention(t.ToHeads(u, q), t.ToHeads(u, k), t.ToHeads(u, v), nil, ops.AttentionArgs{Layout: ops.BSND, Mask: mask.Causal{}, Scale: 0.4})
				return t.ToSequence(u, y)
			}, tokens
		},
		"ulysses in groups beside kernels": func(s *split, c *hccl.Comm, rank, ranks int64) (func(t *autograd.Tape) *autograd.Var, cut) {
			return headGroups(s, parallel.NewUlysses(group(c), mask.Contiguous), ranks, 2, s.side()), cut{1, rank, ranks}
		},
		"expert parallelism":                                        sent(false),
		"expert tensor parallelism":                                 sent(true),
		"experts over gathered tokens":                              gathered(false, false),
		"experts over tokens that are gathered beside a shared one": gathered(true, false),
		"shards of experts over gathered tokens":                    gathered(false, true),
	}
	for name, build := range cases {
		for _, mode := range []string{"kept", "recomputed"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				run := func(b *opstest.Bench, c *hccl.Comm, rank, ranks int64) (s *split, out []float32, gradients [][]float32) {
					s = &split{b: b}
					forward, cutOut := build(s, c, rank, ranks)
					tape := autograd.New(t.Context(), b.Stream, b.Registry, autograd.Options{})
					around := (*autograd.Tape).Block
					if mode == "recomputed" {
						around = (*autograd.Tape).Checkpoint
					}
					y := around(tape, "all", func() *autograd.Var { return forward(tape) })
					require.NoError(t, tape.Err())
					out = b.Read(y.Value)
					shape := y.Shape()
					if cutOut.parts > 0 {
						shape[cutOut.axis] *= cutOut.parts
					}
					factors, own := cutOut.of(opstest.Random(aclnn.Float32, 99, opstest.Size(shape)), shape)
					require.NoError(t, tape.BackwardFrom(autograd.Output{Var: y, Grad: b.Floats(aclnn.Float32, factors, own...)}))
					require.NoError(t, tape.Close())
					for _, v := range s.all {
						gradients = append(gradients, b.Read(v.Grad))
					}
					return s, out, gradients
				}
				var want [][]float32
				var shapes [][]int64
				t.Run("one rank", func(t *testing.T) {
					s, _, gradients := run(opstest.New(t), nil, 0, 1)
					want = gradients
					for _, v := range s.all {
						shapes = append(shapes, v.Shape())
					}
				})
				onRanks(t, 2, func(b *opstest.Bench, comm *hccl.Comm) {
					s, _, gradients := run(b, comm, int64(comm.Rank()), 2)
					for i, g := range gradients {
						part, _ := s.cuts[i].of(want[i], shapes[i])
						assert.InDeltaSlice(t, part, g, 1e-4, fmt.Sprintf("parameter %d of rank %d", i, comm.Rank()))
					}
				})
			})
		}
	}
}
