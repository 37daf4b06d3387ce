//go:build emu && linux && cgo && (amd64 || arm64)

package emu

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/emu/nn"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// Run is phase two of a call. It has the workspace that phase one asked for. Its error is a fault of the
// stream that the next wait returns: code 507035, or that of an *Error.
type Run func(workspace []byte) error

// Error is an error with a code of CANN: of aclnn for phase one, of the runtime for a Run.
type Error struct {
	Code acl.Code
	Text string
}

func (e *Error) Error() string { return e.Text }

// Register emulates an operator for the rest of the process, because operators are found by name in the
// libraries of the process, as CANN's are. params is a pointer to the structure that aclnn/bind made for
// its arguments, whose values do not matter. prepare is phase one. It may run on several
// goroutines at a time, so that all it needs should come from the call. Its error refuses the call with
// code 161002, or that of an *Error. Register must come before the first use of the operator, and before
// the first use of any, if a rule of CANN_EMU_FAULTS names it.
//
// The error matches acl.ErrInvalidArgument: of structures that aclnn/bind has not made, of operators that CANN
// has or that are registered already, and of the 65th operator.
func Register(params aclnn.Params, prepare func(c *Call) (Run, error)) error {
	o, err := describe(params)
	if err == nil && prepare == nil {
		err = errors.New("phase one is nil")
	}
	if err == nil {
		err = nn.Register(o, func(c *op.Call) (op.Run, error) { return phases(c, prepare) })
	}
	if err != nil {
		return fmt.Errorf("emu.Register: %w: %w", acl.ErrInvalidArgument, err)
	}
	return nil
}

// describe is the operator of a structure, whose fields are the parameters in C order.
func describe(params aclnn.Params) (*op.Operator, error) {
	v := reflect.ValueOf(params)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%T is no pointer to the arguments of an operator", params)
	}
	fields, known := v.Elem().Type(), params.Operator()
	if known == nil {
		return nil, fmt.Errorf("%T has no operator", params)
	}
	name, ok := strings.CutPrefix(known.Symbol, "aclnn")
	if op.Find(name) != nil {
		return nil, fmt.Errorf("CANN has an operator %s", known.Symbol)
	}
	names := strings.Fields(known.Params)
	if !ok || len(names) != fields.NumField() || len(known.Slots) != len(names) {
		return nil, fmt.Errorf("%T does not fit its operator, %q with parameters %q", params, known.Symbol, known.Params)
	}
	o := &op.Operator{Name: name}
	for i, n := range names {
		class, ok := classOf(fields.Field(i).Type)
		if !ok {
			return nil, fmt.Errorf("%T: no parameter of C is a %v", params, fields.Field(i).Type)
		}
		p := op.Param{Name: n, Class: class}
		switch {
		case known.Slots[i] == 'o':
			p.Use = op.Written
		case strings.HasSuffix(n, "Ref"): // as CANN names what it updates in place
			p.Use = op.Updated
		}
		o.Params = append(o.Params, p)
	}
	return o, nil
}

var classes = map[reflect.Type]op.Class{
	reflect.TypeFor[*aclnn.Tensor](): op.TensorClass, reflect.TypeFor[[]*aclnn.Tensor](): op.TensorListClass,
	reflect.TypeFor[aclnn.Scalar](): op.ScalarClass, reflect.TypeFor[[]aclnn.Scalar](): op.ScalarListClass,
	reflect.TypeFor[[]int64](): op.IntArrayClass, reflect.TypeFor[[]float32](): op.FloatArrayClass, reflect.TypeFor[[]bool](): op.BoolArrayClass,
	reflect.TypeFor[string](): op.StringClass, reflect.TypeFor[bool](): op.BoolClass, reflect.TypeFor[unsafe.Pointer](): op.PointerClass,
	reflect.TypeFor[float64](): op.DoubleClass, reflect.TypeFor[float32](): op.FloatClass,
}

func classOf(t reflect.Type) (op.Class, bool) {
	if class, ok := classes[t]; ok {
		return class, true
	}
	return op.IntClass, t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64
}

// phases runs phase one and makes its phase two.
func phases(c *op.Call, prepare func(c *Call) (Run, error)) (op.Run, error) {
	run, err := prepare(&Call{c})
	if c.Err() != nil { // an argument that is null
		return nil, c.Err()
	}
	var coded *Error
	switch {
	case errors.As(err, &coded):
		c.Fail(int32(coded.Code), "%v", err)
	case err != nil:
		c.Invalid("%v", err)
	case run == nil:
		err = errors.New("phase one has returned neither a Run nor an error")
	}
	if err != nil {
		return nil, errors.Join(c.Err(), err)
	}
	return func(x *op.Exec) error {
		err := run(unsafe.Slice((*byte)(x.Workspace()), c.WorkspaceSize()))
		var coded *Error
		if errors.As(err, &coded) {
			return &rt.Fault{Code: int32(coded.Code), Text: fmt.Sprintf("%v: %v", c, err)}
		}
		return err
	}, nil
}
