package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// MoEPermuteArgs sorts tokens by expert: Rows holds every token once for each of its experts,
// ordered by expert and, within an expert, by token.
type MoEPermuteArgs struct {
	X       *aclnn.Tensor // [tokens, width]; float32, float16 or bfloat16
	Experts *aclnn.Tensor // [tokens, k], int32, of MoERouting, in [0, experts)
	Rows    *aclnn.Tensor // [tokens·k, width], dtype of X
	// Places is [tokens·k], int32: entry t·k+j is the row of the j-th choice of token t.
	Places *aclnn.Tensor
	// Partial says that Rows may hold fewer rows, the first ones of that order. Places and Sums are
	// those of all rows.
	Partial bool
	// Sums is [experts], int32: the cumulative number of rows up to and including each expert, as
	// Groups{Device: Sums, Cumulative: true} takes it. Counts in its place is [experts], int64: the
	// number of rows of each expert, as Groups{Device: Counts}, which a GroupedMatmul reads as it is.
	// Gradients of grouped products want Sums.
	Sums, Counts *aclnn.Tensor
}

// numbers returns Sums or Counts.
func (a *MoEPermuteArgs) numbers() *aclnn.Tensor {
	if a.Counts != nil {
		return a.Counts
	}
	return a.Sums
}

func (a *MoEPermuteArgs) validate() error {
	var c args
	c.Tensor("X", a.X, floats...)
	c.Tensor("Experts", a.Experts, aclnn.Int32)
	if a.Counts == nil {
		c.Tensor("Sums", a.Sums, aclnn.Int32)
	} else if c.Tensor("Counts", a.Counts, aclnn.Int64); a.Sums != nil {
		c.Fail("both Sums and Counts are given; one is computed")
	}
	if !c.OK() {
		return c.Err
	}
	if a.X.Rank() != 2 || a.Experts.Rank() != 2 || a.X.Dim(0) != a.Experts.Dim(0) {
		c.Fail("X is %v and Experts %v; they must be [tokens, width] and [tokens, k]", a.X, a.Experts)
	}
	if n := a.numbers(); n.Rank() != 1 || n.Dim(0) < 1 {
		c.Fail("Sums or Counts is %v; it must be [experts]", n)
	}
	c.permuted(a.Rows, a.Places, a.X, a.Experts.Len(), a.Partial)
	return c.Err
}

// permuted checks rows sorted by expert, which with partial may be fewer than their n places.
func (c *args) permuted(rows, places, like *aclnn.Tensor, n int64, partial bool) {
	if !c.OK() {
		return
	}
	c.Tensor("Rows", rows, like.DType())
	switch {
	case !c.OK():
	case !partial:
		c.Shape("Rows", rows, n, like.Dim(-1))
	case rows.Rank() != 2 || rows.Dim(0) > n || rows.Dim(1) != like.Dim(-1):
		c.Fail("Rows is %v; it must be [rows, %d] of %d rows at most", rows, like.Dim(-1), n)
	}
	c.Tensor("Places", places, aclnn.Int32)
	c.Shape("Places", places, n)
	if c.OK() {
		c.Contiguous("Places", places)
	}
}

func (a *MoEPermuteArgs) key() key.MoEPermute {
	return key.MoEPermute{
		X: a.X.DType(), Width: a.X.Dim(1), Experts: a.numbers().Dim(0), K: a.Experts.Dim(1), Tokens: key.ExtentOf(a.X.Dim(0)),
		Counts: a.Counts != nil, Partial: a.Partial, Contiguous: contiguous(a.X, a.Experts, a.Rows, a.numbers()),
	}
}

// routingExperts limits the experts of aclnnMoeInitRoutingV3.
const routingExperts = 10240

func newMoEPermute(reg *Registry) *Op[MoEPermuteArgs, key.MoEPermute] {
	return op(reg, "moe_permute", (*MoEPermuteArgs).validate, (*MoEPermuteArgs).key,
		routingWithCounts(),
		Kernel[MoEPermuteArgs, key.MoEPermute]{
			Name: "MoeInitRoutingV2", Supports: trains[key.MoEPermute](&aclnn.MoeInitRoutingV2Params{}),
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteArgs) error {
				return a.run(st, func(s *steps) {
					rows, form := s.Target(a.Rows), aclnn.ExpertTokensOutputCumsum
					numbers := s.Target(a.sums(s))
					if a.Counts != nil {
						form = aclnn.ExpertTokensOutputCount
					}
					launch(s, aclnn.MoeInitRoutingV2, aclnn.MoeInitRoutingV2Params{
						X: s.Contiguous(a.X), ExpertIdx: s.Contiguous(a.Experts), ActiveNum: a.first(), ExpertNum: numbers.Dim(0), ExpertTokensCountOrCumsumFlag: form,
						ExpandedXOut: rows, ExpandedRowIdxOut: a.Places, ExpertTokensCountOrCumsumOut: numbers,
					})
					s.Finish(a.Rows, rows)
					if a.Counts != nil {
						s.Copy(a.Counts, numbers)
					} else {
						s.Finish(a.Sums, numbers)
					}
				})
			},
		},
		Kernel[MoEPermuteArgs, key.MoEPermute]{
			Name: "MoeTokenPermute",
			Supports: func(env *Env, _ key.MoEPermute) error {
				return errors.Join(env.Has(&aclnn.MoeTokenPermuteParams{}), available(&aclnn.MoeComputeExpertTokensParams{}))
			},
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteArgs) error {
				return a.run(st, func(s *steps) {
					launch(s, aclnn.MoeTokenPermute, aclnn.MoeTokenPermuteParams{
						Tokens: s.Contiguous(a.X), Indices: s.Contiguous(a.Experts), NumOutTokens: a.first(), PermuteTokensOut: a.Rows, SortedIndicesOut: a.Places,
					})
					sorted, _ := s.sort(s.Contiguous(a.Experts).Reshape(-1))
					sums := a.sums(s)
					launch(s, aclnn.MoeComputeExpertTokens, aclnn.MoeComputeExpertTokensParams{SortedExperts: sorted, NumExperts: sums.Dim(0), Out: sums})
					a.count(s, sums)
				})
			},
		},
		Kernel[MoEPermuteArgs, key.MoEPermute]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteArgs) error {
				return a.run(st, func(s *steps) {
					tokens, k, n := a.X.Dim(0), a.Experts.Dim(1), a.Experts.Len()
					sorted, order := s.sort(s.Contiguous(a.Experts).Reshape(-1))
					copies := s.Tensor(a.X.DType(), tokens, k, a.X.Dim(1))
					s.Copy(copies, a.X.Unsqueeze(1))
					s.pick(copies.Reshape(n, -1), order.Narrow(0, 0, a.Rows.Dim(0)), a.Rows)
					_, places := s.sort(order)
					s.Copy(a.Places, places)
					// The cumulative count of an expert is the number of rows whose expert is not
					// above it.
					sums := a.sums(s)
					ids := s.Tensor(aclnn.Int32, sums.Dim(0), 1)
					launch(s, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(ids.Dim(0)), Step: aclnn.Int(1), Out: ids.Reshape(-1)})
					below := s.Tensor(aclnn.Bool, ids.Dim(0), n)
					launch(s, aclnn.LeTensor, aclnn.LeTensorParams{Self: sorted.Unsqueeze(0), Other: ids, Out: below})
					s.Copy(sums, s.sum(s.float(below), 1).Reshape(-1))
					a.count(s, sums)
				})
			},
		})
}

// run handles the case without tokens, in which all sums are zero.
func (a *MoEPermuteArgs) run(st *acl.Stream, body func(*steps)) error {
	return compose(st, func(s *steps) {
		if a.Experts.Len() == 0 {
			s.Zero(a.numbers())
			return
		}
		body(s)
	})
}

// first returns the number of rows if they are not all, and 0 otherwise, as CANN's operators want it.
func (a *MoEPermuteArgs) first() int64 {
	if n := a.Rows.Dim(0); n < a.Experts.Len() {
		return n
	}
	return 0
}

// sums returns Sums, or a tensor for them if they are not asked for.
func (a *MoEPermuteArgs) sums(s *steps) *aclnn.Tensor {
	if a.Counts == nil {
		return a.Sums
	}
	return s.Tensor(aclnn.Int32, a.Counts.Dim(0))
}

// count computes Counts, if they are asked for, from sums.
func (a *MoEPermuteArgs) count(s *steps, sums *aclnn.Tensor) {
	if a.Counts == nil {
		return
	}
	counts := s.Like(sums)
	s.Copy(counts, sums)
	if n := sums.Dim(0); n > 1 {
		launch(s, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: counts.Narrow(0, 1, n-1), Other: sums.Narrow(0, 0, n-1), Alpha: aclnn.Int(-1)})
	}
	s.Copy(a.Counts, counts)
}

// exactInts is the number of integers from 0 on that float32 holds exactly.
const exactInts = 1 << 24

// sort sorts a list of integers from 0 to exactInts in ascending order, stably, and also returns
// the original indices. It sorts them as float32, because CANN sorts integers, and a list of one,
// on the slow AI CPU.
func (s *steps) sort(t *aclnn.Tensor) (sorted, order *aclnn.Tensor) {
	order = s.Tensor(aclnn.Int64, t.Len())
	switch {
	case t.Len() > exactInts:
		s.Fail(fmt.Errorf("%w: %d rows; at most %d can be ordered", ErrInvalid, t.Len(), exactInts))
		return t, order
	case t.Len() == 1:
		s.Zero(order)
		return t, order
	}
	values := s.Tensor(aclnn.Float32, t.Len())
	launch(s, aclnn.Sort, aclnn.SortParams{Self: s.float(t), Stable: true, ValuesOut: values, IndicesOut: order})
	return s.Cast(values, t.DType()), order
}

// pick copies rows by their numbers.
func (s *steps) pick(t, rows, out *aclnn.Tensor) {
	launch(s, aclnn.IndexSelect, aclnn.IndexSelectParams{Self: t, Index: rows, Out: out})
}

// MoEPermuteGradArgs describes the gradient of MoEPermute: the gradient of a token is the sum of
// those of its rows.
type MoEPermuteGradArgs struct {
	DRows  *aclnn.Tensor // [tokens·k, width]
	Places *aclnn.Tensor // [tokens·k], int32, of MoEPermute
	DX     *aclnn.Tensor // [tokens, width], dtype of DRows
	// Partial says that DRows may have fewer rows. Places behind them have none, and add nothing.
	Partial bool
}

func (a *MoEPermuteGradArgs) validate() error {
	var c args
	c.Tensor("DX", a.DX, floats...)
	c.Tensor("DRows", a.DRows, floats...)
	if !c.OK() {
		return c.Err
	}
	c.Tensor("Places", a.Places, aclnn.Int32)
	if c.OK() && (a.DX.Rank() != 2 || a.DRows.Rank() != 2 || a.Places.Rank() != 1 || a.DX.Dim(0) > 0 && a.Places.Len()%a.DX.Dim(0) != 0) {
		c.Fail("DX is %v, DRows %v and Places %v; they must be [tokens, width], [tokens·k, width] and [tokens·k]", a.DX, a.DRows, a.Places)
	}
	if !c.OK() {
		return c.Err
	}
	c.permuted(a.DRows, a.Places, a.DX, a.Places.Len(), a.Partial)
	return c.Err
}

func (a *MoEPermuteGradArgs) key() key.MoEPermuteGrad {
	return key.MoEPermuteGrad{
		DX: a.DX.DType(), Width: a.DX.Dim(1), Tokens: key.ExtentOf(a.DX.Dim(0)), Rows: key.ExtentOf(a.DRows.Dim(0)), Partial: a.Partial, Contiguous: contiguous(a.DRows, a.DX),
	}
}

func newMoEPermuteGrad(reg *Registry) *Op[MoEPermuteGradArgs, key.MoEPermuteGrad] {
	return op(reg, "moe_permute_grad", (*MoEPermuteGradArgs).validate, (*MoEPermuteGradArgs).key,
		Kernel[MoEPermuteGradArgs, key.MoEPermuteGrad]{
			Name: "MoeTokenPermuteGrad", Supports: trains[key.MoEPermuteGrad](&aclnn.MoeTokenPermuteGradParams{}),
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteGradArgs) error {
				if a.DX.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					launch(s, aclnn.MoeTokenPermuteGrad, aclnn.MoeTokenPermuteGradParams{
						PermutedOutputGrad: s.Contiguous(a.DRows), SortedIndices: a.Places, NumTopk: a.Places.Len() / a.DX.Dim(0), Out: a.DX,
					})
				})
			},
		},
		Kernel[MoEPermuteGradArgs, key.MoEPermuteGrad]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteGradArgs) error {
				if a.DX.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					s.Copy(a.DX, s.sum(s.gathered(a.DRows, a.Places, a.DX.Dim(0), a.Partial), 1).Squeeze(1))
				})
			},
		})
}

// whole refuses places without a row.
func whole(partial bool) error {
	if partial {
		return errors.New("it needs a row for each place")
	}
	return nil
}

// gathered returns the rows of each token in float32, [tokens, k, width]. With partial, places may have no row; zeros
// stand for it.
func (s *steps) gathered(rows, places *aclnn.Tensor, tokens int64, partial bool) *aclnn.Tensor {
	n, index := rows.Dim(0), places
	if partial {
		index = s.Like(places)
		launch(s, aclnn.ClampMax, aclnn.ClampMaxParams{Self: places, ClipValueMax: aclnn.Int(n - 1), Out: index})
	}
	out := s.Tensor(rows.DType(), places.Len(), rows.Dim(1))
	s.pick(rows, index, out)
	if partial {
		none := s.Tensor(aclnn.Bool, places.Len(), 1)
		launch(s, aclnn.GeScalar, aclnn.GeScalarParams{Self: places.Unsqueeze(1), Other: aclnn.Int(n), Out: none})
		launch(s, aclnn.InplaceMaskedFillScalar, aclnn.InplaceMaskedFillScalarParams{Self: out, Mask: none, Value: aclnn.Float(0)})
	}
	return s.float(out).Reshape(tokens, -1, rows.Dim(1))
}

// routingWithCounts returns the kernel that counts the rows of each expert.
func routingWithCounts() Kernel[MoEPermuteArgs, key.MoEPermute] {
	return Kernel[MoEPermuteArgs, key.MoEPermute]{
		Name: "MoeInitRoutingV3",
		Supports: func(env *Env, k key.MoEPermute) error {
			switch {
			case k.Partial:
				return whole(k.Partial)
			case !k.Counts:
				return errors.New("it counts the rows of each expert, and Sums are asked for")
			case k.Experts > routingExperts:
				return fmt.Errorf("%d experts are more than %d", k.Experts, routingExperts)
			}
			return env.Has(&aclnn.MoeInitRoutingV3Params{})
		},
		Run: func(_ context.Context, st *acl.Stream, a *MoEPermuteArgs) error {
			return a.run(st, func(s *steps) {
				rows, counts := s.Target(a.Rows), s.Target(a.Counts)
				launch(s, aclnn.MoeInitRoutingV3, aclnn.MoeInitRoutingV3Params{
					X: s.Contiguous(a.X), ExpertIdx: s.Contiguous(a.Experts), ActiveNum: a.Experts.Len(), ExpertNum: counts.Dim(0),
					ExpertTokensNumType: aclnn.ExpertTokensCount, ExpertTokensNumFlag: true, QuantMode: -1, RowIdxType: 0,
					ExpandedXOut: rows, ExpandedRowIdxOut: a.Places, ExpertTokensCountOrCumsumOut: counts, ExpandedScaleOut: s.Tensor(aclnn.Float32, a.Experts.Len()),
				})
				s.Finish(a.Rows, rows)
				s.Finish(a.Counts, counts)
			})
		},
	}
}
