package op

import (
	"errors"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// Communicator identifies a group of ranks and this rank's place in it.
type Communicator struct {
	Handle     uint64
	Rank, Size int
}

// Stage is one step of phase two that is queued on the stream as a task of its own: either a
// computation or a collective.
type Stage struct {
	Run        Run
	Collective *Collective
}

// Collective is a call of an HCCL function. Words returns its arguments without the last two, the
// communicator and the stream.
type Collective struct {
	Comm     Communicator
	Function string
	Words    func(workspace uint64) []uint64
}

// view is a tensor that is not an argument. It is either another view of the tensor of, or, if of
// is nil, a tensor in the workspace, whose address is an offset from the workspace's start.
type view struct {
	t, of *Tensor
}

// bind sets the memory of the view once the memory of the call is known.
func (v view) bind(workspace unsafe.Pointer) {
	if v.of != nil {
		v.t.Data = v.of.Data
	} else {
		v.t.Data = unsafe.Add(workspace, v.t.Addr)
	}
}

// scratchAlignment is the alignment, in bytes, of the tensors in a workspace.
const scratchAlignment = 512

// Scratch allocates a contiguous tensor in the workspace.
func (c *Call) Scratch(d dtype.Type, shape ...int64) *Tensor {
	c.workspace = (c.workspace + scratchAlignment - 1) / scratchAlignment * scratchAlignment
	t := &Tensor{Shape: shape, Strides: ContiguousStrides(shape), DType: d, Format: dtype.ND, Storage: shape, Addr: uint64(c.workspace), inWorkspace: true}
	c.workspace += max(Count(shape)*int64(d.Bits())/8, 1) // an empty tensor needs an address of its own, too
	c.views = append(c.views, view{t: t})
	return t
}

// Reshaped returns a view of a contiguous tensor with another shape.
func (c *Call) Reshaped(t *Tensor, shape ...int64) *Tensor {
	v := *t
	v.Shape, v.Strides = shape, ContiguousStrides(shape)
	return c.Alias(v, t)
}

// Communicator returns this rank's communicator of the group that a parameter names. If there is no
// such group, the call fails and the result is a group of one rank.
func (c *Call) Communicator(param string) Communicator {
	group := c.RequiredText(param)
	if c.err != nil {
		return Communicator{Size: 1}
	}
	if known, ok := c.joined[group]; ok {
		return known
	}
	comm, err := c.join(group)
	if err != nil {
		c.Invalid("%s: %v", param, err)
		return Communicator{Size: 1}
	}
	if c.joined == nil {
		c.joined = make(map[string]Communicator)
	}
	c.joined[group] = comm
	return comm
}

// Compute appends a computation to the stages of phase two.
func (c *Call) Compute(run Run) { c.stages = append(c.stages, Stage{Run: run}) }

// Collect appends a collective to the stages of phase two. The buffers of the collective must be
// contiguous.
func (c *Call) Collect(comm Communicator, function string, words func(workspace uint64) []uint64) {
	c.stages = append(c.stages, Stage{Collective: &Collective{comm, function, words}})
}

// Address returns the device address of the tensor's first element.
func (t *Tensor) Address(workspace uint64) uint64 {
	at := t.Addr + uint64(t.Offset*int64(t.DType.Bits())/8)
	if t.inWorkspace {
		at += workspace
	}
	return at
}

// HCCLTypes maps the element types that collectives support to HCCL's data types.
var HCCLTypes = map[dtype.Type]uint64{
	dtype.Int8: abi.HCCL_DATA_TYPE_INT8, dtype.Int32: abi.HCCL_DATA_TYPE_INT32, dtype.Int64: abi.HCCL_DATA_TYPE_INT64,
	dtype.Float16: abi.HCCL_DATA_TYPE_FP16, dtype.BFloat16: abi.HCCL_DATA_TYPE_BFP16, dtype.Float32: abi.HCCL_DATA_TYPE_FP32,
}

// AllReduce appends an HcclAllReduce that sums a tensor over the ranks in place.
func (c *Call) AllReduce(comm Communicator, t *Tensor) {
	c.Collect(comm, "HcclAllReduce", func(workspace uint64) []uint64 {
		at := t.Address(workspace)
		return []uint64{at, at, uint64(t.Len()), HCCLTypes[t.DType], abi.HCCL_REDUCE_SUM}
	})
}

// AllGather appends an HcclAllGather, which concatenates the tensors of the ranks in the order of
// the ranks.
func (c *Call) AllGather(comm Communicator, into, t *Tensor) {
	c.Collect(comm, "HcclAllGather", func(workspace uint64) []uint64 {
		return []uint64{t.Address(workspace), into.Address(workspace), uint64(t.Len()), HCCLTypes[t.DType]}
	})
}

// ReduceScatter appends an HcclReduceScatter: rank r receives the sum over the ranks of block r.
func (c *Call) ReduceScatter(comm Communicator, into, t *Tensor) {
	c.Collect(comm, "HcclReduceScatter", func(workspace uint64) []uint64 {
		return []uint64{t.Address(workspace), into.Address(workspace), uint64(into.Len()), HCCLTypes[t.DType], abi.HCCL_REDUCE_SUM}
	})
}

// AllToAll appends an HcclAlltoAll: block r of the tensor goes to rank r.
func (c *Call) AllToAll(comm Communicator, into, t *Tensor) {
	c.Collect(comm, "HcclAlltoAll", func(workspace uint64) []uint64 {
		n, d := uint64(t.Len())/uint64(comm.Size), HCCLTypes[t.DType]
		return []uint64{t.Address(workspace), n, d, into.Address(workspace), n, d}
	})
}

// Barrier appends an HcclBarrier: the ranks of the group wait for each other.
func (c *Call) Barrier(comm Communicator) {
	c.Collect(comm, "HcclBarrier", func(uint64) []uint64 { return nil })
}

// Contiguous returns t if it is contiguous. Otherwise it returns a scratch tensor to which a stage
// of phase two copies t.
func (c *Call) Contiguous(t *Tensor) *Tensor {
	if t.Contiguous() {
		return t
	}
	dense := c.Scratch(t.DType, t.Shape...)
	c.Compute(func(*Exec) error { return kernel.Copy(dense.View(), t.View()) })
	return dense
}

// Operate prepares another operator as a part of this call. Its tensors must be arguments of this
// call or views of it. Parameters without a value in args are zero or null.
func (c *Call) Operate(name string, prepare Prepare, args map[string]any) Run {
	if c.err != nil {
		return nil
	}
	inner := &Call{Op: Find(name)}
	for _, p := range inner.Op.Params {
		a := args[p.Name]
		if t, ok := a.(*Tensor); ok && t == nil {
			a = nil
		}
		if a == nil {
			a = zeroOf(p.Class)
		}
		inner.args = append(inner.args, a)
	}
	run, err := prepare(inner)
	var refusal *Error
	if errors.As(err, &refusal) {
		c.Fail(refusal.Code, "%s", refusal.Text)
	}
	at := c.workspace
	c.workspace += inner.workspace
	return func(x *Exec) error {
		own := unsafe.Add(x.workspace, at)
		for _, v := range inner.views {
			v.bind(own)
		}
		return run(&Exec{workspace: own})
	}
}

// zeroOf returns the value of an argument that is not given.
func zeroOf(class Class) any {
	switch class {
	case IntClass, PointerClass:
		return int64(0)
	case BoolClass:
		return false
	case DoubleClass, FloatClass:
		return float64(0)
	}
	return nil
}

// Alias adds a tensor to the call that is a view of another tensor of the call and shares its
// memory.
func (c *Call) Alias(v Tensor, of *Tensor) *Tensor {
	c.views = append(c.views, view{t: &v, of: of})
	return &v
}
