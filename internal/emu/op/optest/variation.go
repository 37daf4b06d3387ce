package optest

import (
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// variation replaces an element type by another one in some arguments of a call.
type variation struct {
	from, to dtype.Type
	params   []int // parameters that change; tensors change where they have the type from
	attrs    bool  // whether integers that name the type from change too
	scalars  bool  // whether scalars change too
	long     bool  // whether scalars are int64 beside integers, as programs make them
}

// variations returns the variations of a call: other types for one tensor alone, and for all tensors
// of one type with and without the scalars.
func variations(call recorded) []variation {
	var all []variation
	groups := make(map[dtype.Type][]int)
	var order []dtype.Type
	for i := range call.op.Params {
		for _, from := range typesOf(call.tensors(i)) {
			if groups[from] == nil {
				order = append(order, from)
			}
			groups[from] = append(groups[from], i)
			for _, to := range surveyed {
				all = append(all, variation{from: from, to: to, params: []int{i}})
			}
		}
	}
	scalars := slices.ContainsFunc(call.op.Params, func(p op.Param) bool { return p.Class == op.ScalarClass })
	for _, from := range order {
		for _, to := range surveyed {
			v := variation{from: from, to: to, params: groups[from], attrs: true}
			all = append(all, v)
			v.scalars = true
			all = append(all, v)
			if _, _, whole := limits(to); whole && scalars {
				v.long = true
				all = append(all, v)
			}
		}
	}
	return all
}

// typesOf returns the element types of tensors.
func typesOf(tensors []*descriptor) (types []dtype.Type) {
	for _, d := range tensors {
		if !slices.Contains(types, d.DType) {
			types = append(types, d.DType)
		}
	}
	return types
}

// of returns the varied call with tensors of type stored. Their values are such that the type of the
// variation can represent them.
func (v variation) of(call recorded, stored dtype.Type) recorded {
	return call.with(func(args []any) []any { return v.arguments(call.op, args, stored) })
}

func (v variation) arguments(o *op.Operator, args []any, stored dtype.Type) []any {
	tensor := func(d *descriptor) *descriptor { return v.tensor(d, stored) }
	scalar := func(s *op.Scalar) *op.Scalar { return v.scalar(s, stored) }
	varied := slices.Clone(args)
	for i, p := range o.Params {
		switch x := args[i].(type) {
		case *descriptor:
			if slices.Contains(v.params, i) {
				varied[i] = tensor(x)
			}
		case []*descriptor:
			if slices.Contains(v.params, i) {
				varied[i] = each(x, tensor)
			}
		case *op.Scalar:
			varied[i] = scalar(x)
		case []*op.Scalar:
			varied[i] = each(x, scalar)
		case int64:
			if v.attrs && p.Class == op.IntClass && namesType(p.Name) && x == int64(v.from) {
				varied[i] = int64(stored)
			}
		}
	}
	return varied
}

// each applies a function to the members of a list.
func each[T any](list []T, f func(T) T) []T {
	changed := make([]T, len(list))
	for k, x := range list {
		changed[k] = f(x)
	}
	return changed
}

func (v variation) tensor(d *descriptor, stored dtype.Type) *descriptor {
	if d.DType != v.from {
		return d
	}
	c := *d
	c.DType, c.Values = stored, fit(d.Values, v.from, v.to)
	return &c
}

// scalar returns a scalar with a value that the type of the variation can represent. It keeps its own
// type unless scalars change too and the stored type can represent the value.
func (v variation) scalar(s *op.Scalar, stored dtype.Type) *op.Scalar {
	if !s.HasValue() {
		return s
	}
	x := fit([]float64{s.Float64()}, s.DType, v.to)[0]
	if !v.scalars || rounded(stored, x) != x {
		stored = s.DType
	}
	if _, _, whole := limits(stored); v.long && whole {
		stored = dtype.Int64
	}
	c := &op.Scalar{DType: stored}
	put(stored, unsafe.Pointer(&c.Bits), 0, complex(x, 0))
	return c
}

// namesType reports whether an integer holds an element type: dtype, outDtype, dstType.
func namesType(param string) bool {
	param = strings.ToLower(param)
	return strings.HasSuffix(param, "dtype") || param == "dsttype" || param == "outtype"
}

// fit converts values of one type to values that another one can represent. Fractions become small
// integers for integer types, so that not all of them are zero.
func fit(values []float64, from, to dtype.Type) []float64 {
	fitted := slices.Clone(values)
	low, high, whole := limits(to)
	if _, _, was := limits(from); whole && !was {
		scale := fractionScale(values)
		for i, v := range fitted {
			fitted[i] = math.RoundToEven(min(max(v*scale, -7), 7))
		}
	}
	if whole && high == 1 {
		return truths(fitted)
	}
	for i, v := range fitted {
		switch {
		case whole && low == 0:
			fitted[i] = min(math.Abs(v), high)
		case whole:
			fitted[i] = min(max(v, low), high)
		default:
			fitted[i] = rounded(to, v)
		}
	}
	return fitted
}

// fractionScale returns 4 for values of which some are fractions and none is large, and 1 for others.
func fractionScale(values []float64) float64 {
	scale := 1.0
	for _, v := range values {
		if math.Abs(v) > 2 {
			return 1
		}
		if v != math.Trunc(v) {
			scale = 4
		}
	}
	return scale
}

// truths returns 0 and 1 for values: those other than zero are 1, or the larger ones if none is zero.
func truths(values []float64) []float64 {
	threshold := 0.0
	if len(values) > 1 && !slices.Contains(values, 0) {
		for _, v := range values {
			threshold += math.Abs(v) / float64(len(values))
		}
	}
	for i, v := range values {
		if values[i] = 0; v != 0 && math.Abs(v) >= threshold {
			values[i] = 1
		}
	}
	return values
}
