package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// matrix refuses, with 561002, a tensor that has not two dimensions.
func (c *Call) matrix(tensors ...*Tensor) {
	for _, t := range tensors {
		if t.Rank() != 2 {
			c.Unfit("%v must have 2 dimensions", t)
		}
	}
}

// rows is the number of rows of the last dimension.
func (t *Tensor) rows() int64 { return t.Len() / max(t.Dim(-1), 1) }

// copyRows sets row i of out to row places[i] of x, or to zero where that is negative.
func copyRows(out, x kernel.View, places []int64) error {
	c := kernel.Combination{X: x, Choices: 1, Index: places}
	return c.Into(out)
}

// initRouting sorts the rows of x, repeated once per expert, by expert. rowIdx says which
// row each element of expertIdx stands for, modulo the number of rows.
func initRouting(c *Call) (Run, error) {
	x, rowIdx, expertIdx, active := c.Tensor("x"), c.Tensor("rowIdx"), c.Tensor("expertIdx"), c.Int("activeNum")
	out, places, sorted := c.Tensor("expandedXOut"), c.Tensor("expandedRowIdxOut"), c.Tensor("expandedExpertIdxOut")
	c.DType(x, transformerTypes...)
	give := c.rowWriter(x, out)
	for _, t := range []*Tensor{rowIdx, expertIdx, places, sorted} {
		c.DType(t, dtype.Int32)
	}
	c.matrix(x, rowIdx, expertIdx)
	if active < 0 {
		c.Unfit("activeNum is %d; it must not be negative", active)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	n, k := expertIdx.Shape[0], expertIdx.Shape[1]
	if x.Shape[0] != n {
		c.Unfit("%v and %v must have the same number of rows", x, expertIdx)
	}
	c.fits(rowIdx, expertIdx.Shape, "as expertIdx")
	c.fits(out, []int64{min(n, active) * k, x.Shape[1]}, "min(rows, activeNum) times the experts of a row")
	c.fits(places, []int64{n * k}, "one place for each element of expertIdx")
	c.fits(sorted, []int64{n * k}, "one expert for each element of expertIdx")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if n*k == 0 {
			return nil
		}
		expert, err := kernel.Indices(expertIdx.View())
		if err != nil {
			return err
		}
		row, err := kernel.Indices(rowIdx.View())
		if err != nil {
			return err
		}
		order := kernel.StableOrder(expert)
		at, byExpert, from := make([]int64, n*k), make([]int64, n*k), make([]int64, n*k)
		for i, o := range order {
			if row[o] < 0 || row[o] >= n*k {
				return fmt.Errorf("rowIdx %d at position %d is out of range for %d", row[o], o, n*k)
			}
			at[row[o]], byExpert[i], from[i] = int64(i), expert[o], row[o]%n
		}
		if err := kernel.SetInts(places.View(), at); err != nil {
			return err
		}
		if err := kernel.SetInts(sorted.View(), byExpert); err != nil {
			return err
		}
		return give(from[:out.Shape[0]], nil)
	}, nil
}

// routing is a call of MoeInitRoutingV2.
type routing struct {
	*Call
	rows, choices, active, capacity, experts int64
	padded                                   bool // every expert gets capacity rows
	counting                                 int64
	x, expertIdx, out, places                *Tensor
	counts, before                           *Tensor // nil unless wanted
	give                                     rowWriter
}

// Values of expertTokensCountOrCumsumFlag.
const (
	countNothing = iota
	countRunning
	countEach
)

func initRoutingV2(c *Call) (Run, error) {
	r := &routing{
		Call: c, x: c.Tensor("x"), expertIdx: c.Tensor("expertIdx"), out: c.Tensor("expandedXOut"), places: c.Tensor("expandedRowIdxOut"),
		active: c.Int(c.either("activeNumOptional", "activeNum")), capacity: c.Int(c.either("expertCapacityOptional", "expertCapacity")),
		experts: c.Int(c.either("expertNumOptional", "expertNum")), counting: c.Int(c.either("expertTokensCountOrCumsumFlagOptional", "expertTokensCountOrCumsumFlag")),
	}
	c.DType(r.x, transformerTypes...)
	r.give = c.rowWriter(r.x, r.out)
	c.DType(r.expertIdx, dtype.Int32)
	c.DType(r.places, dtype.Int32)
	c.matrix(r.x, r.expertIdx)
	r.checkAttributes()
	if c.Err() == nil {
		r.checkShapes()
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error { return r.run() }, nil
}

func (r *routing) checkAttributes() {
	switch mode := r.Int(r.either("dropPadModeOptional", "dropPadMode")); mode {
	case 0:
	case 1:
		r.padded = true
		if r.experts == 0 || r.capacity == 0 {
			r.Unfit("dropPadMode 1 needs expertNum (%d) and expertCapacity (%d) above 0", r.experts, r.capacity)
		}
	default:
		r.Unfit("dropPadMode is %d; 0 keeps every row, 1 gives every expert expertCapacity rows", mode)
	}
	if r.active < 0 || r.capacity < 0 || r.experts < 0 {
		r.Unfit("activeNum %d, expertCapacity %d and expertNum %d must not be negative", r.active, r.capacity, r.experts)
	}
	if r.counting < countNothing || r.counting > countEach {
		r.Unfit("expertTokensCountOrCumsumFlag is %d; 0 counts nothing, 1 gives running sums, 2 counts", r.counting)
	}
	if r.padded {
		r.counting = countNothing
	}
	if r.counting != countNothing {
		if r.experts == 0 {
			r.Unfit("expertNum is 0; counting the rows of experts needs it")
		}
		r.counts = r.Optional("expertTokensCountOrCumsumOutOptional")
		r.wanted(r.counts, "expertTokensCountOrCumsumOutOptional")
	}
	if r.padded && r.Bool(r.either("expertTokensBeforeCapacityFlagOptional", "expertTokensBeforeCapacityFlag")) {
		r.before = r.Optional("expertTokensBeforeCapacityOutOptional")
		r.wanted(r.before, "expertTokensBeforeCapacityOutOptional")
	}
}

// wanted checks an output of one number per expert that a flag asks for.
func (r *routing) wanted(t *Tensor, name string) {
	if t == nil {
		r.Fail(nullPointer, "%s is null; a flag asks for it", name)
		return
	}
	r.DType(t, dtype.Int32)
	r.fits(t, []int64{r.experts}, "one number for each expert")
}

func (r *routing) checkShapes() {
	r.rows, r.choices = r.expertIdx.Shape[0], r.expertIdx.Shape[1]
	if r.x.Shape[0] != r.rows {
		r.Unfit("%v and %v must have the same number of rows", r.x, r.expertIdx)
	}
	total, width := r.rows*r.choices, r.x.Shape[1]
	r.fits(r.places, []int64{total}, "one place for each element of expertIdx")
	switch {
	case r.padded:
		if r.capacity > r.rows {
			r.Unfit("expertCapacity %d is more than the %d rows of %v", r.capacity, r.rows, r.x)
		}
		r.fits(r.out, []int64{r.experts, r.capacity, width}, "expertCapacity rows for each expert")
	case r.active > 0:
		r.fits(r.out, []int64{min(r.active, total), width}, "activeNum rows")
	default:
		r.fits(r.out, []int64{total, width}, "a row for each element of expertIdx")
	}
}

func (r *routing) run() error {
	expert, err := kernel.Indices(r.expertIdx.View())
	if err != nil {
		return err
	}
	counts, err := r.count(expert)
	if err != nil {
		return err
	}
	for _, o := range []struct {
		out    *Tensor
		counts []int64
	}{{r.counts, counts}, {r.before, counts}} {
		if o.out == nil {
			continue
		}
		shown := slices.Clone(o.counts)
		if o.out == r.counts && r.counting == countRunning {
			for i := range shown[1:] {
				shown[i+1] += shown[i]
			}
		}
		if err := kernel.SetInts(o.out.View(), shown); err != nil {
			return err
		}
	}
	if len(expert) == 0 && r.out.Len() == 0 {
		return nil
	}
	at := make([]int64, len(expert)) // of each element of expertIdx in out
	from := make([]int64, r.out.rows())
	for i := range from {
		from[i] = -1
	}
	next := int64(0)
	last := int64(-1)
	for i, o := range kernel.StableOrder(expert) {
		at[o] = int64(i)
		if r.padded {
			if expert[o] != last {
				last, next = expert[o], 0
			}
			at[o] = -1
			if next < r.capacity {
				at[o] = expert[o]*r.capacity + next
			}
			next++
		}
		if at[o] >= 0 && at[o] < int64(len(from)) {
			from[at[o]] = o / r.choices
		}
	}
	if err := kernel.SetInts(r.places.View(), at); err != nil || r.out.Len() == 0 {
		return err
	}
	return r.give(from, r.ends(counts))
}

// ends is where the rows of every expert end, if they were counted.
func (r *routing) ends(counts []int64) []int64 {
	var ends []int64
	end, rows := int64(0), r.out.rows()
	for _, n := range counts {
		if r.padded {
			n = r.capacity
		}
		end = min(end+n, rows)
		ends = append(ends, end)
	}
	return ends
}

// count counts the rows of every expert, if an output or the padding needs it.
func (r *routing) count(expert []int64) ([]int64, error) {
	if !r.padded && r.counts == nil && (!r.Has("quantMode") || r.experts == 0) {
		return nil, nil
	}
	counts := make([]int64, r.experts)
	for i, e := range expert {
		if e < 0 || e >= r.experts {
			return nil, fmt.Errorf("expertIdx %d at position %d is out of range for %d experts", e, i, r.experts)
		}
		counts[e]++
	}
	return counts, nil
}

// initRoutingGrad adds the gradients of the copies of every row.
func initRoutingGrad(c *Call) (Run, error) {
	grad, places, out := c.Tensor("gradExpandedX"), c.Tensor("expandedRowIdx"), c.Tensor("out")
	k, mode, active := c.Int("topK"), c.Int("dropPadMode"), c.Int("activeNum")
	c.DType(grad, transformerTypes...)
	c.SameDType(grad, out)
	c.DType(places, dtype.Int32)
	c.matrix(out)
	rank := 2
	if mode == 1 {
		rank = 3
	}
	switch {
	case mode != 0 && mode != 1:
		c.Unfit("dropPadMode is %d; use 0 or 1", mode)
	case k <= 0:
		c.Unfit("topK is %d; it must be above 0", k)
	case active < 0:
		c.Unfit("activeNum is %d; it must not be negative", active)
	case grad.Rank() != rank:
		c.Unfit("%v must have %d dimensions with dropPadMode %d", grad, rank, mode)
	case places.Rank() != 1 || places.Len()%k != 0:
		c.Unfit("%v must be a vector of %d places for each row", places, k)
	case mode == 0 && active == 0 && grad.Shape[0] != places.Len():
		c.Unfit("%v must have a row for each of %v", grad, places)
	case mode == 0 && active > 0 && grad.Shape[0] != active:
		c.Unfit("%v must have activeNum (%d) rows", grad, active)
	}
	if c.Err() == nil {
		c.fits(out, []int64{places.Len() / k, grad.Dim(-1)}, "a row for each topK places")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		return combineRows(out.View(), grad.View(), places, 0, k, nil)
	}, nil
}

// combineRows sets every row of out to the sum of choices rows of x, times scale unless it
// is nil. The first row of x has the place first; places outside of x are left out.
func combineRows(out, x kernel.View, places *Tensor, first, choices int64, scale *Tensor) error {
	if out.Len() == 0 {
		return nil
	}
	index, err := kernel.Indices(places.View())
	if err != nil {
		return err
	}
	rows := x.Len() / x.Shape[len(x.Shape)-1]
	c := kernel.Combination{X: x, Choices: choices, Index: within(index, first, rows)}
	if scale != nil {
		if c.Scale, err = kernel.Floats(scale.View()); err != nil {
			return err
		}
	}
	return c.Into(out)
}

// within counts places from the first of n on, with -1 for those outside.
func within(places []int64, first, n int64) []int64 {
	for i, k := range places {
		places[i] = k - first
		if k < first || k >= first+n {
			places[i] = -1
		}
	}
	return places
}
