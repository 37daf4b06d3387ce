package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// rowWriter writes rows of the tokens to the expanded ones: row i is the token from[i], or
// zero where that is negative. ends is where the rows of each expert end, nil if unknown.
type rowWriter func(from, ends []int64) error

// rowWriter reads how a routing stores the rows of x in out: as they are, or quantised to
// int8, with one scale and offset for all or by the extremes of each row.
func (c *Call) rowWriter(x, out *Tensor) rowWriter {
	mode := int64(0)
	switch {
	case c.Has("quantMode"):
		mode = c.Int("quantMode")
	case !c.Has("scale"): // the form that only quantises has no mode
		mode = -1
	}
	switch mode {
	case -1:
		c.SameDType(x, out)
		return func(from, _ []int64) error { return copyRows(out.View(), x.View(), from) }
	case 0:
		c.DType(out, dtype.Int8)
		return c.staticRows(x, out)
	case 1:
		c.DType(out, dtype.Int8)
		return c.dynamicRows(x, out)
	}
	c.Unfit("quantMode is %d; use -1 (none), 0 (static) or 1 (dynamic)", mode)
	return nil
}

// quantisedRows gathers rows, has them quantised, and writes them to out; rows of no token
// are zero.
func quantisedRows(out, x *Tensor, from []int64, quantise func(into, rows kernel.View) error) error {
	n, width := int64(len(from)), x.Shape[1]
	rows, release := kernel.Temporary(n, width)
	defer release()
	if err := copyRows(rows, x.View(), from); err != nil {
		return err
	}
	into, releaseInto := kernel.TemporaryInt8(n, width)
	defer releaseInto()
	if err := quantise(into, rows); err != nil {
		return err
	}
	for i, k := range from {
		if k < 0 {
			if err := kernel.Zero(into.Narrow(0, int64(i), 1)); err != nil {
				return err
			}
		}
	}
	into.Shape, into.Strides = out.Shape, ContiguousStrides(out.Shape)
	return kernel.Copy(out.View(), into)
}

func (c *Call) staticRows(x, out *Tensor) rowWriter {
	constant := func(v float64) func() (kernel.View, func(), error) {
		return func() (kernel.View, func(), error) {
			t, release := kernel.Temporary(1)
			return t, release, kernel.Fill(t, kernel.Real(v))
		}
	}
	var factor, offset func() (kernel.View, func(), error)
	if c.Has("scale") {
		factor, offset = constant(c.Float("scale")), constant(c.Float("offset"))
	} else {
		given := func(name string) func() (kernel.View, func(), error) {
			t := c.Tensor(name)
			c.DType(t, dtype.Float32)
			c.fits(t, []int64{1}, "one number, as quantMode is 0")
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
			return kernel.Quantizer{Factor: f, Offset: o, Round: kernel.Round}.Quantize(into, rows)
		})
	}
}

// dynamicRows multiplies the rows by scaleOptional, unless it is null, before it looks for
// their extremes: by its one row, or by that of the expert.
func (c *Call) dynamicRows(x, out *Tensor) rowWriter {
	scales, smooth := c.Tensor(c.either("dynamicQuantScaleOutOptional", "expandedScaleOut")), c.Optional("scaleOptional")
	c.DType(scales, dtype.Float32)
	c.Rank(scales, 1, 1)
	if t := c.Optional("offsetOptional"); t != nil {
		c.Unfit("%v is given; dynamic quantisation has no offset", t)
	}
	if smooth != nil {
		c.DType(smooth, dtype.Float32)
		if smooth.Rank() != 2 || x.Rank() == 2 && smooth.Dim(1) != x.Shape[1] {
			c.Unfit("%v must have rows as long as those of %v", smooth, x)
		}
	}
	return func(from, ends []int64) error {
		if n := int64(len(from)); scales.Len() < n {
			return fmt.Errorf("%v must have an element for each of %d rows", scales, n)
		}
		q := kernel.DynamicQuantizer{Smooth: optionalView(smooth)}
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

// initRoutingV3 sorts the rows of x, repeated once per expert, by expert, and leaves out the
// experts that are not in a range.
func initRoutingV3(c *Call) (Run, error) {
	x, expertIdx, scale := c.Tensor("x"), c.Tensor("expertIdx"), c.Optional("scaleOptional")
	out, places, counts, scales := c.Tensor("expandedXOut"), c.Tensor("expandedRowIdxOut"), c.Tensor("expertTokensCountOrCumsumOut"), c.Tensor("expandedScaleOut")
	experts, rangeOf, dynamic := c.Int("expertNum"), c.Ints("activeExpertRangeOptional"), c.Int("quantMode") == 1
	c.plain(x, expertIdx, out, places, counts, scales)
	c.DType(x, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8)
	c.DType(expertIdx, dtype.Int32)
	c.DType(places, dtype.Int32)
	c.DType(counts, dtype.Int64)
	c.DType(scales, dtype.Float32)
	c.matrix(x, expertIdx)
	if c.Err() != nil {
		return nil, c.Err()
	}
	rows, choices := expertIdx.Shape[0], expertIdx.Shape[1]
	total := rows * choices
	if len(rangeOf) == 0 {
		rangeOf = []int64{0, experts}
	}
	kind, gathers := c.Int("expertTokensNumType"), c.Int("rowIdxType")
	switch {
	case x.Shape[0] != rows:
		c.Unfit("%v and %v must have the same number of rows", x, expertIdx)
	case c.Int("dropPadMode") != 0:
		c.Unfit("dropPadMode is %d; only 0 (no row is dropped) is supported", c.Int("dropPadMode"))
	case c.Int("activeNum") != total:
		c.Unfit("activeNum is %d; it must be the %d elements of %v", c.Int("activeNum"), total, expertIdx)
	case !c.Bool("expertTokensNumFlag"):
		c.Unfit("expertTokensNumFlag is false; only true is supported")
	case kind != 1 && kind != 2:
		c.Unfit("expertTokensNumType is %d; use 1 (counts) or 2 (pairs of expert and count)", kind)
	case gathers != 0 && gathers != 1:
		c.Unfit("rowIdxType is %d; use 0 (places of the choices) or 1 (choices of the places)", gathers)
	case len(rangeOf) != 2 || rangeOf[0] < 0 || rangeOf[1] < rangeOf[0] || rangeOf[1] > experts:
		c.Unfit("activeExpertRange %s is not a range of the %d experts", dims(rangeOf), experts)
	case c.Int("quantMode") == 0:
		c.Unfit("quantMode is 0; only -1 (none) and 1 (dynamic) are supported")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	first, active := rangeOf[0], rangeOf[1]-rangeOf[0]
	c.fits(out, []int64{total, x.Shape[1]}, "a row for each element of expertIdx")
	c.fits(places, []int64{total}, "one place for each element of expertIdx")
	c.fits(scales, []int64{total}, "one scale for each element of expertIdx")
	if kind == 1 {
		c.fits(counts, []int64{active}, "one number for each expert of the range")
	} else {
		c.fits(counts, []int64{experts, 2}, "a pair for each expert")
	}
	var give rowWriter
	if dynamic {
		if scale != nil {
			c.fits(scale, []int64{active, x.Shape[1]}, "a row for each expert of the range")
		}
		c.DType(x, transformerTypes...)
		give = c.rowWriter(x, out)
	} else {
		c.SameDType(x, out)
		if scale != nil {
			c.DType(scale, dtype.Float32)
			c.fits(scale, []int64{rows}, "one for each row of x")
		}
		give = func(from, _ []int64) error {
			return kernel.Rows(out.View().Narrow(0, 0, int64(len(from))), x.View(), from)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		expert, err := kernel.Indices(expertIdx.View())
		if err != nil {
			return err
		}
		number := make([]int64, active)
		for i, e := range expert {
			if e < 0 || e >= experts {
				return fmt.Errorf("expertIdx %d at position %d is out of range for %d experts", e, i, experts)
			}
			if e -= first; e >= 0 && e < active {
				number[e]++
			}
		}
		if err := kernel.SetInts(counts.View(), counted(counts, number, first, kind)); err != nil {
			return err
		}
		var from []int64
		at, ends := make([]int64, total), make([]int64, active)
		for i := range at {
			at[i] = -1
		}
		for _, o := range kernel.StableOrder(expert) {
			if e := expert[o] - first; e >= 0 && e < active {
				if gathers == 0 {
					at[o] = int64(len(from))
				} else {
					at[len(from)] = o
				}
				from = append(from, o/choices)
				ends[e] = int64(len(from))
			}
		}
		for e := range ends {
			if e > 0 {
				ends[e] = max(ends[e], ends[e-1])
			}
		}
		if total == 0 {
			return nil
		}
		if err := kernel.SetInts(places.View(), at); err != nil {
			return err
		}
		if err := zeroAll(out, scales); err != nil || len(from) == 0 || x.Shape[1] == 0 {
			return err
		}
		if dynamic {
			for range total - int64(len(from)) {
				from = append(from, -1)
			}
			if active > 0 {
				ends[active-1] = total
			}
		} else if scale != nil {
			part := scales.View().Narrow(0, 0, int64(len(from)))
			if err := kernel.Rows(standing(part), standing(scale.View()), from); err != nil {
				return err
			}
		}
		return give(from, ends)
	}, nil
}

// counted is what the output of counts holds: the number of each expert of the range, or
// pairs of those that have rows with their numbers, then zeros.
func counted(out *Tensor, number []int64, first, kind int64) []int64 {
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

// updateExpert turns the logical experts of tokens into instances of them on ranks, which a
// table of rows [count, instances…] lists, and marks the choices whose weight is too small.
func updateExpert(c *Call) (Run, error) {
	ids, table, out := c.Tensor("expertIds"), c.Tensor("eplbTable"), c.Tensor("balancedExpertIds")
	weights, threshold, active := c.Optional("expertScalesOptional"), c.Optional("pruningThresholdOptional"), c.Optional("activeMaskOptional")
	rank, world, mode := c.Int("localRankId"), c.Int("worldSize"), c.Int("balanceMode")
	c.plain(ids, table, out)
	c.DType(ids, indexTypes...)
	c.DType(table, dtype.Int32)
	c.SameDType(ids, out)
	c.matrix(ids, table)
	c.fits(out, ids.Shape, "as expertIds")
	if mode != 0 && mode != 1 || mode == 0 && (world < 1 || rank < 0 || rank >= world) {
		c.Unfit("balanceMode is %d, localRankId %d and worldSize %d; use mode 0 (by rank, one of worldSize) or 1 (by token)", mode, rank, world)
	}
	if (weights == nil) != (threshold == nil) || active != nil && weights == nil {
		c.Unfit("expertScales and pruningThreshold must be given together, and with activeMask")
	}
	var mask *Tensor
	if weights != nil && c.Err() == nil {
		mask = c.Tensor("balancedActiveMask")
		c.plain(weights, threshold, mask)
		c.DType(weights, transformerTypes...)
		c.DType(threshold, dtype.Float32)
		c.DType(mask, dtype.Bool)
		c.fits(weights, ids.Shape, "as expertIds")
		c.fits(mask, ids.Shape, "as expertIds")
		if threshold.Len() != ids.Shape[1] || threshold.Rank() < 1 || threshold.Dim(-1) != ids.Shape[1] {
			c.Unfit("%v must have a number for each choice of %v", threshold, ids)
		}
		if active != nil {
			c.DType(active, dtype.Bool)
			c.fits(active, ids.Shape[:1], "one for each token")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if ids.Len() == 0 {
			return nil
		}
		expert, err := kernel.Indices(ids.View())
		if err != nil {
			return err
		}
		instances, err := kernel.Indices(table.View())
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
		if err := kernel.SetInts(out.View(), expert); err != nil || mask == nil {
			return err
		}
		return prune(mask, weights, threshold, active)
	}, nil
}

// prune keeps the choices of active tokens whose weight reaches a share of their sum.
func prune(mask, weights, threshold, active *Tensor) error {
	rows, choices := weights.Shape[0], weights.Shape[1]
	sum, release := kernel.Temporary(rows)
	defer release()
	if err := kernel.Reduce(kernel.ReduceSum, sum, weights.View(), []int{1}, 0); err != nil {
		return err
	}
	least, releaseLeast := kernel.Temporary(rows, choices)
	defer releaseLeast()
	share := threshold.As([]int64{choices}, threshold.Strides[threshold.Rank()-1:])
	if err := kernel.Map(kernel.Mul, dtype.Float32, least, []kernel.Input{kernel.Of(standing(sum)), kernel.Of(share)}); err != nil {
		return err
	}
	if err := kernel.Map(kernel.GreaterEqual, dtype.Float32, mask.View(), []kernel.Input{kernel.Of(weights.View()), kernel.Of(least)}); err != nil || active == nil {
		return err
	}
	return kernel.Map(kernel.LogicalAnd, dtype.Bool, mask.View(), []kernel.Input{kernel.Of(mask.View()), kernel.Of(standing(active.View()))})
}
