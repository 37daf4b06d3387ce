package optest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// surveyed are the element types that operators are asked about, in the order of the table.
var surveyed = []dtype.Type{
	dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64,
	dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64,
	dtype.Bool, dtype.Complex32, dtype.Complex64, dtype.Complex128, dtype.Int4, dtype.Uint1,
	dtype.HiFloat8, dtype.Float8E5M2, dtype.Float8E4M3, dtype.Float8E8M0,
	dtype.Float6E3M2, dtype.Float6E2M3, dtype.Float4E2M1, dtype.Float4E1M2,
}

// Survey is which element types an operator takes for each of its tensors.
type Survey struct {
	op    *op.Operator
	types map[string]map[dtype.Type]bool
}

// NewSurvey asks about one operator.
func NewSurvey(op *op.Operator) *Survey {
	return &Survey{op: op, types: make(map[string]map[dtype.Type]bool)}
}

// Add asks the operator about variations of a call that it accepts: other types for all
// tensors of one type, with and without the scalars, and for one tensor alone. It reports
// whether that brought anything new.
func (s *Survey) Add(call AcceptedCall) (bool, error) {
	args, err := call.arguments(s.op)
	if err != nil {
		return false, err
	}
	before := s.size()
	if err := s.try(args); err != nil {
		return false, fmt.Errorf("the recorded call of aclnn%s is refused: %w; record anew", s.op.Name, err)
	}
	groups := map[dtype.Type]bool{}
	for i := range args {
		alone := typesOf(args[i])
		for from := range alone {
			groups[from] = true
			for _, to := range surveyed {
				varied := slices.Clone(args)
				varied[i] = retyped(args[i], from, to)
				_ = s.try(varied) // a refusal is an answer
			}
		}
	}
	for from := range groups {
		for _, to := range surveyed {
			tensors, all := slices.Clone(args), slices.Clone(args)
			for i, p := range s.op.Params {
				switch all[i] = retyped(args[i], from, to); {
				case p.Class == op.TensorClass || p.Class == op.TensorListClass:
					tensors[i] = all[i]
				case p.Class == op.IntClass && namesType(p.Name) && args[i] == int64(from):
					all[i], tensors[i] = int64(to), int64(to)
				}
			}
			_ = s.try(tensors)
			_ = s.try(all)
		}
	}
	return s.size() > before, nil
}

// Borrow starts from the calls of operators with the same parameters, as far as this one
// accepts them.
func (s *Survey) Borrow(calls map[string][]AcceptedCall) {
	for name, of := range calls {
		if op := op.Find(name); op == nil || !slices.Equal(op.Params, s.op.Params) {
			continue
		}
		for _, a := range of {
			_, _ = s.Add(a) // a refusal is an answer
		}
	}
}

// namesType tells integers that hold an element type: dtype, outDtype, dstType.
func namesType(param string) bool { return strings.HasSuffix(strings.ToLower(param), "type") }

// typesOf are the element types of a tensor or list, none of other arguments.
func typesOf(arg any) map[dtype.Type]bool {
	types := map[dtype.Type]bool{}
	switch x := arg.(type) {
	case *op.Tensor:
		types[x.DType] = true
	case []*op.Tensor:
		for _, t := range x {
			types[t.DType] = true
		}
	}
	return types
}

// retyped is an argument with its tensors of type from, and its scalars, as type to.
func retyped(arg any, from, to dtype.Type) any {
	tensor := func(t *op.Tensor) *op.Tensor {
		c := *t
		if c.DType == from {
			c.DType = to
		}
		return &c
	}
	switch x := arg.(type) {
	case *op.Tensor:
		return tensor(x)
	case []*op.Tensor:
		list := make([]*op.Tensor, len(x))
		for k, t := range x {
			list[k] = tensor(t)
		}
		return list
	case *op.Scalar:
		return &op.Scalar{DType: to}
	case []*op.Scalar:
		list := make([]*op.Scalar, len(x))
		for k := range list {
			list[k] = &op.Scalar{DType: to}
		}
		return list
	}
	return arg
}

// try asks phase one, and notes the types when it accepts.
func (s *Survey) try(args []any) error {
	e, err := op.NewExecutor(Tested[s.op.Name], op.NewCall(s.op, args, op.Env{Join: alone}))
	if err != nil {
		return err
	}
	if e.Call.LaunchErr() != nil {
		return e.Call.LaunchErr()
	}
	for i, p := range s.op.Params {
		for d := range typesOf(args[i]) {
			if s.types[p.Name] == nil {
				s.types[p.Name] = make(map[dtype.Type]bool)
			}
			s.types[p.Name][d] = true
		}
	}
	return nil
}

func (s *Survey) size() int {
	n := 0
	for _, types := range s.types {
		n += len(types)
	}
	return n
}

// String lists the types by tensor; tensors that take the same ones stand together.
func (s *Survey) String() string {
	var order []string
	tensors := map[string][]string{}
	for _, p := range s.op.Params {
		var names []string
		for _, d := range surveyed {
			if s.types[p.Name][d] {
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
		order[i] = "**" + strings.Join(tensors[types], ", ") + "** " + types
	}
	return strings.Join(order, "; ")
}
