package nn

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/rt"
)

// Communicator is a rank's end of a group.
type Communicator struct {
	Handle     uint64
	Rank, Size int
}

// Collectives are HCCL as fused operators see it: Find is the communicator of a name on a
// device, Functions are those of hccl.h by C name.
type Collectives struct {
	Find      func(device int, name string) (Communicator, bool)
	Functions map[string]rt.Func
}

// stage is a part of phase two that goes on the stream by itself: something to compute, or a
// collective.
type stage struct {
	run        Run
	collective *collective
}

// collective is a call of HCCL without its last two arguments, communicator and stream.
type collective struct {
	comm     Communicator
	function string
	words    func(workspace uint64) []uint64
}

// view is a tensor that is not an argument: another look at one, or a part of the workspace,
// from which its address counts.
type view struct {
	t, of *Tensor
}

// bind finds the memory of the view when that of the call is known.
func (v view) bind(workspace unsafe.Pointer) {
	if v.of != nil {
		v.t.host = v.of.host
	} else {
		v.t.host = unsafe.Add(workspace, v.t.Addr)
	}
}

// scratchAlignment is that of the tensors in a workspace.
const scratchAlignment = 512

// scratch is a tensor in the workspace.
func (c *Call) scratch(d dtype.Type, shape ...int64) *Tensor {
	c.workspace = (c.workspace + scratchAlignment - 1) / scratchAlignment * scratchAlignment
	t := &Tensor{Shape: shape, Strides: ContiguousStrides(shape), DType: d, Format: dtype.ND, Storage: shape, Addr: uint64(c.workspace), inWorkspace: true}
	c.workspace += max(count(shape)*int64(d.Bits())/8, 1) // no two tensors begin at one address
	c.views = append(c.views, view{t: t})
	return t
}

// reshaped is a contiguous tensor in another shape.
func (c *Call) reshaped(t *Tensor, shape ...int64) *Tensor {
	v := *t
	v.Shape, v.Strides = shape, ContiguousStrides(shape)
	c.views = append(c.views, view{t: &v, of: t})
	return &v
}

// communicator is this rank's end of the group that a parameter names.
func (c *Call) communicator(param string) Communicator {
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

// communicator is that of a name on the current device.
func (l *Library) communicator(t *rt.Thread, group string) (Communicator, error) {
	device, code := l.rt.CurrentDevice(t)
	if code != 0 {
		return Communicator{}, fmt.Errorf("the thread has no device (%d); call aclrtSetDevice", code)
	}
	if l.Collectives.Find != nil {
		if comm, ok := l.Collectives.Find(device, group); ok {
			return comm, nil
		}
	}
	return Communicator{}, fmt.Errorf("device %d has no communicator named %q; take the name from HcclGetCommName", device, group)
}

// compute adds something to compute before what follows.
func (c *Call) compute(run Run) { c.stages = append(c.stages, stage{run: run}) }

// collect adds a collective. Its buffers are tensors without gaps.
func (c *Call) collect(comm Communicator, function string, words func(workspace uint64) []uint64) {
	c.stages = append(c.stages, stage{collective: &collective{comm, function, words}})
}

// address is where the tensor begins on the device.
func (t *Tensor) address(workspace uint64) uint64 {
	at := t.Addr + uint64(t.Offset*int64(t.DType.Bits())/8)
	if t.inWorkspace {
		at += workspace
	}
	return at
}

// hcclTypes are the element types of collectives.
var hcclTypes = map[dtype.Type]uint64{
	dtype.Int8: abi.HCCL_DATA_TYPE_INT8, dtype.Int32: abi.HCCL_DATA_TYPE_INT32, dtype.Int64: abi.HCCL_DATA_TYPE_INT64,
	dtype.Float16: abi.HCCL_DATA_TYPE_FP16, dtype.BFloat16: abi.HCCL_DATA_TYPE_BFP16, dtype.Float32: abi.HCCL_DATA_TYPE_FP32,
}

// allReduce sums a tensor over the ranks, in place.
func (c *Call) allReduce(comm Communicator, t *Tensor) {
	c.collect(comm, "HcclAllReduce", func(workspace uint64) []uint64 {
		at := t.address(workspace)
		return []uint64{at, at, uint64(t.Len()), hcclTypes[t.DType], abi.HCCL_REDUCE_SUM}
	})
}

// allGather puts the tensors of the ranks behind each other.
func (c *Call) allGather(comm Communicator, into, t *Tensor) {
	c.collect(comm, "HcclAllGather", func(workspace uint64) []uint64 {
		return []uint64{t.address(workspace), into.address(workspace), uint64(t.Len()), hcclTypes[t.DType]}
	})
}

// reduceScatter gives each rank the sum of its block.
func (c *Call) reduceScatter(comm Communicator, into, t *Tensor) {
	c.collect(comm, "HcclReduceScatter", func(workspace uint64) []uint64 {
		return []uint64{t.address(workspace), into.address(workspace), uint64(into.Len()), hcclTypes[t.DType], abi.HCCL_REDUCE_SUM}
	})
}

// allToAll gives block r of the tensor to rank r.
func (c *Call) allToAll(comm Communicator, into, t *Tensor) {
	c.collect(comm, "HcclAlltoAll", func(workspace uint64) []uint64 {
		n, d := uint64(t.Len())/uint64(comm.Size), hcclTypes[t.DType]
		return []uint64{t.address(workspace), n, d, into.address(workspace), n, d}
	})
}

// collect queues a collective of a call. Its refusals keep HCCL's text.
func (l *Library) collect(t *rt.Thread, p *collective, workspace, stream uint64) uint64 {
	if l.Collectives.Functions[p.function](t, append(p.words(workspace), p.comm.Handle, stream)) != 0 {
		return uint64(abi.ACLNN_ERR_INNER)
	}
	return 0
}

// contiguous is a tensor without gaps: t, or a copy of it that is made on the stream.
func (c *Call) contiguous(t *Tensor) *Tensor {
	if t.Contiguous() {
		return t
	}
	dense := c.scratch(t.DType, t.Shape...)
	c.compute(func(*Exec) error { return kernel.Copy(dense.View(), t.View()) })
	return dense
}

// operate prepares another operator as something to do within this one. Its tensors are
// arguments of this call, or views.
func (c *Call) operate(name string, prepare Prepare, args map[string]any) Run {
	if c.err != nil {
		return nil
	}
	inner := &Call{op: find(name)}
	for _, p := range inner.op.params {
		a := args[p.name]
		if t, ok := a.(*Tensor); ok && t == nil {
			a = nil
		}
		if a == nil {
			a = zeroOf(p.class)
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

// zeroOf is the argument that nobody gave.
func zeroOf(class class) any {
	switch class {
	case intClass, pointerClass:
		return int64(0)
	case boolClass:
		return false
	case doubleClass, floatClass:
		return float64(0)
	}
	return nil
}
