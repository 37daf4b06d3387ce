package op

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/rt"
)

// Communicator identifies a group of ranks and this rank's place in it.
type Communicator struct {
	Handle     uint64
	Rank, Size int
}

// Stage is one step of phase two that is queued on the stream as a task of its own: either a
// computation, a collective or a wait.
type Stage struct {
	Run        Run
	Collective *Collective
	Ready      func(x *Exec) (bool, error)
}

// HCCL is the functions of hccl.h that operators call. Package ccl implements them.
type HCCL interface {
	HcclAllReduce(t *rt.Thread, sendBuf, recvBuf uintptr, count uint64, dataType, op int32, comm, stream rt.Handle) error
	HcclAllGather(t *rt.Thread, sendBuf, recvBuf uintptr, sendCount uint64, dataType int32, comm, stream rt.Handle) error
	HcclReduceScatter(t *rt.Thread, sendBuf, recvBuf uintptr, recvCount uint64, dataType, op int32, comm, stream rt.Handle) error
	HcclAlltoAll(t *rt.Thread, sendBuf uintptr, sendCount uint64, sendType int32, recvBuf uintptr, recvCount uint64, recvType int32, comm, stream rt.Handle) error
	HcclAlltoAllV(t *rt.Thread, sendBuf uintptr, sendCounts, sdispls rt.In[uint64], sendType int32, recvBuf uintptr, recvCounts, rdispls rt.In[uint64], recvType int32, comm, stream rt.Handle) error
	HcclBarrier(t *rt.Thread, comm, stream rt.Handle) error
	BarrierOf(t *rt.Thread, comm, stream rt.Handle, terms func() (ranks []int, within time.Duration)) error
}

// Launch is phase two of a call: its thread, its stream, and the address of its workspace.
type Launch struct {
	Thread    *rt.Thread
	Stream    rt.Handle
	Workspace uint64
}

// Collective is a collective of a fused operator. Queue queues it on the stream of the launch.
type Collective struct {
	Comm  Communicator
	Queue func(h HCCL, l Launch) error
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

// longestGroup is the length of the longest name of a group in bytes, without the final zero.
const longestGroup = 127

// GroupName returns the name of a group, which it does not look up.
func (c *Call) GroupName(param string) string {
	group := c.RequiredText(param)
	switch {
	case group == "" && !c.foundNull():
		if code := emptyGroup(c.Op.Name); code != 0 {
			c.Fail(code, "%s is empty; take the name of the communicator from HcclGetCommName", param)
		}
	case len(group) > longestGroup:
		c.Invalid("%s has %d bytes; the name of a communicator has at most %d", param, len(group), longestGroup)
	}
	return group
}

// Communicator returns this rank's communicator of the group that a parameter names. If there is no
// such group, the call fails and the result is a group of one rank.
func (c *Call) Communicator(param string) Communicator {
	group := c.GroupName(param)
	if c.err != nil {
		return Communicator{Size: 1}
	}
	if known, ok := c.joined[group]; ok {
		return known
	}
	comm, err := c.join(group)
	if err != nil {
		c.unjoined = &Error{Code: Unsupported, Text: fmt.Sprintf("%s: %s: %v", c.Name(), param, err)}
		return Communicator{Size: 1}
	}
	if c.joined == nil {
		c.joined = make(map[string]Communicator)
	}
	c.joined[group] = comm
	return comm
}

// emptyGroup returns the code with which an operator refuses an empty name of a group, or 0 if it looks for a
// communicator of that name.
func emptyGroup(operator string) int32 {
	switch operator {
	case "AlltoAllvGroupedMatMul", "GroupedMatMulAlltoAllv", "AlltoAllvGroupedMatMulV2", "GroupedMatMulAlltoAllvV2", "AlltoAllAllGatherBatchMatMul", "BatchMatMulReduceScatterAlltoAll":
		return NullPointer
	case "DistributeBarrier", "DistributeBarrierV2":
		return 0 // CANN's check of the name returns false, which is the code of success
	}
	if strings.HasPrefix(operator, "MoeDistributeDispatch") || strings.HasPrefix(operator, "MoeDistributeCombine") {
		return NullPointer
	}
	return InvalidParam
}

// Compute appends a computation to the stages of phase two.
func (c *Call) Compute(run Run) { c.stages = append(c.stages, Stage{Run: run}) }

// Collect appends a collective to the stages of phase two. The buffers of the collective must be
// contiguous.
func (c *Call) Collect(comm Communicator, queue func(h HCCL, l Launch) error) {
	c.stages = append(c.stages, Stage{Collective: &Collective{comm, queue}})
}

// Address returns the device address of the tensor's first element.
func (t *Tensor) Address(workspace uint64) uintptr {
	at := t.Addr + uint64(t.Offset*int64(t.DType.Bits())/8)
	if t.inWorkspace {
		at += workspace
	}
	return uintptr(at)
}

// HCCLTypes maps the element types that collectives support to HCCL's data types.
var HCCLTypes = map[dtype.Type]int32{
	dtype.Int8: abi.HCCL_DATA_TYPE_INT8, dtype.Int32: abi.HCCL_DATA_TYPE_INT32, dtype.Int64: abi.HCCL_DATA_TYPE_INT64,
	dtype.Float16: abi.HCCL_DATA_TYPE_FP16, dtype.BFloat16: abi.HCCL_DATA_TYPE_BFP16, dtype.Float32: abi.HCCL_DATA_TYPE_FP32,
}

// AllReduce appends an HcclAllReduce that sums a tensor over the ranks in place.
func (c *Call) AllReduce(comm Communicator, t *Tensor) {
	c.Collect(comm, func(h HCCL, l Launch) error {
		at := t.Address(l.Workspace)
		return h.HcclAllReduce(l.Thread, at, at, uint64(t.Len()), HCCLTypes[t.DType], abi.HCCL_REDUCE_SUM, comm.Handle, l.Stream)
	})
}

// AllGather appends an HcclAllGather, which concatenates the tensors of the ranks in the order of
// the ranks.
func (c *Call) AllGather(comm Communicator, into, t *Tensor) {
	c.Collect(comm, func(h HCCL, l Launch) error {
		return h.HcclAllGather(l.Thread, t.Address(l.Workspace), into.Address(l.Workspace), uint64(t.Len()), HCCLTypes[t.DType], comm.Handle, l.Stream)
	})
}

// ReduceScatter appends an HcclReduceScatter: rank r receives the sum over the ranks of block r.
func (c *Call) ReduceScatter(comm Communicator, into, t *Tensor) {
	c.Collect(comm, func(h HCCL, l Launch) error {
		from, to := t.Address(l.Workspace), into.Address(l.Workspace)
		return h.HcclReduceScatter(l.Thread, from, to, uint64(into.Len()), HCCLTypes[t.DType], abi.HCCL_REDUCE_SUM, comm.Handle, l.Stream)
	})
}

// AllToAll appends an HcclAlltoAll: block r of the tensor goes to rank r.
func (c *Call) AllToAll(comm Communicator, into, t *Tensor) {
	c.Collect(comm, func(h HCCL, l Launch) error {
		n, d := uint64(t.Len())/uint64(comm.Size), HCCLTypes[t.DType]
		return h.HcclAlltoAll(l.Thread, t.Address(l.Workspace), n, d, into.Address(l.Workspace), n, d, comm.Handle, l.Stream)
	})
}

// Barrier appends an HcclBarrier: the ranks of the group wait for each other.
func (c *Call) Barrier(comm Communicator) {
	c.Collect(comm, func(h HCCL, l Launch) error { return h.HcclBarrier(l.Thread, comm.Handle, l.Stream) })
}

// BarrierOf appends a barrier of some ranks, nil for all, that wait for at most a time, 0 for the limit of every
// collective. The device asks for both when the barrier starts.
func (c *Call) BarrierOf(comm Communicator, terms func() (ranks []int, within time.Duration)) {
	c.Collect(comm, func(h HCCL, l Launch) error { return h.BarrierOf(l.Thread, comm.Handle, l.Stream, terms) })
}

// Contiguous returns t if it is contiguous. Otherwise it returns a scratch tensor to which a stage
// of phase two copies t.
func (c *Call) Contiguous(t *Tensor) *Tensor {
	if t.Contiguous() {
		return t
	}
	dense := c.Scratch(t.DType, t.Shape...)
	c.Compute(func(*Exec) error { return elementwise.Copy(dense.View(), t.View()) })
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
