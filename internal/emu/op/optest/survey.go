package optest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// surveyed lists the element types that operators are asked about, in the order of the table.
var surveyed = []dtype.Type{
	dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64,
	dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64,
	dtype.Bool, dtype.Complex32, dtype.Complex64, dtype.Complex128, dtype.Int4, dtype.Uint1,
	dtype.HiFloat8, dtype.Float8E5M2, dtype.Float8E4M3, dtype.Float8E8M0,
	dtype.Float6E3M2, dtype.Float6E2M3, dtype.Float4E2M1, dtype.Float4E1M2,
}

// Survey finds the element types with which an operator computes the values that it computes in float32.
type Survey struct {
	op       *op.Operator
	computed map[int]map[dtype.Type]bool // by parameter
	wrong    map[string]string           // what phase one accepts and phase two does not do, by what varied
}

// NewSurvey returns a survey of one operator.
func NewSurvey(op *op.Operator) *Survey {
	return &Survey{op: op, computed: make(map[int]map[dtype.Type]bool), wrong: make(map[string]string)}
}

// Add runs a recorded call and its variations. It reports whether that found new types. The
// error means that the call itself does not run.
func (s *Survey) Add(call AcceptedCall) (bool, error) {
	of, err := call.of(s.op)
	if err != nil {
		return false, err
	}
	before := s.size()
	base, err := of.play(start{})
	if err != nil {
		return false, fmt.Errorf("the recorded call of aclnn%s does not run: %w; record it anew", s.op.Name, err)
	}
	matters := make(map[int]access)
	for i := range s.op.Params {
		if matters[i] = s.matters(of, i, base); matters[i] != (access{}) {
			s.note(i, typesOf(of.tensors(i)))
		}
	}
	for _, v := range variations(of) {
		s.try(of, v, matters)
	}
	return s.size() > before, nil
}

// knows reports whether the survey has all types of a call already.
func (s *Survey) knows(call AcceptedCall) bool {
	of, err := call.of(s.op)
	if err != nil {
		return false
	}
	for i := range s.op.Params {
		for _, d := range typesOf(of.tensors(i)) {
			if !s.computed[i][d] {
				return false
			}
		}
	}
	return true
}

func (s *Survey) note(param int, types []dtype.Type) {
	for _, d := range types {
		if s.computed[param] == nil {
			s.computed[param] = make(map[dtype.Type]bool)
		}
		s.computed[param][d] = true
	}
}

// access describes how an operator uses a tensor. The types of one that it leaves alone mean nothing.
type access struct{ reads, writes bool }

// matters reports whether the operator reads a tensor, and whether it writes it.
func (s *Survey) matters(call recorded, i int, base outputs) (a access) {
	tensors := call.tensors(i)
	use := s.op.Params[i].Use
	switch {
	case len(tensors) == 0:
		return a
	case use == op.Written:
		filled, err := call.play(start{fill: 0xff})
		return access{writes: err != nil || anyAgrees(base[i], filled[i])}
	case use == op.Updated:
		a.writes = !agree(base[i], stored(tensors))
	}
	for _, change := range []func(float64) float64{
		func(float64) float64 { return 0 }, func(float64) float64 { return 1 },
		func(v float64) float64 { return v + 1 }, func(v float64) float64 { return -v - 1 },
	} {
		changed := call.with(func(args []any) []any { return changedBy(change, args, i) })
		other, err := changed.play(start{})
		if err != nil {
			a.reads = true
			continue
		}
		if use == op.Updated && !agree(other[i], stored(changed.tensors(i))) {
			a.writes = true
		}
		for k := range base {
			a.reads = a.reads || !agree(base[k], other[k])
		}
	}
	return a
}

// changedBy returns the arguments with other values in the tensors of one parameter.
func changedBy(change func(float64) float64, args []any, i int) []any {
	tensor := func(d *descriptor) *descriptor {
		c := *d
		c.Values = make([]float64, len(d.Values))
		for j, v := range d.Values {
			c.Values[j] = change(v)
		}
		return &c
	}
	args = slices.Clone(args)
	switch x := args[i].(type) {
	case *descriptor:
		args[i] = tensor(x)
	case []*descriptor:
		args[i] = each(x, tensor)
	}
	return args
}

// try runs one variation and compares it with the same call in a reference type.
func (s *Survey) try(call recorded, v variation, matters map[int]access) {
	var params []int
	reads := false
	for _, i := range v.params {
		if matters[i] != (access{}) {
			params = append(params, i)
			reads = reads || matters[i].reads
		}
	}
	if len(params) == 0 || v.from == v.to {
		return
	}
	varied := v.of(call, v.to)
	got, err := varied.play(start{})
	if errors.As(err, new(refusal)) {
		return
	}
	if err == nil {
		err = s.compare(call, v, varied, got)
	}
	if err == nil && v.to.IsComplex() && reads {
		err = s.imaginary(varied, got)
	}
	if errors.Is(err, errNoReference) {
		return
	}
	if err != nil {
		s.complain(params, v, err)
		return
	}
	for _, i := range params {
		s.note(i, []dtype.Type{v.to})
	}
}

// errNoReference means that a variation has no other type to compare with.
var errNoReference = errors.New("no reference")

// compare compares the outputs of a variation with those of the reference: the same values in
// float32, or in float64 for float32, or in the type of the recorded call.
func (s *Survey) compare(call recorded, v variation, varied recorded, got outputs) error {
	first := dtype.Float32
	if v.to == dtype.Float32 {
		first = dtype.Float64
	}
	for _, d := range []dtype.Type{first, v.from} {
		reference := v.of(call, d)
		want, err := reference.play(start{})
		if err != nil {
			continue
		}
		c := comparison{to: v.to, limit: tolerance * max(coarsest(varied), coarsest(reference))}
		for _, i := range slices.Sorted(maps.Keys(want)) {
			for k, t := range varied.tensors(i) {
				c.got, c.want = t.DType, reference.tensors(i)[k].DType
				if err := c.check(got[i][k], want[i][k]); err != nil {
					return fmt.Errorf("%s differs from %v: %w", s.op.Params[i].Name, d, err)
				}
			}
		}
		return nil
	}
	return errNoReference
}

// imaginary verifies that the imaginary parts of a call's complex tensors matter.
func (s *Survey) imaginary(varied recorded, got outputs) error {
	other, err := varied.play(start{imaginary: true})
	if err != nil {
		return fmt.Errorf("with imaginary parts: %w", err)
	}
	for i := range got {
		if !agree(got[i], other[i]) {
			return nil
		}
	}
	return errors.New("imaginary parts do not matter")
}

// complain notes that phase one accepts a variation with which phase two does not do the same.
func (s *Survey) complain(params []int, v variation, err error) {
	var names []string
	for _, i := range params {
		names = append(names, s.op.Params[i].Name)
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	s.wrong[fmt.Sprintf("%s as %v (recorded as %v)", strings.Join(names, ", "), v.to, v.from)] = text
}

// Wrong lists what phase one accepts and phase two does not do right.
func (s *Survey) Wrong() (all []string) {
	for _, what := range slices.Sorted(maps.Keys(s.wrong)) {
		all = append(all, fmt.Sprintf("aclnn%s accepts %s: %s", s.op.Name, what, s.wrong[what]))
	}
	return all
}

func (s *Survey) size() int {
	n := 0
	for _, types := range s.computed {
		n += len(types)
	}
	return n
}

// String lists the types by tensor; tensors that take the same ones stand together.
func (s *Survey) String() string {
	var order []string
	tensors := map[string][]string{}
	for i, p := range s.op.Params {
		var names []string
		for _, d := range surveyed {
			if s.computed[i][d] {
				names = append(names, d.String())
			}
		}
		if names == nil {
			continue
		}
		types := strings.Join(names, " ")
		if tensors[types] == nil {
			order = append(order, types)
		}
		tensors[types] = append(tensors[types], p.Name)
	}
	for i, types := range order {
		order[i] = strings.Join(tensors[types], ",") + " " + types
	}
	return strings.Join(order, "; ")
}
