package moe

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/op"
)

// rows returns the number of rows along the last dimension.
func rows(t *op.Tensor) int64 { return t.Len() / max(t.Dim(-1), 1) }

// initRouting sorts the rows of x, repeated once per expert, by expert. Each element of rowIdx,
// modulo the number of rows, is the row that the element of expertIdx at the same position
// refers to.
func initRouting(c *op.Call) (op.Run, error) {
	x, rowIdx, expertIdx, active := c.Tensor("x"), c.Tensor("rowIdx"), c.Tensor("expertIdx"), c.Int("activeNum")
	out, places, sorted := c.Tensor("expandedXOut"), c.Tensor("expandedRowIdxOut"), c.Tensor("expandedExpertIdxOut")
	c.DType(x, op.FloatTypes...)
	give := newRowWriter(c, x, out)
	for _, t := range []*op.Tensor{rowIdx, expertIdx, places, sorted} {
		c.DType(t, dtype.Int32)
	}
	c.Matrix(x, rowIdx, expertIdx)
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
	c.Fits(rowIdx, expertIdx.Shape, "as expertIdx")
	c.Fits(out, []int64{min(n, active) * k, x.Shape[1]}, "min(rows, activeNum) times the experts of a row")
	c.Fits(places, []int64{n * k}, "one place for each element of expertIdx")
	c.Fits(sorted, []int64{n * k}, "one expert for each element of expertIdx")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if n*k == 0 {
			return nil
		}
		expert, err := elementwise.Indices(expertIdx.View())
		if err != nil {
			return err
		}
		row, err := elementwise.Indices(rowIdx.View())
		if err != nil {
			return err
		}
		byKey := order.Stable(expert)
		at, byExpert, from := make([]int64, n*k), make([]int64, n*k), make([]int64, n*k)
		for i, o := range byKey {
			if row[o] < 0 || row[o] >= n*k {
				return fmt.Errorf("rowIdx %d at position %d is out of range for %d", row[o], o, n*k)
			}
			at[row[o]], byExpert[i], from[i] = int64(i), expert[o], row[o]%n
		}
		if err := indexing.SetInts(places.View(), at); err != nil {
			return err
		}
		if err := indexing.SetInts(sorted.View(), byExpert); err != nil {
			return err
		}
		return give(from[:out.Shape[0]], nil)
	}, nil
}

// routing is a call of MoeInitRoutingV2.
type routing struct {
	*op.Call
	rows, choices, active, capacity, experts int64
	padded                                   bool // every expert has capacity rows
	counting                                 int64
	x, expertIdx, out, places                *op.Tensor
	counts, before                           *op.Tensor // nil unless requested
	give                                     rowWriter
}

// Values of expertTokensCountOrCumsumFlag.
const (
	countNothing = iota
	countRunning
	countEach
)

func initRoutingV2(c *op.Call) (op.Run, error) {
	r := &routing{
		Call: c, x: c.Tensor("x"), expertIdx: c.Tensor("expertIdx"), out: c.Tensor("expandedXOut"), places: c.Tensor("expandedRowIdxOut"),
		active: c.Int(c.Either("activeNumOptional", "activeNum")), capacity: c.Int(c.Either("expertCapacityOptional", "expertCapacity")),
		experts: c.Int(c.Either("expertNumOptional", "expertNum")), counting: c.Int(c.Either("expertTokensCountOrCumsumFlagOptional", "expertTokensCountOrCumsumFlag")),
	}
	c.DType(r.x, op.FloatTypes...)
	r.give = newRowWriter(c, r.x, r.out)
	c.DType(r.expertIdx, dtype.Int32)
	c.DType(r.places, dtype.Int32)
	c.Matrix(r.x, r.expertIdx)
	r.checkAttributes()
	if c.Err() == nil {
		r.checkShapes()
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return r.run() }, nil
}

func (r *routing) checkAttributes() {
	switch mode := r.Int(r.Either("dropPadModeOptional", "dropPadMode")); mode {
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
	if r.padded && r.Bool(r.Either("expertTokensBeforeCapacityFlagOptional", "expertTokensBeforeCapacityFlag")) {
		r.before = r.Optional("expertTokensBeforeCapacityOutOptional")
		r.wanted(r.before, "expertTokensBeforeCapacityOutOptional")
	}
}

// wanted checks an output with one number per expert that is written only if requested.
func (r *routing) wanted(t *op.Tensor, name string) {
	if t == nil {
		r.Fail(op.NullPointer, "%s is null; a flag asks for it", name)
		return
	}
	r.DType(t, dtype.Int32)
	r.Fits(t, []int64{r.experts}, "one number for each expert")
}

func (r *routing) checkShapes() {
	r.rows, r.choices = r.expertIdx.Shape[0], r.expertIdx.Shape[1]
	if r.x.Shape[0] != r.rows {
		r.Unfit("%v and %v must have the same number of rows", r.x, r.expertIdx)
	}
	total, width := r.rows*r.choices, r.x.Shape[1]
	r.Fits(r.places, []int64{total}, "one place for each element of expertIdx")
	switch {
	case r.padded:
		if r.capacity > r.rows {
			r.Unfit("expertCapacity %d is more than the %d rows of %v", r.capacity, r.rows, r.x)
		}
		r.Fits(r.out, []int64{r.experts, r.capacity, width}, "expertCapacity rows for each expert")
	case r.active > 0:
		r.Fits(r.out, []int64{min(r.active, total), width}, "activeNum rows")
	default:
		r.Fits(r.out, []int64{total, width}, "a row for each element of expertIdx")
	}
}

func (r *routing) run() error {
	expert, err := elementwise.Indices(r.expertIdx.View())
	if err != nil {
		return err
	}
	counts, err := r.count(expert)
	if err != nil {
		return err
	}
	for _, o := range []struct {
		out    *op.Tensor
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
		if err := indexing.SetInts(o.out.View(), shown); err != nil {
			return err
		}
	}
	if len(expert) == 0 && r.out.Len() == 0 {
		return nil
	}
	at := make([]int64, len(expert)) // row of out for each element of expertIdx
	from := make([]int64, rows(r.out))
	for i := range from {
		from[i] = -1
	}
	next := int64(0)
	last := int64(-1)
	for i, o := range order.Stable(expert) {
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
	if err := indexing.SetInts(r.places.View(), at); err != nil || r.out.Len() == 0 {
		return err
	}
	return r.give(from, r.ends(counts))
}

// ends returns the end of the rows of every expert, or nil if they were not counted.
func (r *routing) ends(counts []int64) []int64 {
	var ends []int64
	end, rows := int64(0), rows(r.out)
	for _, n := range counts {
		if r.padded {
			n = r.capacity
		}
		end = min(end+n, rows)
		ends = append(ends, end)
	}
	return ends
}

// count counts the rows of every expert if an output or the padding needs the counts.
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

// initRoutingGrad sums the gradients of the copies of each row.
func initRoutingGrad(c *op.Call) (op.Run, error) {
	grad, places, out := c.Tensor("gradExpandedX"), c.Tensor("expandedRowIdx"), c.Tensor("out")
	k, mode, active := c.Int("topK"), c.Int("dropPadMode"), c.Int("activeNum")
	c.DType(grad, op.FloatTypes...)
	c.SameDType(grad, out)
	c.DType(places, dtype.Int32)
	c.Matrix(out)
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
		c.Fits(out, []int64{places.Len() / k, grad.Dim(-1)}, "a row for each topK places")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return combineRows(out.View(), grad.View(), places, 0, k, nil)
	}, nil
}

// combineRows sets every row of out to the sum of choices rows of x, multiplied by scale unless
// it is nil. Place first refers to the first row of x; places outside x are skipped.
func combineRows(out, x kernel.View, places *op.Tensor, first, choices int64, scale *op.Tensor) error {
	if out.Len() == 0 {
		return nil
	}
	index, err := elementwise.Indices(places.View())
	if err != nil {
		return err
	}
	rows := x.Len() / x.Shape[len(x.Shape)-1]
	c := indexing.Combination{X: x, Choices: choices, Index: within(index, first, rows)}
	if scale != nil {
		if c.Scale, err = elementwise.Floats(scale.View()); err != nil {
			return err
		}
	}
	return c.Into(out)
}

// within makes places relative to first, and sets those outside the n places from there to -1.
func within(places []int64, first, n int64) []int64 {
	for i, k := range places {
		places[i] = k - first
		if k < first || k >= first+n {
			places[i] = -1
		}
	}
	return places
}
