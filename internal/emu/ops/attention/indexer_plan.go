package attention

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// plans lists the operators that divide the work of an indexer among cores.
var plans = op.Table{"LightningIndexerV2Metadata": indexerPlan, "QuantLightningIndexerV2Metadata": indexerPlan}.Omits()

// The result of a plan: for each cube core, and behind these for each vector core, eight numbers.
const (
	planSize    = 1024
	planCubes   = 36
	planVectors = 72
	planRow     = 8
)

// planTask is the scores of the queries of a batch with their keys, as a matrix of tiles. A row of tiles has a few queries with all
// heads; its tiles are keys, as many as the mask leaves.
type planTask struct {
	queries, keys []int64 // by sequence
	longKeys      []int64 // by sequence, before keys were compressed
	heads, ratio  int64
	tileQueries   int64
	tileKeys      int64
	causal        bool
	whole         bool // rows of tiles are not split among cores
	cubes         int64
	vectors       int64
}

// planTiles is a row of tiles.
type planTiles struct {
	n            int64 // tiles
	cost         int64 // of all
	each, latest int64 // cost of one, and of the last
}

// tileCost is an estimate of the time that a product takes.
func tileCost(rows, keys int64) int64 { return 6*((rows+15)/16) + 10*((keys+63)/64) }

// rows returns the number of rows of tiles of a sequence, and the numbers of queries times heads in the last one if it is shorter.
func (p *planTask) rows(b int64) (n, tail int64) {
	all, size := p.queries[b]*p.heads, p.tileQueries*p.heads
	return (all + size - 1) / size, all % size
}

// tiles returns a row of a sequence.
func (p *planTask) tiles(b, row int64) planTiles {
	rows, tail := p.rows(b)
	if rows == 0 || p.keys[b] == 0 {
		return planTiles{}
	}
	last := p.longKeys[b] - 1
	if p.causal {
		newest := min((row+1)*p.tileQueries, p.queries[b]) - 1
		last = min(max(newest+p.longKeys[b]-p.queries[b], 0), last)
	}
	length := (last + 1) / p.ratio
	if length <= 0 {
		return planTiles{}
	}
	height := p.tileQueries * p.heads
	if row == rows-1 && tail != 0 {
		height = tail
	}
	t := planTiles{n: (length + p.tileKeys - 1) / p.tileKeys, each: tileCost(height, p.tileKeys)}
	t.latest = t.each
	if rest := length % p.tileKeys; rest != 0 {
		t.latest = tileCost(height, rest)
	}
	t.cost = t.each*(t.n-1) + t.latest
	return t
}

// planPlace is a tile: the sequence, the row, and the tile in the row.
type planPlace struct{ sequence, row, tile int64 }

// planShare is the tiles of a core, up to an end, and the place of its first partial result.
type planShare struct {
	end     planPlace
	partial int64
}

// planSplit is a row of which several cores have tiles. Vector cores combine their partial results.
type planSplit struct {
	row     planPlace
	partial int64 // the place of the first one
	parts   int64
	queries int64
}

// planner gives tiles to cores in order.
type planner struct {
	*planTask
	at       planPlace
	row      planTiles // what is left of the row
	rest     int64     // cost of what is left of the sequence
	latest   []int64   // by sequence: the cost of its last tile
	costs    []int64   // by sequence
	largest  int64     // cost of a row
	done     bool
	parts    int64 // of the row at the cursor, with the next core
	partials int64
	shares   []planShare
	splits   []planSplit
}

func (p *planner) enter(sequence int64) {
	if p.at = (planPlace{sequence: sequence}); sequence == int64(len(p.queries)) {
		p.done = true
		return
	}
	p.row, p.rest = p.tiles(sequence, 0), p.costs[sequence]
}

// plan returns the share of each core that has work, and the rows that are split.
func (p *planTask) plan() ([]planShare, []planSplit) {
	n := int64(len(p.queries))
	g := &planner{planTask: p, parts: 1, costs: make([]int64, n), latest: make([]int64, n)}
	left, any := int64(0), false
	for b := range n {
		rows, _ := p.rows(b)
		for i := range rows {
			if t := p.tiles(b, i); t.n > 0 {
				g.costs[b], g.latest[b], g.largest = g.costs[b]+t.cost, t.latest, max(g.largest, t.cost)
			}
		}
		left += g.costs[b]
		any = any || rows > 0 && p.keys[b] > 0
	}
	if !any {
		return []planShare{{end: planPlace{sequence: n}}}, nil
	}
	g.enter(0)
	for core := int64(0); core < p.cubes && !g.done && left > 0; core++ {
		limit := left / (p.cubes - core)
		if p.whole {
			limit = max(limit, g.largest)
		}
		left -= g.give(limit)
	}
	if len(g.shares) == 0 {
		g.shares = []planShare{{}}
	}
	return g.shares, g.splits
}

// give gives the next core tiles of about a cost, at least one unless rows are whole, and returns their cost.
func (g *planner) give(limit int64) (cost int64) {
	share, given := planShare{partial: g.partials + g.parts - 1}, false
	fits := func(more, last int64) bool { return limit+last/2 >= cost+more }
	for !g.done && (g.rest == 0 || fits(g.rest, g.latest[g.at.sequence])) { // whole sequences
		given = given || g.rest > 0
		cost += g.rest
		g.enter(g.at.sequence + 1)
	}
	for !g.done && fits(g.row.cost, g.row.latest) { // whole rows
		given = given || g.row.n > 0
		cost += g.row.cost
		g.rest = max(g.rest-g.row.cost, 0)
		for again := true; again; again = g.row.n == 0 {
			g.at.row, g.at.tile = g.at.row+1, 0
			g.row = g.tiles(g.at.sequence, g.at.row)
		}
	}
	if !g.done && !g.whole { // tiles
		one := g.row.each
		if g.row.n == 1 {
			one = g.row.latest
		}
		take := func() {
			given = true
			cost += one
			g.at.tile, g.row.n, g.row.cost, g.rest = g.at.tile+1, g.row.n-1, g.row.cost-one, g.rest-one
		}
		for fits(one, one) {
			take()
		}
		if !given {
			take()
			g.settle()
		}
	}
	share.end = g.at
	if before := g.last(); g.parts > 1 && (before.sequence != g.at.sequence || before.row != g.at.row) {
		rows, _ := g.rows(before.sequence)
		queries := g.tileQueries
		if before.row == rows-1 {
			queries = g.queries[before.sequence] - before.row*g.tileQueries
		}
		g.splits = append(g.splits, planSplit{planPlace{before.sequence, before.row, 0}, g.partials, g.parts, queries})
		g.partials, g.parts = g.partials+g.parts, 1
	}
	if !g.done && !g.whole && g.at.tile > 0 {
		g.parts++
	}
	g.shares = append(g.shares, share)
	return cost
}

// last returns where the share before ends.
func (g *planner) last() planPlace {
	if len(g.shares) == 0 {
		return planPlace{}
	}
	return g.shares[len(g.shares)-1].end
}

// settle moves the cursor from the end of a row to the next one.
func (g *planner) settle() {
	if g.row.n > 0 {
		return
	}
	rows, _ := g.rows(g.at.sequence)
	if g.at.row+1 >= rows {
		g.enter(g.at.sequence + 1)
		return
	}
	g.at.row, g.at.tile = g.at.row+1, 0
	g.row = g.tiles(g.at.sequence, g.at.row)
}

// planPiece is the queries of a split row that a vector core combines.
type planPiece struct{ split, first, queries int64 }

// combine divides the rows that are split among vector cores, by the number of partial results.
func (p *planTask) combine(splits []planSplit) (pieces []planPiece) {
	load := int64(0)
	for _, s := range splits {
		load += s.parts * s.queries
	}
	spare, average := p.vectors-int64(len(splits)), (load+p.vectors-1)/p.vectors
	for i, s := range splits {
		n, each := int64(1), s.queries
		if spare > 0 {
			n = max(1, s.parts*s.queries/average)
			each = (s.queries + n - 1) / n
			n = min((s.queries+each-1)/each, spare+1)
		}
		for k := range n {
			size := each
			if k == n-1 {
				size = s.queries - k*each
			}
			pieces = append(pieces, planPiece{int64(i), k * each, size})
		}
		spare -= n - 1
	}
	return pieces
}

// numbers returns a plan as the kernel reads it.
func (p *planTask) numbers() []float64 {
	out := make([]float64, planRow*(planCubes+planVectors))
	shares, splits := p.plan()
	var from planPlace
	for i, s := range shares {
		for k, v := range []int64{1, from.sequence, from.row, from.tile, s.end.sequence, s.end.row, s.end.tile, s.partial} {
			out[planRow*i+k] = float64(v)
		}
		from = s.end
	}
	for i, piece := range p.combine(splits) {
		s := splits[piece.split]
		for k, v := range []int64{1, s.row.sequence, s.row.row, s.partial, s.parts, piece.first, piece.queries} {
			out[planRow*(planCubes+i)+k] = float64(v)
		}
	}
	return out
}

// indexerPlan divides the work of LightningIndexerV2, or of QuantLightningIndexerV2, among the cores of the chip. The kernel reads the plan; the emulator's indexer needs
// none. As in CANN the numbers behind the plan stay what they are.
func indexerPlan(c *op.Call) (op.Run, error) {
	out := c.Optional("metadata") // CANN refuses null as other mistakes
	quantised := c.Has("quantMode")
	heads, topk, batch := c.Int("numHeadsQ"), c.Int("topk"), c.Int("batchSize")
	most := [2]int64{c.Int("maxSeqlenQ"), c.Int("maxSeqlenK")}
	layouts := [2]string{c.Text("layoutQOptional"), c.Text("layoutKOptional")}
	ends := [2]*op.Tensor{c.Optional("cuSeqlensQOptional"), c.Optional("cuSeqlensKOptional")}
	used := [2]*op.Tensor{c.Optional("sequsedQOptional"), c.Optional("sequsedKOptional")}
	residual, mode, ratio := c.Optional("cmpResidualKOptional"), c.Int("maskMode"), c.Int("cmpRatio")
	for _, t := range []**op.Tensor{&ends[0], &ends[1], &used[0], &used[1], &residual} {
		if *t != nil && ((*t).Rank() == 0 || (*t).Dim(0) == 0) {
			*t = nil
		}
	}
	switch {
	case out == nil:
		c.Invalid("metadata is null")
		return nil, c.Err()
	case heads < 1 || heads > 64:
		c.Invalid("numHeadsQ is %d; 1 to 64 are possible", heads)
	case c.Int("numHeadsK") != 1:
		c.Invalid("numHeadsK is %d; keys have 1", c.Int("numHeadsK"))
	case c.Int("headDim") != 128:
		c.Invalid("headDim is %d; it must be 128", c.Int("headDim"))
	case topk < 1 || topk > 8192:
		c.Invalid("topk is %d; 1 to 8192 are possible", topk)
	case batch < 0:
		c.Invalid("batchSize is %d; it must not be negative", batch)
	case mode != 0 && mode != 3:
		c.Invalid("maskMode is %d; 0 (none) and 3 (causal) are possible", mode)
	case quantised && c.Chip() != acceptance.Ascend950 && (heads != 64 || topk > 2048 || c.Int("quantMode") != 2 || ratio&(ratio-1) != 0 || layouts[1] != "PA_BBND"):
		c.Invalid("numHeadsQ %d, topk %d, quantMode %d, cmpRatio %d and layoutK %q: this chip has 64 heads, up to 2048 keys, quantMode 2, powers of two, and PA_BBND", heads, topk, c.Int("quantMode"), ratio, layouts[1])
	case quantised && (c.Int("quantMode") < 1 || c.Int("quantMode") > 5):
		c.Invalid("quantMode is %d; 1 to 5 are possible", c.Int("quantMode"))
	case ratio < 1 || ratio > 128:
		c.Invalid("cmpRatio is %d; 1 to 128 are possible", ratio)
	case layouts[0] != "TND" && layouts[0] != "BSND":
		c.Invalid("layoutQ is %q; TND and BSND are possible", layouts[0])
	case layouts[1] != layouts[0] && layouts[1] != "PA_BBND":
		c.Invalid("layoutK is %q; with layoutQ %s it must be that or PA_BBND", layouts[1], layouts[0])
	case layouts[1] == "PA_BBND" && used[1] == nil:
		c.Invalid("sequsedK is null; layoutK PA_BBND needs the length of each sequence")
	case ratio > 1 && mode == 3 && residual == nil:
		c.Invalid("cmpResidualK is null; cmpRatio %d and maskMode 3 need it", ratio)
	}
	c.DType(out, dtype.Int32)
	c.Plain(out)
	c.Shape(out, []int64{planSize}, "the numbers of a plan")
	n := [2]int64{batch, batch}
	for side, name := range []string{"Q", "K"} {
		for _, t := range []*op.Tensor{ends[side], used[side]} {
			if t != nil {
				c.Plain(t)
				c.DType(t, dtype.Int32)
				c.Rank(t, 1, 1)
			}
		}
		switch layouts[side] {
		case "TND":
			if ends[side] == nil {
				c.Invalid("cuSeqlens%s is null; layout TND needs where each sequence ends", name)
				return nil, c.Err()
			}
			n[side] = ends[side].Dim(0) - 1
		case "BSND":
			if most[side] <= 0 {
				c.Invalid("maxSeqlen%s is %d; layout BSND needs the size of the second dimension", name, most[side])
			}
		}
		if most[side] < -1 {
			c.Invalid("maxSeqlen%s is %d; it must be -1 or more", name, most[side])
		}
		if u := used[side]; u != nil {
			if layouts[side] == "TND" && u.Dim(0) != n[side] {
				c.Invalid("%v has lengths of %d sequences; there are %d", u, u.Dim(0), n[side])
			}
			n[side] = u.Dim(0)
		}
	}
	if n[0] != n[1] {
		c.Invalid("there are queries of %d sequences, and keys of %d", n[0], n[1])
	}
	if residual != nil {
		c.Plain(residual)
		c.DType(residual, dtype.Int32)
		c.Shape(residual, []int64{n[0]}, "a number for each sequence")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	cores := c.Cores()
	p := planTask{heads: heads, ratio: ratio, causal: mode == 3, tileQueries: 4, tileKeys: 2048, cubes: cores.Cube, vectors: cores.Vector}
	if c.Chip() == acceptance.Ascend950 {
		if p.tileKeys = 128; !quantised && (heads > 32 || topk > 2048) || topk > 6144 {
			p.tileQueries = 2
		}
	}
	return func(*op.Exec) error {
		task := p
		for side, into := range []*[]int64{&task.queries, &task.keys} {
			lengths, err := planLengths(c, []string{"Q", "K"}[side], n[0], most[side], ends[side], used[side], layouts[side])
			if err != nil {
				return err
			}
			*into = lengths
		}
		if quantised { // the kernel splits rows on the Ascend950 alone, and there long ones
			longest := slices.Max(append(task.keys, 0))
			task.whole = p.tileKeys != 128 || longest < topk || longest <= 5*p.tileKeys
		}
		rest := make([]int64, n[0])
		if residual != nil {
			var err error
			if rest, err = elementwise.Indices(residual.View()); err != nil {
				return err
			}
		}
		for b, k := range task.keys {
			if rest[b] < 0 || rest[b] >= ratio {
				return op.AICPUFault(c, "cmpResidualK[%d] is %d; 0 to %d are possible", b, rest[b], ratio-1)
			}
			task.longKeys = append(task.longKeys, k*ratio+rest[b])
		}
		numbers := task.numbers()
		return elementwise.SetFloats(kernel.View{Data: out.Data, DType: out.DType, Shape: []int64{int64(len(numbers))}, Strides: out.Strides}, numbers)
	}, nil
}

// planLengths returns the length of each sequence.
func planLengths(c *op.Call, side string, n, most int64, ends, used *op.Tensor, layout string) ([]int64, error) {
	lengths := slices.Repeat([]int64{most}, int(n))
	if layout == "TND" {
		at, err := elementwise.Indices(ends.View())
		if err != nil {
			return nil, err
		}
		if at[0] != 0 {
			return nil, op.AICPUFault(c, "cuSeqlens%s begins with %d; it must be 0", side, at[0])
		}
		for b := range lengths {
			if lengths[b] = at[b+1] - at[b]; lengths[b] < 0 {
				return nil, op.AICPUFault(c, "cuSeqlens%s is %s; it must not decrease", side, op.Dims(at))
			}
		}
	}
	if used == nil {
		return lengths, nil
	}
	all, err := elementwise.Indices(used.View())
	if err != nil {
		return nil, err
	}
	for b, u := range all {
		if u < 0 || layout != "PA_BBND" && u > lengths[b] {
			return nil, op.AICPUFault(c, "seqused%s[%d] is %d; it must not be negative, nor more than the sequence has", side, b, u)
		}
	}
	return all, nil
}
