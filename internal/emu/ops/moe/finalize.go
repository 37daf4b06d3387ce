package moe

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// finalizing is a call that merges the experts' rows: out[i] = x1[i] + x2[i] + the sum over k of
// scales[i, k] · (x[place of (i, k)] + bias[expert of (i, k)]).
type finalizing struct {
	*op.Call
	x, places, scales, bias, expert, out *op.Tensor
	addends                              []*op.Tensor
	byColumns                            bool // places are sorted by choice, then by row
	padded                               bool // x is [experts, capacity, width]
	rows, choices                        int64
	first                                int64 // the place of the first row of x
}

func finalizeRouting(c *op.Call) (op.Run, error) {
	f := &finalizing{
		Call: c, x: c.Tensor("expandedX"), places: c.Tensor("expandedRowIdx"), scales: c.Tensor("scales"), bias: c.Tensor("bias"),
		expert: c.Tensor("expandedExpertIdx"), out: c.Tensor("out"), byColumns: true,
		addends: []*op.Tensor{c.Tensor("x1"), c.Optional("x2Optional")},
	}
	return f.prepare()
}

func finalizeRoutingV2(c *op.Call) (op.Run, error) {
	f := &finalizing{
		Call: c, x: c.Tensor("expandedX"), places: c.Tensor("expandedRowIdx"), scales: c.Optional("scalesOptional"), bias: c.Optional("biasOptional"),
		expert: c.Optional("expertIdxOptional"), out: c.Tensor("out"),
		addends: []*op.Tensor{c.Optional("x1Optional"), c.Optional("x2Optional")},
	}
	mode := c.Int("dropPadMode")
	if mode < 0 || mode > 3 {
		c.Unfit("dropPadMode is %d; 0 and 2 keep every row, 1 and 3 pad to a capacity; 0 and 1 order places by columns", mode)
	}
	f.byColumns, f.padded = mode < 2, mode%2 == 1
	if f.addends[0] == nil && f.addends[1] != nil {
		c.Unfit("x2Optional is given without x1Optional")
	}
	return f.prepare()
}

func (f *finalizing) prepare() (op.Run, error) {
	f.DType(f.x, op.FloatTypes...)
	f.SameDType(f.x, f.out)
	f.DType(f.places, dtype.Int32)
	f.Matrix(f.out)
	if f.scales != nil {
		f.DType(f.scales, op.FloatTypes...)
		f.Matrix(f.scales)
	}
	if f.bias != nil {
		f.SameDType(f.x, f.bias)
		f.Matrix(f.bias)
		if f.expert == nil {
			f.Unfit("biasOptional is given without expertIdxOptional, which selects the expert of each row")
		}
	}
	rank := 2
	if f.padded {
		rank = 3
	}
	if f.x.Rank() != rank {
		f.Unfit("%v must have %d dimensions", f.x, rank)
	}
	if f.Err() == nil {
		f.checkShapes()
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return f.run() }, nil
}

func (f *finalizing) checkShapes() {
	f.rows, f.choices = f.out.Shape[0], 1
	if f.scales != nil {
		f.choices = f.scales.Shape[1]
		f.Fits(f.scales, []int64{f.rows, f.choices}, "a row for each of out")
	}
	width := f.x.Dim(-1)
	f.Fits(f.out, []int64{f.rows, width}, "rows of expandedX")
	if f.places.Len() != f.rows*f.choices {
		f.Unfit("%v must have one place for each of %d choices of %d rows", f.places, f.choices, f.rows)
	}
	if !f.padded && f.x.Shape[0] > f.rows*f.choices {
		f.Unfit("%v has more than %d choices of %d rows", f.x, f.choices, f.rows)
	}
	if f.bias != nil {
		f.Fits(f.bias, []int64{f.bias.Shape[0], width}, "a row of expandedX for each expert")
	}
	if f.expert != nil {
		f.DType(f.expert, dtype.Int32)
		f.Fits(f.expert, []int64{f.rows, f.choices}, "an expert for each choice")
	}
	for _, t := range f.addends {
		if t != nil {
			f.SameDType(f.x, t)
			f.Fits(t, f.out.Shape, "as out")
		}
	}
}

func (f *finalizing) run() error {
	if f.out.Len() == 0 {
		return nil
	}
	places, err := elementwise.Indices(f.places.View())
	if err != nil {
		return err
	}
	if f.byColumns {
		places = transposed(places, f.rows)
	}
	c := indexing.Combination{X: f.x.View(), Choices: f.choices, Index: within(places, f.first, rows(f.x))}
	if err := f.terms(&c); err != nil {
		return err
	}
	for _, t := range f.addends {
		if t != nil {
			c.Addends = append(c.Addends, t.View())
		}
	}
	return c.Into(f.out.View())
}

// terms reads the scales and the bias of the terms.
func (f *finalizing) terms(c *indexing.Combination) (err error) {
	if f.scales != nil {
		if c.Scale, err = elementwise.Floats(f.scales.View()); err != nil {
			return err
		}
	}
	if f.bias != nil {
		c.Bias = f.bias.View()
		c.Group, err = elementwise.Indices(f.expert.View())
	}
	return err
}

// transposed reorders a list sorted by columns to one sorted by rows.
func transposed(x []int64, rows int64) []int64 {
	out := make([]int64, len(x))
	columns := int64(len(x)) / max(rows, 1)
	for i := range out {
		row, column := int64(i)/max(columns, 1), int64(i)%max(columns, 1)
		out[i] = x[column*rows+row]
	}
	return out
}

// finalizeRoutingGrad is the gradient of MoeFinalizeRoutingV2 with places ordered by rows.
func finalizeRoutingGrad(c *op.Call) (op.Run, error) {
	f := &finalizing{
		Call: c, x: c.Optional("expandedXOptional"), places: c.Tensor("expandedRowIdx"), scales: c.Optional("scalesOptional"),
		bias: c.Optional("biasOptional"), expert: c.Optional("expertIdxOptional"), out: c.Tensor("gradY"),
	}
	gradX, gradScales := c.Tensor("gradExpandedXOut"), c.Optional("gradScalesOut")
	mode, active := c.Int("dropPadMode"), c.Int("activeNum")
	f.padded = mode == 1
	if mode != 0 && mode != 1 {
		c.Unfit("dropPadMode is %d; use 0 or 1", mode)
	}
	if f.scales == nil {
		f.x, f.bias, f.expert = gradX, nil, nil // without scales only the shape is used
	} else if f.x == nil {
		c.Fail(op.NullPointer, "expandedXOptional is null; the gradient of scales needs it")
	} else if gradScales == nil {
		c.Fail(op.NullPointer, "gradScalesOut is null")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.SameDType(f.x, gradX)
	if _, err := f.prepare(); err != nil {
		return nil, err
	}
	c.Fits(gradX, f.x.Shape, "as expandedX")
	total := f.rows * f.choices
	switch {
	case f.padded:
		c.Fits(gradX, []int64{c.Int("expertNum"), c.Int("expertCapacity"), f.out.Shape[1]}, "expertCapacity rows for each of expertNum experts")
	case active > 0 && active < total:
		c.Fits(gradX, []int64{active, f.out.Shape[1]}, "activeNum rows")
	default:
		c.Fits(gradX, []int64{total, f.out.Shape[1]}, "a row for each choice of a row")
	}
	if f.scales != nil {
		c.SameDType(f.scales, gradScales)
		c.Fits(gradScales, f.scales.Shape, "as scales")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return f.gradients(gradX, gradScales) }, nil
}

// gradients scatters every row of the gradient (out) to the rows of x that its terms used.
func (f *finalizing) gradients(gradX, gradScales *op.Tensor) error {
	places, err := elementwise.Indices(f.places.View())
	if err != nil {
		return err
	}
	places = within(places, f.first, rows(gradX))
	terms := indexing.Combination{X: f.x.View(), Choices: f.choices, Index: places}
	if err := f.terms(&terms); err != nil {
		return err
	}
	if gradX.Len() > 0 {
		from, scale := make([]int64, rows(gradX)), []float32(nil)
		for i := range from {
			from[i] = -1
		}
		if terms.Scale != nil {
			scale = make([]float32, len(from))
		}
		for i, k := range places {
			if k < 0 {
				continue
			}
			if from[k] >= 0 {
				return fmt.Errorf("place %d is named twice, the second time at position %d", k, i)
			}
			from[k] = int64(i) / f.choices
			if scale != nil {
				scale[k] = terms.Scale[i]
			}
		}
		back := indexing.Combination{X: f.out.View(), Choices: 1, Index: from, Scale: scale}
		if err := back.Into(gradX.View()); err != nil {
			return err
		}
	}
	if f.scales == nil || gradScales.Len() == 0 {
		return nil
	}
	return terms.ScaleGrad(gradScales.View(), f.out.View())
}

// expertTokens counts, for every expert, its rows plus those of all experts before it.
func expertTokens(c *op.Call) (op.Run, error) {
	sorted, n, out := c.Tensor("sortedExperts"), c.Int("numExperts"), c.Tensor("out")
	c.DType(sorted, dtype.Int32)
	c.DType(out, dtype.Int32)
	if n <= 0 || n > 2048 {
		c.Invalid("numExperts is %d; it must be 1 to 2048", n)
	}
	c.Rank(sorted, 1, 1)
	c.Shape(out, []int64{n}, "a number for each expert")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		expert, err := elementwise.Indices(sorted.View())
		if err != nil {
			return err
		}
		counts := make([]int64, n)
		for e := range counts {
			n, _ := slices.BinarySearch(expert, int64(e)+1)
			counts[e] = int64(n)
		}
		return indexing.SetInts(out.View(), counts)
	}, nil
}
