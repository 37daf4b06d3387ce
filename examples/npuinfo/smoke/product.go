package smoke

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

func groupedMatmul(b *bench) {
	x, dy, w := b.in("x"), b.in("dy"), b.in("w")
	groups := ops.Groups{Host: values[int64](b, "group_list"), Cumulative: true}
	a := ops.GroupedMatmulArgs{X: x, Weight: w, Groups: groups, Out: b.like(dy)}
	try(b, b.GroupedMatmul(), &a, b.out("y", a.Out, b.want("y")))
	g := ops.GroupedMatmulGradArgs{DOut: dy, X: x, Weight: w, Groups: groups, DX: b.like(x), DWeight: b.like(w)}
	try(b, b.GroupedMatmulGrad(), &g, b.out("dx", g.DX, b.want("dx")), b.out("dw", g.DWeight, b.want("dw")))
	b.groupedNZ(x, w, groups)
}

// groupedNZ tries the product once more with the weight in FRACTAL_NZ, where its dtype and sizes allow
// that.
func (b *bench) groupedNZ(x, w *aclnn.Tensor, groups ops.Groups) {
	if b.err != nil || b.dt == aclnn.Float32 || w.Dim(1)%16 != 0 || w.Dim(2)%16 != 0 {
		return
	}
	_, nz := b.tiles(w.Shape()...)
	if b.err != nil {
		return
	}
	slice := ops.SliceToNZArgs{Gathered: w.Reshape(1, -1), End: w.Len(), Out: nz}
	if b.fail(b.SliceToNZ().Run(b.ctx, b.st, &slice)) {
		return
	}
	named := *b.c
	named.Name += " NZ"
	c := *b
	c.c = &named
	y := b.want("y")
	a := ops.GroupedMatmulArgs{X: x, Weight: nz, Groups: groups, Out: b.empty(b.dt, x.Dim(0), w.Dim(2))}
	try(&c, c.GroupedMatmul(), &a, b.out("y", a.Out, y))
	b.err = c.err
}

// tiles makes memory for a weight in FRACTAL_NZ, and the weight.
func (b *bench) tiles(shape ...int64) (storage, weight *aclnn.Tensor) {
	storage = b.empty(b.dt, int64(max(aclnn.NZBytes(b.dt, shape...), b.dt.Size())/b.dt.Size()))
	if b.err != nil {
		return storage, storage
	}
	weight, err := aclnn.Wrap(storage.Buffer(), b.dt, shape...)
	if b.fail(err) {
		return storage, storage
	}
	return storage, weight.AsNZ()
}

// sliceToNZ needs a dtype of 16 bits: the reference has their tiles.
func sliceToNZ(b *bench) {
	if b.dt == aclnn.Float32 {
		return
	}
	flat := b.in("flat")
	storage, out := b.tiles(b.int("E"), b.int("K"), b.int("N"))
	a := ops.SliceToNZArgs{Gathered: flat, Start: b.int("start"), End: b.int("end"), Out: out}
	try(b, b.SliceToNZ(), &a, b.out("nz", storage, b.want("nz")))
}

// toNZ tries a weight that is not sharded: a slice of one rank.
func toNZ(b *bench) {
	if b.dt == aclnn.Float32 {
		return
	}
	nd := b.in("nd")
	storage, out := b.tiles(nd.Shape()...)
	a := ops.SliceToNZArgs{Gathered: nd.Reshape(1, -1), End: nd.Len(), Out: out}
	try(b, b.SliceToNZ(), &a, b.out("nz", storage, b.want("nz")))
}

// experts tries the operators of a mixture of experts one after another.
func experts(b *bench) {
	tokens, width, inner, k, n := b.int("T"), b.int("H"), b.int("I"), b.int("topk"), b.int("E")
	x, router, gateUp, down, dy := b.in("x"), b.in("w_router"), b.in("w_gate_up"), b.in("w_down"), b.in("dy")
	chosen := convert(values[int64](b, "topk_idx"), func(v int64) int32 { return int32(v) })
	logits, rows := b.empty(b.dt, tokens, n), tokens*k
	try(b, b.MatMul(), &ops.MatMulArgs{A: x, B: router, Out: logits})
	weights, choice, probs := b.empty(b.dt, tokens, k), b.empty(aclnn.Int32, tokens, k), b.empty(aclnn.Float32, tokens, n)
	var routed []output
	if b.dt == aclnn.Float32 { // rounded logits may choose other experts
		routed = append(routed, b.out("weights", weights, b.want("topk_w")))
	}
	try(b, b.MoERouting(), &ops.MoERoutingArgs{Logits: logits, Normalize: true, Weights: weights, Experts: choice, Probs: probs}, routed...)
	choice, weights = upload(b, aclnn.Int32, chosen, tokens, k), b.floats(b.dt, b.want("topk_w"), tokens, k)
	p := ops.MoEPermuteArgs{X: x, Experts: choice, Rows: b.empty(b.dt, rows, width), Places: b.empty(aclnn.Int32, rows), Sums: b.empty(aclnn.Int32, n)}
	try(b, b.MoEPermute(), &p, b.out("sums", p.Sums, sumsOf(chosen, int(n))))
	a := ops.MoEExpertsArgs{
		Rows: p.Rows, GateUp: gateUp, Down: down, Groups: ops.Groups{Device: p.Sums, Cumulative: true},
		Hidden: b.empty(b.dt, rows, 2*inner), Active: b.empty(b.dt, rows, inner), Out: b.empty(b.dt, rows, width),
	}
	try(b, b.MoEExperts(), &a)
	y := b.like(x)
	try(b, b.MoEUnpermute(), &ops.MoEUnpermuteArgs{Rows: a.Out, Places: p.Places, Weights: weights, Out: y}, b.out("y", y, b.want("y")))

	u := ops.MoEUnpermuteGradArgs{DOut: dy, Rows: a.Out, Places: p.Places, Weights: weights, DRows: b.like(a.Out), DWeights: b.like(weights)}
	try(b, b.MoEUnpermuteGrad(), &u)
	g := ops.MoEExpertsGradArgs{MoEExpertsArgs: a, DOut: u.DRows, DRows: b.like(p.Rows), DGateUp: b.like(gateUp), DDown: b.like(down)}
	try(b, b.MoEExpertsGrad(), &g, b.twice("dw_gate_up", g.DGateUp), b.twice("dw_down", g.DDown))
	dx, dLogits, dRouter := b.like(x), b.like(logits), b.like(router)
	try(b, b.MoEPermuteGrad(), &ops.MoEPermuteGradArgs{DRows: g.DRows, Places: p.Places, DX: dx})
	try(b, b.MoERoutingGrad(), &ops.MoERoutingGradArgs{DWeights: u.DWeights, Weights: weights, Experts: choice, Normalize: true, Probs: probs, DLogits: dLogits})
	var routing []output
	if b.dt == aclnn.Float32 {
		routing = append(routing, b.twice("dw_router", dRouter))
	}
	try(b, b.MatMulGrad(), &ops.MatMulGradArgs{DOut: dLogits, A: x, B: router, DA: b.like(x), DB: dRouter}, routing...)
	b.balance(probs, choice, chosen, int(n))
}

// sumsOf returns the cumulative number of rows of each expert.
func sumsOf(chosen []int32, n int) []float32 {
	sums := make([]float32, n)
	for _, e := range chosen {
		sums[e]++
	}
	for i := 1; i < n; i++ {
		sums[i] += sums[i-1]
	}
	return sums
}

// balance tries the loss that balances experts.
func (b *bench) balance(probs, choice *aclnn.Tensor, chosen []int32, n int) {
	if b.err != nil {
		return
	}
	p, err := b.read(probs)
	if b.fail(err) {
		return
	}
	tokens := float64(len(p) / n)
	counts, loss, grad := make([]float64, n), 0., make([]float32, len(p))
	for _, e := range chosen {
		counts[e]++
	}
	for i, v := range p {
		loss += counts[i%n] * float64(v) * float64(n) / (tokens * tokens)
		grad[i] = float32(counts[i%n] * float64(n) / (tokens * tokens))
	}
	a := ops.LoadBalanceArgs{Probs: probs, Experts: choice, Loss: b.empty(aclnn.Float32, 1)}
	try(b, b.LoadBalance(), &a, output{"loss", a.Loss, []float32{float32(loss)}, 1e-4})
	g := ops.LoadBalanceGradArgs{Scale: 1, Experts: choice, DProbs: b.like(probs)}
	try(b, b.LoadBalanceGrad(), &g, output{"dprobs", g.DProbs, grad, 1e-4})
}
