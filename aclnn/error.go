package aclnn

import (
	"fmt"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
)

var errNilMember = refuse(acl.ErrInvalidArgument, "a list has a nil member")

// Error is a launch that was refused or failed. Err is the cause: *acl.Error with CANN's
// code and message, or what was wrong with an argument before CANN saw it.
type Error struct {
	Op      string   // C name, such as "aclnnAdd"
	Tensors []string // the arguments: "self float32[2,3]ND"
	Err     error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s(%s): %v", e.Op, strings.Join(e.Tensors, ", "), e.Err)
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// failure describes a failed call from its encoded arguments.
func (c *Call) failure(err error) error {
	e := &Error{Op: c.op.Symbol, Err: err}
	names := strings.Fields(c.op.params())
	c.launch.Each(func(param, member int, d *cshim.TensorDesc) {
		name := fmt.Sprintf("argument %d", param)
		if param < len(names) {
			name = names[param]
		}
		if member >= 0 {
			name = fmt.Sprintf("%s[%d]", name, member)
		}
		e.Tensors = append(e.Tensors, name+" "+describeDesc(d))
	})
	return e
}
