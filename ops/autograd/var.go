package autograd

import (
	"fmt"
	"io"

	"github.com/goascend/cann/aclnn"
)

// Var is a variable of a computation: a tensor, and how its gradient goes on. Tapes make variables; NewParameter
// makes those that outlive a tape.
type Var struct {
	// Value is the tensor. It is nil after an error on the tape, and once the tape has freed it.
	Value *aclnn.Tensor
	// Grad is the tensor in which a parameter's gradient is written, or nil.
	Grad *aclnn.Tensor

	tape   *Tape // nil for a parameter
	mem    *memory
	node   *node         // which computed it, or nil
	view   *viewed       // how it views another variable, or nil
	from   *derivation   // how it was derived from a parameter, or nil
	number int           // of the variable on its tape
	like   *aclnn.Tensor // a tensor of the same dtype and shape, which stays when the value is freed
	needs  bool          // whether the gradient of something depends on it
	wide   bool          // its gradient is float32 whatever its dtype, because it goes to a parameter's of float32
	// received says of a parameter that its gradient is of one backward pass.
	received bool

	grad gradient // of a variable that a node computed, during the backward pass
}

// NewParameter makes a variable whose gradient is written to grad, which has the shape of value and its dtype or float32
// (a main gradient of mixed precision). With a nil grad it is a constant: a frozen weight. Both
// tensors remain the caller's. A parameter may be used by many tapes, one after another.
func NewParameter(value, grad *aclnn.Tensor) *Var {
	return &Var{Value: value, Grad: grad, like: value, needs: grad != nil, wide: grad != nil && grad.DType() == aclnn.Float32}
}

// NewOpenedParameter makes a parameter whose Value and Grad the program sets while they exist, such as a weight that is gathered from
// shards: the Value before operators read it, forward and again backward, and with trained the Grad before the backward pass
// of the first of them, float32 or of the value's dtype. Tape.Around is the place for both.
func NewOpenedParameter(trained bool) *Var { return &Var{needs: trained, wide: trained} }

// NewReceived makes an input that gets a gradient, such as what a pipeline stage receives. The program sets its Grad, which is like value, before the
// backward pass, which overwrites it whatever Options.Accumulate says.
func NewReceived(value *aclnn.Tensor) *Var {
	return &Var{Value: value, like: value, needs: true, received: true}
}

// weight reports whether the gradient of v is that of a parameter, which nothing in a backward pass waits for.
func (v *Var) weight() bool {
	p := v.parameter()
	return p != nil && !p.received
}

// Shape returns the dimensions of the value; nil without one.
func (v *Var) Shape() []int64 {
	if v == nil || v.Value == nil {
		return nil
	}
	return v.Value.Shape()
}

// Dim returns a dimension of the value, a negative i counting from the end; 0 without a value.
func (v *Var) Dim(i int) int64 {
	if v == nil || v.Value == nil {
		return 0
	}
	return v.Value.Dim(i)
}

// NeedsGrad reports whether the backward pass computes a gradient of the variable.
func (v *Var) NeedsGrad() bool { return v != nil && v.needs }

// String returns the dtype and shape of the value.
func (v *Var) String() string {
	if v == nil {
		return "nil"
	}
	return fmt.Sprint(v.Value)
}

// memory counts the needs of a tensor of the tape, or of something else that must be closed: by its block, by nodes
// that keep it for the backward pass, and by gradients. The last one closes it.
type memory struct {
	closer      io.Closer
	refs        int
	checkpoints int    // of the needs, those of checkpoints that can bring the value back from the host
	saved       *saved // what is on the host, or nil
}

// gradient is a tensor with the memory behind it. A factor other than zero says that all elements are this number, and that
// there is no tensor yet.
type gradient struct {
	tensor *aclnn.Tensor
	mem    *memory
	factor float64
}

func (g *gradient) present() bool { return g.tensor != nil || g.factor != 0 }
