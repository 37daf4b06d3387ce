package moe

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
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
	own                                  ownExperts
}

// span is a range of experts, from its first to before its end.
type span struct{ first, end int64 }

func (s span) has(expert int64) bool { return expert >= s.first && expert < s.end }

// ownExperts are experts that a rank computes by itself: they return nothing, the token, or the token mixed with a
// vector: scaleToken · token + scaleVector · vector.
type ownExperts struct {
	zero, copied, constant          span
	token                           *op.Tensor // [rows, width]
	scaleToken, scaleVector, vector *op.Tensor // [constant experts, width]
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
		addends: []*op.Tensor{c.Optional("x1Optional"), c.Optional("x2Optional")}, choices: 1,
	}
	if c.Has("k") {
		if f.choices = c.Int("k"); f.choices < 1 && f.scales == nil {
			c.Unfit("k is %d; without scalesOptional it is the number of choices of a token, above 0", f.choices)
		}
	}
	if c.Has("zeroExpertRange") {
		f.readOwn()
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

// readOwn reads the experts without rows in x. Only the kernel of the Ascend950 gets them: on other chips CANN takes the
// arguments and computes as if they were not there, which is refused here.
func (f *finalizing) readOwn() {
	o := &f.own
	o.token, o.scaleToken, o.scaleVector, o.vector = f.Optional("xOptional"), f.Optional("a1Optional"), f.Optional("a2Optional"), f.Optional("vOptional")
	for _, r := range []struct {
		name string
		into *span
	}{{"zeroExpertRange", &o.zero}, {"copyExpertRange", &o.copied}, {"constantExpertRange", &o.constant}} {
		limits := f.Ints(r.name)
		if len(limits) != 0 && len(limits) != 2 {
			f.Unfit("%s holds %v; it has the first expert and the end", r.name, limits)
		} else if len(limits) == 2 && (limits[0] != -1 || limits[1] != -1) {
			if *r.into = (span{limits[0], limits[1]}); limits[0] < 0 || limits[0] >= limits[1] {
				f.Unfit("%s holds %v; the first expert must be from 0 on and before the end", r.name, limits)
			}
		}
	}
	any := false
	for i, s := range []span{o.zero, o.copied, o.constant} {
		any = any || s.end > 0
		for _, t := range []span{o.zero, o.copied, o.constant}[:i] {
			if s.first < t.end && t.first < s.end {
				f.Unfit("zeroExpertRange %v, copyExpertRange %v and constantExpertRange %v overlap", o.zero, o.copied, o.constant)
			}
		}
	}
	for _, t := range []*op.Tensor{o.token, o.scaleToken, o.scaleVector, o.vector} {
		any = any || t != nil
	}
	switch {
	case any && f.Chip() != acceptance.Ascend950:
		f.Unfit("zeroExpertRange, copyExpertRange or constantExpertRange, or a tensor for them, is given; only the kernel of the Ascend950 knows such experts, other chips ignore them")
	case any && f.expert == nil:
		f.Unfit("zeroExpertRange, copyExpertRange or constantExpertRange is given without expertIdxOptional")
	case (o.copied.end > 0 || o.constant.end > 0) && o.token == nil:
		f.Unfit("xOptional is null; the experts of copyExpertRange and constantExpertRange need it")
	case o.constant.end > 0 && (o.scaleToken == nil || o.scaleVector == nil || o.vector == nil):
		f.Unfit("a1Optional, a2Optional or vOptional is null; the experts of constantExpertRange need them")
	}
}

// checkOwn checks the tensors of the experts without rows in x.
func (f *finalizing) checkOwn() {
	width, o, experts := f.x.Dim(-1), f.own, int64(0)
	switch {
	case f.padded:
		experts = f.x.Dim(0)
	case f.bias != nil:
		experts = f.bias.Dim(0)
	}
	if last := max(o.zero.end, o.copied.end, o.constant.end); experts > 0 && last > experts {
		f.Unfit("a range of experts ends at %d; there are %d", last, experts)
	}
	for _, t := range []*op.Tensor{o.token, o.scaleToken, o.scaleVector, o.vector} {
		if t == nil {
			continue
		}
		f.Plain(t)
		f.SameDType(f.x, t)
		if t == o.token {
			f.Fits(t, []int64{f.rows, width}, "a row for each of out")
		} else {
			f.Fits(t, []int64{o.constant.end - o.constant.first, width}, "a row for each expert of constantExpertRange")
		}
	}
}

// withOwn replaces the terms of the experts without rows in x: it returns a copy of x with their rows at the end.
func (f *finalizing) withOwn(c *indexing.Combination) (release func(), err error) {
	expert, err := elementwise.Indices(f.expert.View())
	if err != nil {
		return func() {}, err
	}
	width, n := f.x.Dim(-1), rows(f.x)
	var of []int // choices of copies and constants
	for i, e := range expert {
		switch {
		case f.own.zero.has(e):
			c.Index[i] = -1
		case f.own.copied.has(e), f.own.constant.has(e):
			c.Index[i], of = n+int64(len(of)), append(of, i)
		}
	}
	all, release := kernel.Temporary(n+int64(len(of)), width)
	if n > 0 {
		if err := elementwise.Copy(all.Narrow(0, 0, n).Reshaped(f.x.Shape...), f.x.View()); err != nil {
			return release, err
		}
	}
	for i, at := range of {
		row, token := all.Select(0, n+int64(i)), f.own.token.View().Select(0, int64(at)/f.choices)
		if err := elementwise.Copy(row, token); err != nil {
			return release, err
		}
		if e := expert[at]; f.own.constant.has(e) {
			k := e - f.own.constant.first
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, row, []elementwise.Input{elementwise.Of(row), elementwise.Of(f.own.scaleToken.View().Select(0, k))}); err != nil {
				return release, err
			}
			terms := []elementwise.Input{elementwise.Of(row), elementwise.Of(f.own.scaleVector.View().Select(0, k)), elementwise.Of(f.own.vector.View().Select(0, k))}
			if err := elementwise.Map(elementwise.Addcmul, dtype.Float32, row, terms, elementwise.Real(1)); err != nil {
				return release, err
			}
		}
	}
	c.X = all
	return release, nil
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
	f.rows, f.choices = f.out.Shape[0], max(f.choices, 1)
	if f.scales != nil {
		if given := f.choices; given > 1 && given != f.scales.Shape[1] {
			f.Unfit("k is %d, and %v has scales for %d choices of a token", given, f.scales, f.scales.Shape[1])
		}
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
	if f.Err() == nil {
		f.checkOwn()
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
	if f.own.zero.end > 0 || f.own.copied.end > 0 || f.own.constant.end > 0 {
		release, err := f.withOwn(&c)
		defer release()
		if err != nil {
			return err
		}
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
