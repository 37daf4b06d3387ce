package moe

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// rowWriter writes token rows to the expanded rows: output row i is token from[i], or zero if
// from[i] is negative. ends holds the end of each expert's rows, or is nil if unknown.
type rowWriter func(from, ends []int64) error

// newRowWriter determines how routing stores the rows of x in out: unchanged, or quantised to
// int8 with one scale and offset for all rows or with a dynamic scale per row. MoeInitRoutingQuantV2
// quantises to int4 as well.
func newRowWriter(c *op.Call, x, out *op.Tensor) rowWriter {
	mode := int64(0)
	switch {
	case c.Has("quantMode"):
		mode = c.Int("quantMode")
	case !c.Has("scale"): // this version always quantises and has no mode
		mode = -1
	}
	if mode == -1 {
		c.SameDType(x, out)
		return func(from, _ []int64) error { return op.CopyRows(out.View(), x.View(), from) }
	}
	if c.Op.Name != "MoeInitRoutingQuantV2" || out.DType != dtype.Int4 {
		c.DType(out, dtype.Int8)
	} else if mode != 1 || c.Int("dropPadMode") != 0 || !out.Contiguous() || out.Rank() > 0 && out.Dim(-1)%2 != 0 {
		c.Unfit("%v needs quantMode 1, dropPadMode 0 and contiguous rows of an even length", out)
	}
	switch mode {
	case 0:
		return staticRows(c, x, out)
	case 1:
		return dynamicRows(c, x, out)
	}
	c.Unfit("quantMode is %d; use -1 (none), 0 (static) or 1 (dynamic)", mode)
	return nil
}

// quantisedRows gathers rows, quantises them, and writes them to out. Rows without a token are
// zero.
func quantisedRows(out, x *op.Tensor, from []int64, quantise func(into, rows kernel.View) error) error {
	n, width := int64(len(from)), x.Shape[1]
	rows, release := kernel.Temporary(n, width)
	defer release()
	if err := op.CopyRows(rows, x.View(), from); err != nil {
		return err
	}
	into, releaseInto := kernel.TemporaryInt8(n, width)
	defer releaseInto()
	if err := quantise(into, rows); err != nil {
		return err
	}
	for i, k := range from {
		if k < 0 {
			if err := elementwise.Zero(into.Narrow(0, int64(i), 1)); err != nil {
				return err
			}
		}
	}
	if out.DType == dtype.Int4 {
		return gemm.PackInt4(out.Data, into)
	}
	into.Shape, into.Strides = out.Shape, op.ContiguousStrides(out.Shape)
	return elementwise.Copy(out.View(), into)
}

func staticRows(c *op.Call, x, out *op.Tensor) rowWriter {
	constant := func(v float64) func() (kernel.View, func(), error) {
		return func() (kernel.View, func(), error) {
			t, release := kernel.Temporary(1)
			return t, release, elementwise.Fill(t, elementwise.Real(v))
		}
	}
	var factor, offset func() (kernel.View, func(), error)
	if c.Has("scale") {
		factor, offset = constant(c.Float("scale")), constant(c.Float("offset"))
	} else {
		given := func(name string) func() (kernel.View, func(), error) {
			t := c.Tensor(name)
			c.DType(t, dtype.Float32)
			c.Fits(t, []int64{1}, "one number, as quantMode is 0")
			return func() (kernel.View, func(), error) { return t.View(), func() {}, nil }
		}
		factor, offset = given("scaleOptional"), given("offsetOptional")
	}
	return func(from, _ []int64) error {
		f, release, err := factor()
		defer release()
		if err != nil {
			return err
		}
		o, release, err := offset()
		defer release()
		if err != nil {
			return err
		}
		return quantisedRows(out, x, from, func(into, rows kernel.View) error {
			return gemm.Quantizer{Factor: f, Offset: o, Round: elementwise.Round}.Quantize(into, rows)
		})
	}
}

// dynamicRows quantises each row by its largest magnitude. Before that it multiplies the rows by
// scaleOptional, unless that is null; scaleOptional has one row for all experts or one for each.
func dynamicRows(c *op.Call, x, out *op.Tensor) rowWriter {
	scales, smooth := c.Tensor(c.Either("dynamicQuantScaleOutOptional", "expandedScaleOut")), c.Optional("scaleOptional")
	c.DType(scales, dtype.Float32)
	c.Rank(scales, 1, 1)
	if t := c.Optional("offsetOptional"); t != nil {
		c.Unfit("%v is given; dynamic quantisation has no offset", t)
	}
	if smooth != nil {
		c.DType(smooth, dtype.Float32)
		if smooth.Rank() != 2 || x.Rank() == 2 && smooth.Dim(1) != x.Shape[1] {
			c.Unfit("%v must have rows as long as those of %v", smooth, x)
		} else if out.DType == dtype.Int4 && smooth.Dim(0) != 1 {
			c.Unfit("%v must have one row, as %v", smooth, out)
		}
	}
	return func(from, ends []int64) error {
		if n := int64(len(from)); scales.Len() < n {
			return fmt.Errorf("%v must have an element for each of %d rows", scales, n)
		}
		q := gemm.DynamicQuantizer{Smooth: op.OptionalView(smooth)}
		if out.DType == dtype.Int4 {
			q.Most = gemm.MostInt4
		}
		if smooth != nil && smooth.Shape[0] > 1 {
			if int64(len(ends)) != smooth.Shape[0] {
				return fmt.Errorf("%v must have one row, or one for each of %d experts", smooth, len(ends))
			}
			q.Ends = ends
		}
		return quantisedRows(out, x, from, func(into, rows kernel.View) error {
			return q.Quantize(into, scales.View().Narrow(0, 0, int64(len(from))), rows)
		})
	}
}

// initRoutingV3 sorts the rows of x, repeated once per expert, by expert, and drops experts
// outside a range.
func initRoutingV3(c *op.Call) (op.Run, error) {
	r := &rangeRouting{
		x: c.Tensor("x"), expertIdx: c.Tensor("expertIdx"), scale: c.Optional("scaleOptional"), out: c.Tensor("expandedXOut"), places: c.Tensor("expandedRowIdxOut"),
		counts: c.Tensor("expertTokensCountOrCumsumOut"), scales: c.Tensor("expandedScaleOut"), experts: c.Int("expertNum"), kind: c.Int("expertTokensNumType"),
		gathers: c.Int("rowIdxType") == 1, dynamic: c.Int("quantMode") == 1,
	}
	c.Plain(r.x, r.expertIdx, r.out, r.places, r.counts, r.scales)
	c.DType(r.x, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8)
	c.DType(r.expertIdx, dtype.Int32)
	c.DType(r.places, dtype.Int32)
	c.DType(r.counts, dtype.Int64)
	c.DType(r.scales, dtype.Float32)
	c.Matrix(r.x, r.expertIdx)
	if c.Err() == nil {
		r.readForm(c)
	}
	if c.Err() == nil {
		r.checkShapes(c)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return r.run() }, nil
}

// rangeRouting is a call that sorts rows of x by expert, for a range of experts.
type rangeRouting struct {
	x, expertIdx, scale         *op.Tensor
	out, places, counts, scales *op.Tensor
	experts, first, active      int64 // all experts, and the range
	choices, total              int64 // choices per row, and of all rows
	kind                        int64 // format of counts: 1 or 2
	gathers                     bool  // places maps rows to choices, otherwise choices to rows
	dynamic                     bool  // rows are quantised dynamically
	give                        rowWriter
}

// readForm reads the attributes and refuses unsupported values.
func (r *rangeRouting) readForm(c *op.Call) {
	rows := r.expertIdx.Shape[0]
	r.choices = r.expertIdx.Shape[1]
	r.total = rows * r.choices
	among := c.Ints("activeExpertRangeOptional")
	if len(among) == 0 {
		among = []int64{0, r.experts}
	}
	switch gathers := c.Int("rowIdxType"); {
	case r.x.Shape[0] != rows:
		c.Unfit("%v and %v must have the same number of rows", r.x, r.expertIdx)
	case c.Int("dropPadMode") != 0:
		c.Unfit("dropPadMode is %d; only 0 (no row is dropped) is supported", c.Int("dropPadMode"))
	case c.Int("activeNum") != r.total:
		c.Unfit("activeNum is %d; it must be the %d elements of %v", c.Int("activeNum"), r.total, r.expertIdx)
	case !c.Bool("expertTokensNumFlag"):
		c.Unfit("expertTokensNumFlag is false; only true is supported")
	case r.kind != 1 && r.kind != 2:
		c.Unfit("expertTokensNumType is %d; use 1 (counts) or 2 (pairs of expert and count)", r.kind)
	case gathers != 0 && gathers != 1:
		c.Unfit("rowIdxType is %d; use 0 (places of the choices) or 1 (choices of the places)", gathers)
	case len(among) != 2 || among[0] < 0 || among[1] < among[0] || among[1] > r.experts:
		c.Unfit("activeExpertRange %s is not a range of the %d experts", op.Dims(among), r.experts)
	case c.Int("quantMode") == 0:
		c.Unfit("quantMode is 0; only -1 (none) and 1 (dynamic) are supported")
	default:
		r.first, r.active = among[0], among[1]-among[0]
	}
}

// checkShapes checks the outputs and the scale, and determines how rows are stored.
func (r *rangeRouting) checkShapes(c *op.Call) {
	width := r.x.Shape[1]
	c.Fits(r.out, []int64{r.total, width}, "a row for each element of expertIdx")
	c.Fits(r.places, []int64{r.total}, "one place for each element of expertIdx")
	c.Fits(r.scales, []int64{r.total}, "one scale for each element of expertIdx")
	if r.kind == 1 {
		c.Fits(r.counts, []int64{r.active}, "one number for each expert of the range")
	} else {
		c.Fits(r.counts, []int64{r.experts, 2}, "a pair for each expert")
	}
	if r.dynamic {
		if r.scale != nil {
			c.Fits(r.scale, []int64{r.active, width}, "a row for each expert of the range")
		}
		c.DType(r.x, op.FloatTypes...)
		r.give = newRowWriter(c, r.x, r.out)
		return
	}
	c.SameDType(r.x, r.out)
	if r.scale != nil {
		c.DType(r.scale, dtype.Float32)
		c.Fits(r.scale, r.expertIdx.Shape[:1], "one for each row of x")
	}
	r.give = func(from, _ []int64) error {
		return indexing.Rows(r.out.View().Narrow(0, 0, int64(len(from))), r.x.View(), from)
	}
}

func (r *rangeRouting) run() error {
	expert, err := elementwise.Indices(r.expertIdx.View())
	if err != nil {
		return err
	}
	number := make([]int64, r.active)
	for i, e := range expert {
		if e < 0 || e >= r.experts {
			return fmt.Errorf("expertIdx %d at position %d is out of range for %d experts", e, i, r.experts)
		}
		if e -= r.first; e >= 0 && e < r.active {
			number[e]++
		}
	}
	if err := indexing.SetInts(r.counts.View(), counted(r.counts, number, r.first, r.kind)); err != nil || r.total == 0 {
		return err
	}
	at, from := r.order(expert)
	if err := indexing.SetInts(r.places.View(), at); err != nil {
		return err
	}
	if err := op.ZeroAll(r.out, r.scales); err != nil || len(from) == 0 || r.x.Shape[1] == 0 {
		return err
	}
	ends := make([]int64, r.active)
	for e, n := range number {
		ends[e] = n
		if e > 0 {
			ends[e] += ends[e-1]
		}
	}
	if r.dynamic {
		for range r.total - int64(len(from)) {
			from = append(from, -1)
		}
		if r.active > 0 {
			ends[r.active-1] = r.total
		}
	} else if r.scale != nil {
		part := r.scales.View().Narrow(0, 0, int64(len(from)))
		if err := indexing.Rows(op.Column(part), op.Column(r.scale.View()), from); err != nil {
			return err
		}
	}
	return r.give(from, ends)
}

// order sorts the choices of experts in the range by expert. It returns the source row of each
// and the places in the format of the output, where -1 marks a missing place.
func (r *rangeRouting) order(expert []int64) (at, from []int64) {
	at = make([]int64, r.total)
	for i := range at {
		at[i] = -1
	}
	for _, o := range order.Stable(expert) {
		if e := expert[o] - r.first; e < 0 || e >= r.active {
			continue
		}
		if r.gathers {
			at[len(from)] = o
		} else {
			at[o] = int64(len(from))
		}
		from = append(from, o/r.choices)
	}
	return at, from
}

// counted returns the contents of the output of counts: the number of rows of each expert in the
// range, or (expert, count) pairs of those that have rows, padded with zeros.
func counted(out *op.Tensor, number []int64, first, kind int64) []int64 {
	if kind == 1 {
		return number
	}
	pairs := make([]int64, 0, out.Len())
	for e, n := range number {
		if n > 0 {
			pairs = append(pairs, first+int64(e), n)
		}
	}
	return pairs[:out.Len()]
}

// updateExpert maps the logical experts of tokens to physical instances on ranks, which a table
// with rows [count, instances…] lists, and marks the choices whose weight is too small.
func updateExpert(c *op.Call) (op.Run, error) {
	ids, table, out := c.Tensor("expertIds"), c.Tensor("eplbTable"), c.Tensor("balancedExpertIds")
	weights, threshold, active := c.Optional("expertScalesOptional"), c.Optional("pruningThresholdOptional"), c.Optional("activeMaskOptional")
	rank, world, mode := c.Int("localRankId"), c.Int("worldSize"), c.Int("balanceMode")
	c.Plain(ids, table, out)
	c.DType(ids, op.IndexTypes...)
	c.DType(table, dtype.Int32)
	c.SameDType(ids, out)
	c.Matrix(ids, table)
	c.Fits(out, ids.Shape, "as expertIds")
	if mode != 0 && mode != 1 || mode == 0 && (world < 1 || rank < 0 || rank >= world) {
		c.Unfit("balanceMode is %d, localRankId %d and worldSize %d; use mode 0 (by rank, one of worldSize) or 1 (by token)", mode, rank, world)
	}
	if (weights == nil) != (threshold == nil) || active != nil && weights == nil {
		c.Unfit("expertScales and pruningThreshold must be given together, and with activeMask")
	}
	var mask *op.Tensor
	if weights != nil && c.Err() == nil {
		mask = c.Tensor("balancedActiveMask")
		c.Plain(weights, threshold, mask)
		c.DType(weights, op.FloatTypes...)
		c.DType(threshold, dtype.Float32)
		c.DType(mask, dtype.Bool)
		c.Fits(weights, ids.Shape, "as expertIds")
		c.Fits(mask, ids.Shape, "as expertIds")
		if threshold.Len() != ids.Shape[1] || threshold.Rank() < 1 || threshold.Dim(-1) != ids.Shape[1] {
			c.Unfit("%v must have a number for each choice of %v", threshold, ids)
		}
		if active != nil {
			c.DType(active, dtype.Bool)
			c.Fits(active, ids.Shape[:1], "one for each token")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if ids.Len() == 0 {
			return nil
		}
		expert, err := elementwise.Indices(ids.View())
		if err != nil {
			return err
		}
		instances, err := elementwise.Indices(table.View())
		if err != nil {
			return err
		}
		width := table.Shape[1]
		for i, e := range expert {
			if e < 0 || e >= table.Shape[0] {
				return fmt.Errorf("expertIds %d at position %d is out of range for %d experts", e, i, table.Shape[0])
			}
			row := instances[e*width:][:width]
			n := row[0]
			if n < 1 || n >= width {
				return fmt.Errorf("expert %d has %d instances; its row of the table has room for %d", e, n, width-1)
			}
			place := int64(i) / ids.Shape[1] % n
			if mode == 0 {
				place = rank / ((world + n - 1) / n)
			}
			expert[i] = row[1+place]
		}
		if err := indexing.SetInts(out.View(), expert); err != nil || mask == nil {
			return err
		}
		return prune(mask, weights, threshold, active)
	}, nil
}

// prune keeps the choices of active tokens whose weight reaches a given share of the sum of
// their weights.
func prune(mask, weights, threshold, active *op.Tensor) error {
	rows, choices := weights.Shape[0], weights.Shape[1]
	sum, release := kernel.Temporary(rows)
	defer release()
	if err := rowwise.Reduce(rowwise.ReduceSum, sum, weights.View(), []int{1}, 0); err != nil {
		return err
	}
	least, releaseLeast := kernel.Temporary(rows, choices)
	defer releaseLeast()
	share := threshold.As([]int64{choices}, threshold.Strides[threshold.Rank()-1:])
	if err := elementwise.Map(elementwise.Mul, dtype.Float32, least, []elementwise.Input{elementwise.Of(op.Column(sum)), elementwise.Of(share)}); err != nil {
		return err
	}
	if err := elementwise.Map(elementwise.GreaterEqual, dtype.Float32, mask.View(), []elementwise.Input{elementwise.Of(weights.View()), elementwise.Of(least)}); err != nil || active == nil {
		return err
	}
	return elementwise.Map(elementwise.LogicalAnd, dtype.Bool, mask.View(), []elementwise.Input{elementwise.Of(mask.View()), elementwise.Of(op.Column(active.View()))})
}
