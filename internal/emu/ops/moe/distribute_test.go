package moe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// roundTrip sends the tokens of ep·tp ranks to their experts, lets expert e multiply its rows by
// the factor of e (-1 for a shared expert), and sends them back.
type roundTrip struct {
	d                      dtype.Type
	ep, tp                 int
	experts, shared, homes int64 // homes is the number of ranks with shared experts
	tokens                 []int64
	choices, width         int64
	version                string
	masked, quant, bytes   bool
	zeros, copies, own     int64 // numbers of experts without a rank
	norm                   bool
}

func (c roundTrip) factor(expert int64) float64 {
	if expert < 0 {
		return 3
	}
	return 1 + float64(expert)/4
}

func (c roundTrip) group(group string, rank int) op.Communicator {
	return optest.Grid(int64(c.ep), int64(c.tp), group, rank)
}

// special reports whether the version has experts without a rank.
func (c roundTrip) special() bool { return c.version == "V3" || c.version == "V4" }

func (c roundTrip) common(rank int) optest.Args {
	most := slices.Max(c.tokens)
	a := optest.Args{
		"groupEp": "ep", "epWorldSize": c.ep, "epRankId": rank / c.tp, "groupTp": "tp", "tpWorldSize": c.tp, "tpRankId": rank % c.tp,
		"moeExpertNum": c.experts, "sharedExpertNum": c.shared, "sharedExpertRankNum": c.homes, "globalBs": most * int64(c.ep),
	}
	if c.special() {
		a = a.With(optest.Args{"zeroExpertNum": c.zeros, "copyExpertNum": c.copies, "constExpertNum": c.own})
	}
	return a
}

func (c roundTrip) run(t *testing.T) {
	what := fmt.Sprintf("%+v", c)
	size, most := c.ep*c.tp, slices.Max(c.tokens)
	perRank := c.experts / (int64(c.ep) - c.homes)
	local := func(r int) int64 {
		if int64(r/c.tp) < c.homes {
			return 1
		}
		return perRank
	}
	first := func(r int) int64 { // first expert of the rank, -1 for a shared one
		if int64(r/c.tp) < c.homes {
			return -1
		}
		return (int64(r/c.tp) - c.homes) * perRank
	}
	random := rand.New(rand.NewPCG(1, 2))
	xs, ids, weights, masks := make([]*op.Tensor, size), make([]*op.Tensor, size), make([]*op.Tensor, size), make([]*op.Tensor, size)
	came, scales, numbers, ends, tpCounts, assist, outWeights := make([]*op.Tensor, size), make([]*op.Tensor, size), make([]*op.Tensor, size), make([]*op.Tensor, size), make([]*op.Tensor, size), make([]*op.Tensor, size), make([]*op.Tensor, size)
	rows := make([]int64, size)
	name := func(short, long string) string {
		if c.version == "" {
			return short
		}
		return long
	}
	all := c.experts + c.zeros + c.copies + c.own
	smooth := optest.Tensor(t, dtype.Float32, []int64{c.experts + c.shared, c.width}, 1, 2, .5)
	optest.OnGroups(t, "MoeDistributeDispatch"+c.version, size, func(r int) optest.Args {
		n := c.tokens[r/c.tp]
		l := kerneltest.Layouts[r%len(kerneltest.Layouts)]
		xs[r] = optest.Filled(t, uint64(r), c.d, l, []int64{n, c.width})
		var choice, weight []float64
		for range n {
			for _, e := range random.Perm(int(all))[:c.choices] {
				choice, weight = append(choice, float64(e)), append(weight, float64(1+random.IntN(4))/4)
			}
		}
		ids[r], weights[r] = optest.Tensor(t, dtype.Int32, []int64{n, c.choices}, append(choice, 0)[:max(n*c.choices, 1)]...), optest.Tensor(t, dtype.Float32, []int64{n, c.choices}, append(weight, 0)[:max(n*c.choices, 1)]...)
		rows[r] = most * int64(c.ep) * perRank
		if first(r) < 0 {
			rows[r] = (most*int64(c.ep)*c.shared + c.homes - 1) / c.homes
		}
		d := c.d
		if c.quant {
			d = dtype.Int8
		}
		came[r] = optest.Tensor(t, d, []int64{int64(c.tp) * rows[r], c.width})
		scales[r], numbers[r] = optest.Tensor(t, dtype.Float32, []int64{int64(c.tp) * rows[r]}), optest.Tensor(t, dtype.Int64, []int64{local(r)})
		ends[r], tpCounts[r] = optest.Tensor(t, dtype.Int32, []int64{int64(size) * local(r)}), optest.Tensor(t, dtype.Int32, []int64{2})
		assist[r] = optest.Tensor(t, dtype.Int32, []int64{max(rows[r]*128, n*c.choices)})
		outWeights[r] = optest.Tensor(t, dtype.Float32, []int64{rows[r]})
		a := c.common(r).With(optest.Args{
			"x": xs[r], "expertIds": ids[r], name("expertScales", "expertScalesOptional"): weights[r], "expertTokenNumsType": 1,
			name("expandX", "expandXOut"): came[r], name("dynamicScales", "dynamicScalesOut"): scales[r], name("expandIdx", "assistInfoForCombineOut"): assist[r],
			name("expertTokenNums", "expertTokenNumsOut"): numbers[r], name("epRecvCounts", "epRecvCountsOut"): ends[r],
			name("tpRecvCounts", "tpRecvCountsOut"): tpCounts[r], name("expandScales", "expandScalesOut"): outWeights[r],
		})
		if c.quant {
			a["quantMode"], a[name("scales", "scalesOptional")] = 2, smooth
		}
		if c.masked {
			masks[r] = optest.Tensor(t, dtype.Bool, []int64{n, c.choices}, 1, 0, 1, 1, 0)
			a[name("xActiveMask", "xActiveMaskOptional")] = masks[r]
		}
		return a
	}, c.group)

	// Every token must arrive once for each of its experts.
	for r := range size {
		sums := optest.Values(numbers[r])
		expected := make([]float64, local(r))
		for q := range size {
			for i, e := range optest.Values(ids[q]) {
				if (c.masked && optest.Values(masks[q])[i] == 0) || first(r) < 0 {
					continue
				}
				if k := int64(e) - first(r); k >= 0 && k < perRank && int64(e) < c.experts && (c.tp > 1 || q%c.tp == r%c.tp) {
					expected[k]++
				}
			}
		}
		if first(r) >= 0 {
			assert.Equal(t, expected, sums, what)
		}
	}
	result := func(r int) *op.Tensor { // the results of the experts of a rank
		v := make([]float64, came[r].Len())
		row := int64(0)
		for k, n := range optest.Values(numbers[r]) {
			for range int64(n) {
				expert := first(r)
				if expert >= 0 {
					expert += int64(k)
				}
				for j := range c.width {
					x := optest.Values(came[r])[row*c.width+j]
					if c.quant {
						index := expert + c.shared
						if expert < 0 {
							index = int64(r/c.tp) / (c.homes / c.shared)
						}
						x *= optest.Values(scales[r])[row] / optest.Values(smooth)[index*c.width+j]
					}
					// Each rank of tp contributes a part of the weight.
					v[row*c.width+j] = x * c.factor(expert) / float64(c.tp)
				}
				row++
			}
		}
		return optest.Tensor(t, c.d, came[r].Shape, append(v, 0)[:max(len(v), 1)]...)
	}
	outs, sums := make([]*op.Tensor, size), make([]*op.Tensor, size)
	combine := "MoeDistributeCombine" + c.version
	shared, alpha1, alpha2, vector := make([]*op.Tensor, size), []float64{.5, 2}, []float64{1, -1}, optest.Normal(77, c.d, c.own*c.width)
	if c.norm {
		combine = map[string]string{"V2": "MoeDistributeCombineAddRmsNorm", "V3": "MoeDistributeCombineAddRmsNormV2"}[c.version]
	}
	optest.OnGroups(t, combine, size, func(r int) optest.Args {
		n := c.tokens[r/c.tp]
		outs[r] = optest.Tensor(t, c.d, []int64{n, c.width}, 9)
		a := c.common(r).With(optest.Args{"expandX": result(r), "expertIds": ids[r], "epSendCounts": ends[r], "expertScales": weights[r]})
		a[name("expandIdx", "assistInfoForCombine")] = assist[r]
		a[name("tpSendCounts", "tpSendCountsOptional")] = tpCounts[r]
		if c.masked {
			a[name("xActiveMask", "xActiveMaskOptional")] = masks[r]
		}
		if c.bytes {
			a["commQuantMode"] = 2
		}
		if c.special() && c.copies+c.own > 0 {
			a["oriXOptional"] = xs[r]
			a["constExpertAlpha1Optional"], a["constExpertAlpha2Optional"] = optest.Tensor(t, c.d, []int64{c.own}, alpha1[:c.own]...), optest.Tensor(t, c.d, []int64{c.own}, alpha2[:c.own]...)
			a["constExpertVOptional"] = optest.Tensor(t, c.d, []int64{c.own, c.width}, vector...)
		}
		if c.version != "" && c.homes == 0 {
			shared[r] = optest.Filled(t, uint64(40+r), c.d, kerneltest.Layouts[r%len(kerneltest.Layouts)], []int64{n, c.width})
			a["sharedExpertXOptional"] = shared[r]
		}
		if !c.norm {
			a[name("x", "xOut")] = outs[r]
			return a
		}
		sums[r] = optest.Tensor(t, c.d, []int64{n, 1, c.width})
		outs[r] = sums[r]
		return a.With(optest.Args{
			"residualX": optest.Tensor(t, c.d, []int64{n, 1, c.width}, 1), "gamma": optest.Tensor(t, c.d, []int64{c.width}, 1), "normEps": 1e-6,
			"yOut": optest.Tensor(t, c.d, []int64{n, 1, c.width}), "rstdOut": optest.Tensor(t, dtype.Float32, []int64{n, 1, 1}), "xOut": sums[r],
		})
	}, c.group)
	for r, out := range outs {
		x, choice, weight := optest.Values(xs[r]), optest.Values(ids[r]), optest.Values(weights[r])
		want := make([]float64, len(x))
		for token := range c.tokens[r/c.tp] {
			takesPart := !c.masked
			for k := range c.choices {
				i := token*c.choices + k
				if c.masked && optest.Values(masks[r])[i] == 0 {
					continue
				}
				takesPart = true
				for j := range c.width {
					v := x[token*c.width+j]
					switch e := int64(choice[i]); {
					case e < c.experts:
						v *= c.factor(e)
					case e < c.experts+c.zeros:
						v = 0
					case e >= c.experts+c.zeros+c.copies:
						k := e - c.experts - c.zeros - c.copies
						v = v*alpha1[k] + alpha2[k]*vector[k*c.width+j]
					}
					want[token*c.width+j] += weight[i] * v
				}
			}
			for j := range c.width {
				at := token*c.width + j
				switch {
				case !takesPart && !c.norm:
					want[at] = 9 // left unchanged
					continue
				case c.homes > 0:
					want[at] += float64(c.shared) * 3 * x[at]
				case shared[r] != nil:
					want[at] += optest.Values(shared[r])[at]
				}
				if c.norm {
					want[at]++
				}
			}
		}
		limit := 6 * optest.ResultLimit(c.d)
		if c.quant || c.bytes {
			limit = .1
		}
		optest.CloseTo(t, what, want, optest.Values(out), limit)
	}
}

func TestMoeDistribute(t *testing.T) {
	bf16, fp16 := dtype.BFloat16, dtype.Float16
	for _, c := range []roundTrip{
		{d: fp16, ep: 2, tp: 1, experts: 4, tokens: []int64{3, 3}, choices: 2, width: 5},
		{d: bf16, ep: 3, tp: 1, experts: 6, tokens: []int64{4, 0, 7}, choices: 3, width: 8, version: "V2"},
		{d: bf16, ep: 4, tp: 1, experts: 4, shared: 1, homes: 2, tokens: []int64{2, 3, 3, 1}, choices: 2, width: 4},
		{d: fp16, ep: 5, tp: 1, experts: 2, shared: 2, homes: 4, tokens: []int64{2, 2, 2, 2, 2}, choices: 1, width: 4, version: "V2"},
		{d: bf16, ep: 3, tp: 2, experts: 2, shared: 1, homes: 1, tokens: []int64{3, 2, 3}, choices: 2, width: 6},
		{d: bf16, ep: 2, tp: 2, experts: 2, tokens: []int64{3, 2}, choices: 2, width: 6, version: "V2", norm: true},
		{d: bf16, ep: 2, tp: 2, experts: 2, tokens: []int64{3, 2}, choices: 2, width: 6, version: "V3", norm: true},
		{d: bf16, ep: 2, tp: 1, experts: 2, tokens: []int64{2, 2}, choices: 1, width: 4},
		{d: fp16, ep: 2, tp: 1, experts: 2, tokens: []int64{1, 2}, choices: 2, width: 4, version: "V3"},
		{d: bf16, ep: 2, tp: 1, experts: 4, tokens: []int64{5, 4}, choices: 2, width: 8, version: "V2", masked: true},
		{d: bf16, ep: 2, tp: 1, experts: 4, tokens: []int64{5, 4}, choices: 2, width: 8, version: "V2", quant: true, bytes: true},
		{d: bf16, ep: 3, tp: 1, experts: 2, shared: 1, homes: 1, tokens: []int64{5, 4, 2}, choices: 2, width: 8, quant: true},
		{d: fp16, ep: 2, tp: 1, experts: 2, tokens: []int64{6, 6}, choices: 3, width: 8, version: "V3", zeros: 1, copies: 2, own: 2},
		{d: bf16, ep: 3, tp: 1, experts: 6, tokens: []int64{4, 0, 7}, choices: 3, width: 8, version: "V4"},
		{d: fp16, ep: 2, tp: 2, experts: 2, tokens: []int64{3, 2}, choices: 2, width: 6, version: "V4"},
		{d: fp16, ep: 5, tp: 1, experts: 2, shared: 2, homes: 4, tokens: []int64{2, 2, 2, 2, 2}, choices: 1, width: 4, version: "V4"},
		{d: bf16, ep: 4, tp: 1, experts: 8, tokens: []int64{5, 4, 1, 3}, choices: 2, width: 7, version: "V4", masked: true},
		{d: bf16, ep: 2, tp: 1, experts: 4, tokens: []int64{5, 4}, choices: 2, width: 8, version: "V4", quant: true, bytes: true},
		{d: fp16, ep: 2, tp: 1, experts: 2, tokens: []int64{6, 6}, choices: 3, width: 9, version: "V4", zeros: 1, copies: 2, own: 2},
	} {
		c.run(t)
	}
	for _, d := range []dtype.Type{bf16, fp16} {
		for n, width := range []int64{1, 5, 16, 33} {
			for _, tokens := range [][]int64{{1, 5, 2}, {7, 4}} {
				ep := len(tokens)
				for _, c := range []roundTrip{
					{choices: 1 + int64(n%3)},
					{choices: 2, masked: true},
					{choices: 2, zeros: 1, copies: 1},
					{choices: 1, quant: true, bytes: n%2 == 0},
				} {
					c.d, c.ep, c.tp, c.experts, c.tokens, c.width, c.version = d, ep, 1, int64(2*ep), tokens, width, "V4"
					c.run(t)
				}
			}
		}
	}
}

// TestMoeDistributeWaits: each rank adds how long it waited for each, and never waits for itself.
func TestMoeDistributeWaits(t *testing.T) {
	const ranks, tokens, width = 3, 2, 1 << 14 // too wide to be recorded: times differ from run to run
	d := dtype.Float16
	for _, step := range []string{"MoeDistributeDispatchV4", "MoeDistributeCombineV4"} {
		totals := make([]*op.Tensor, ranks)
		optest.OnRanks(t, step, ranks, func(r int) optest.Args {
			totals[r] = optest.Tensor(t, dtype.Int64, []int64{ranks}, 1000)
			x, ids, rows := optest.Tensor(t, d, []int64{tokens, width}, 1), optest.Tensor(t, dtype.Int32, []int64{tokens, 1}, 0, 1), optest.Tensor(t, d, []int64{tokens * ranks, width}, 1)
			a := optest.Args{"expertIds": ids, "groupEp": "ep", "epWorldSize": ranks, "epRankId": r, "moeExpertNum": ranks, "performanceInfoOptional": totals[r]}
			counts := []float64{1, 2, 3} // each rank sent one token here
			if r == 2 {
				counts = []float64{0, 0, 0}
			}
			a = a.With(map[string]optest.Args{
				"MoeDistributeDispatchV4": {
					"x": x, "expandXOut": rows, "assistInfoForCombineOut": optest.Tensor(t, dtype.Int32, []int64{tokens * ranks * 128}), "expertTokenNumsOut": optest.Tensor(t, dtype.Int64, []int64{1}),
					"epRecvCountsOut": optest.Tensor(t, dtype.Int32, []int64{ranks}), "tpRecvCountsOut": optest.Tensor(t, dtype.Int32, []int64{1}),
				},
				"MoeDistributeCombineV4": {
					"expandX": rows, "assistInfoForCombine": optest.Tensor(t, dtype.Int32, []int64{tokens * ranks * 128}), "epSendCounts": optest.Tensor(t, dtype.Int32, []int64{ranks}, counts...),
					"expertScales": optest.Tensor(t, dtype.Float32, []int64{tokens, 1}, 1), "xOut": x,
				},
			}[step])
			one := a.With(optest.Args{"epWorldSize": 1, "epRankId": 0})
			optest.Refused(t, op.TilingRefused, step, one, "one for each rank")
			optest.Refused(t, op.TilingRefused, step, one.With(optest.Args{"commAlg": "hierarchy"}), "with commAlg hierarchy it must be null")
			return a
		})
		waited := 0.0
		for r, total := range totals {
			v := optest.Values(total)
			assert.Equal(t, 1000.0, v[r], "%s: rank %d waited for itself", step, r)
			for q, of := range v {
				assert.GreaterOrEqual(t, of, 1000.0)
				assert.True(t, of == 1000 || optest.Values(totals[q])[r] == 1000, "%s: ranks %d and %d waited for each other", step, r, q)
				waited += of - 1000
			}
		}
		assert.Positive(t, waited, "%s: the ranks of this test run in turn", step)
	}
}

func TestMoeDistributeRefuses(t *testing.T) {
	d, f := dtype.BFloat16, dtype.Float32
	i32 := func(n ...int64) *op.Tensor { return optest.Tensor(t, dtype.Int32, n, 0) }
	dispatch := optest.Args{
		"x": optest.Tensor(t, d, []int64{2, 4}, 1), "expertIds": i32(2, 1), "groupEp": "ep", "epWorldSize": 1, "moeExpertNum": 2,
		"expandXOut": optest.Tensor(t, d, []int64{2, 4}), "assistInfoForCombineOut": i32(256), "expertTokenNumsOut": optest.Tensor(t, dtype.Int64, []int64{2}), "epRecvCountsOut": i32(2),
		"tpRecvCountsOut": i32(1),
	}
	optest.Run(t, "MoeDistributeDispatchV2", dispatch)
	for text, set := range map[string]optest.Args{
		"epWorldSize 2": {"epWorldSize": 2}, "tpWorldSize is 3": {"tpWorldSize": 3}, "expertShardType is 1": {"expertShardType": 1}, "moeExpertNum is 0": {"moeExpertNum": 0},
		"sharedExpertNum 2": {"sharedExpertNum": 2}, "globalBs is 1": {"globalBs": 1}, "quantMode is 1": {"quantMode": 1}, "expertTokenNumsType is 2": {"expertTokenNumsType": 2},
		"at least 2 rows": {"expandXOut": optest.Tensor(t, d, []int64{1, 4})}, "128 for each row": {"assistInfoForCombineOut": i32(2)}, "number of tokens": {"x": optest.Tensor(t, d, []int64{3, 4}, 1)},
		"one for each expert and rank": {"epRecvCountsOut": i32(1)}, "xActiveMaskOptional": {"xActiveMaskOptional": optest.Tensor(t, dtype.Bool, []int64{3}, 1)},
	} {
		optest.Refused(t, op.TilingRefused, "MoeDistributeDispatchV2", dispatch.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "MoeDistributeDispatchV2", dispatch.With(optest.Args{"groupEp": nil}), "groupEp is null")
	optest.Refused(t, op.NullPointer, "MoeDistributeDispatchV2", dispatch.With(optest.Args{"expandXOut": nil}), "expandXOut is null")
	optest.Refused(t, op.NullPointer, "MoeDistributeDispatchV2", dispatch.With(optest.Args{"tpRecvCountsOut": nil}), "tpRecvCountsOut is null")
	optest.Refused(t, op.InvalidParam, "MoeDistributeDispatchV2", dispatch.With(optest.Args{"x": optest.Tensor(t, f, []int64{2, 4}, 1)}), "dtype")
	flat := optest.Tensor(t, dtype.Float16, []int64{4}, 1)
	optest.Refused(t, op.InvalidParam, "MoeDistributeDispatchV2", dispatch.With(optest.Args{"x": flat}), "x float16[4]")
	assert.ErrorContains(t, optest.Execute(t, "MoeDistributeDispatchV2", dispatch.With(optest.Args{"expertIds": optest.Tensor(t, dtype.Int32, []int64{2, 1}, 0, 2)})), "holds expert 2 at position 1")

	combine := optest.Args{
		"expandX": optest.Tensor(t, d, []int64{2, 4}, 1), "expertIds": i32(2, 1), "assistInfoForCombine": i32(256), "epSendCounts": optest.Tensor(t, dtype.Int32, []int64{2}, 2, 2),
		"expertScales": optest.Tensor(t, f, []int64{2, 1}, 1), "groupEp": "ep", "epWorldSize": 1, "moeExpertNum": 2, "xOut": optest.Tensor(t, d, []int64{2, 4}),
	}
	optest.Run(t, "MoeDistributeCombineV2", combine)
	for text, set := range map[string]optest.Args{
		"outDtype is 1": {"outDtype": 1}, "commQuantMode is 1": {"commQuantMode": 1}, "xOut": {"xOut": optest.Tensor(t, d, []int64{3, 4})},
		"differ in shape": {"expertScales": optest.Tensor(t, f, []int64{2, 2}, 1)}, "one for each expert and rank": {"epSendCounts": i32(1)}, "128 for each row": {"assistInfoForCombine": i32(255)},
		"must hold 2 tokens": {"sharedExpertXOptional": optest.Tensor(t, d, []int64{3, 4}, 1)},
	} {
		optest.Refused(t, op.TilingRefused, "MoeDistributeCombineV2", combine.With(set), text)
	}
	optest.Refused(t, op.InvalidParam, "MoeDistributeCombineV2", combine.With(optest.Args{"expandX": flat}), "expandX float16[4]")
	optest.Refused(t, op.NullPointer, "MoeDistributeCombineV2", combine.With(optest.Args{"expertScales": nil}), "expertScales is null")
	for _, bad := range [][]float64{{2, 1}, {-1, 2}, {1, 3}} {
		err := optest.Execute(t, "MoeDistributeCombineV2", combine.With(optest.Args{"epSendCounts": optest.Tensor(t, dtype.Int32, []int64{2}, bad...)}))
		require.ErrorContains(t, err, "epSendCounts")
	}
	require.False(t, math.IsNaN(optest.Values(combine["xOut"].(*op.Tensor))[0]))
}
