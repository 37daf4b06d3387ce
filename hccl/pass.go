package hccl

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/bridge"
	"github.com/goascend/cann/internal/dtype"
)

// dataTypes maps element types to HCCL's numbers.
var dataTypes = map[dtype.Type]hcclDataType{
	dtype.Int8: abi.HCCL_DATA_TYPE_INT8, dtype.Int16: abi.HCCL_DATA_TYPE_INT16, dtype.Int32: abi.HCCL_DATA_TYPE_INT32,
	dtype.Float16: abi.HCCL_DATA_TYPE_FP16, dtype.Float32: abi.HCCL_DATA_TYPE_FP32, dtype.Int64: abi.HCCL_DATA_TYPE_INT64,
	dtype.Uint64: abi.HCCL_DATA_TYPE_UINT64, dtype.Uint8: abi.HCCL_DATA_TYPE_UINT8, dtype.Uint16: abi.HCCL_DATA_TYPE_UINT16,
	dtype.Uint32: abi.HCCL_DATA_TYPE_UINT32, dtype.Float64: abi.HCCL_DATA_TYPE_FP64, dtype.BFloat16: abi.HCCL_DATA_TYPE_BFP16,
	// From CANN 9.0.0 on; HCCL copies them and reduces none.
	dtype.HiFloat8: abi.HCCL_DATA_TYPE_HIF8, dtype.Float8E4M3: abi.HCCL_DATA_TYPE_FP8E4M3,
	dtype.Float8E5M2: abi.HCCL_DATA_TYPE_FP8E5M2, dtype.Float8E8M0: abi.HCCL_DATA_TYPE_FP8E8M0,
}

// pass is one call of a collective and its tensors. Both fields hold the same tensor if there is
// only one.
type pass struct {
	c    *Comm
	st   *acl.Stream
	f    *cshim.Func
	a, b *aclnn.Tensor
}

func (p pass) failed(err error) error {
	return failed(p.f.Name(), p.c.Rank(), p.c.Size(), err, p.a.String(), p.b.String())
}

func (p pass) refuse(class error, format string, args ...any) error {
	return p.failed(fmt.Errorf("%w: %s", class, fmt.Sprintf(format, args...)))
}

// start refuses tensors that HCCL would misread, and returns HCCL's number of their dtype. It notes
// that the stream uses their memory, which is then not given out again before the collective has
// ended.
func (p pass) start() (kind hcclDataType, err error) {
	if err := p.c.usable(); err != nil {
		return 0, p.failed(err)
	}
	if err := p.c.queueable(p.st); err != nil {
		return 0, p.failed(err)
	}
	for _, t := range []*aclnn.Tensor{p.a, p.b} {
		switch {
		case t.Err() != nil:
			return 0, p.failed(t.Err())
		case !t.Contiguous():
			return 0, p.refuse(acl.ErrInvalidArgument, "%v is not contiguous; copy it first", t)
		}
	}
	kind, known := dataTypes[p.a.DType()]
	switch {
	case contextOf(p.st) != p.c.context:
		return 0, p.refuse(acl.ErrWrongDevice, "the stream is of another context than the communicator")
	case !known:
		return 0, p.refuse(acl.ErrNotSupported, "HCCL has no %v elements", p.a.DType())
	case p.a.DType() != p.b.DType():
		return 0, p.refuse(acl.ErrInvalidArgument, "the dtypes differ")
	}
	for _, t := range []*aclnn.Tensor{p.a, p.b} {
		if err := t.Buffer().RecordStream(p.st); err != nil {
			return 0, p.failed(err)
		}
	}
	return kind, nil
}

// check is start for a collective whose tensor b must have want elements.
func (p pass) check(want int64) (kind hcclDataType, err error) {
	if kind, err = p.start(); err == nil && p.b.Len() != want {
		err = p.refuse(acl.ErrInvalidArgument, "the second tensor has %d elements; %d are needed", p.b.Len(), want)
	}
	return kind, err
}

// member refuses a rank that is not in the communicator.
func (p pass) member(what string, rank int) error {
	if rank < 0 || rank >= p.c.size {
		return p.refuse(acl.ErrInvalidArgument, "%s %d; the ranks are 0 to %d", what, rank, p.c.size-1)
	}
	return nil
}

// apart refuses send and receive buffers that share memory.
func (p pass) apart(send, recv *aclnn.Tensor) error {
	s, r := send.Address(), recv.Address()
	if send.Len() > 0 && recv.Len() > 0 && s < r+uint64(recv.Bytes()) && r < s+uint64(send.Bytes()) {
		return p.refuse(acl.ErrInvalidArgument, "send and recv share memory; use a second tensor")
	}
	return nil
}

// queued finishes a collective. err is the result of the HCCL call; agreed
// holds the arguments on which the ranks must agree.
func (p pass) queued(err error, agreed agreement) error {
	if err != nil {
		return p.failed(err)
	}
	return p.c.queued(p.st, false, tracked{call: p.f, dtype: p.a.DType().String(), agreement: agreed})
}

// addressOf returns the device address of a tensor's first element.
func addressOf(t *aclnn.Tensor) uintptr { return uintptr(t.Address()) }

// usable refuses a stream that is nil, was never made, or is closed.
func usable(st *acl.Stream) error {
	s, _, err := bridge.StreamOf(st)
	if err != nil {
		return err
	}
	return s.Usable()
}

// queueable refuses a stream that usable refuses, and the default stream: HCCL has none. If the stream
// records a graph, the communicator must outlive it.
func (c *Comm) queueable(st *acl.Stream) error {
	s, _, err := bridge.StreamOf(st)
	if err == nil {
		err = s.Usable()
	}
	if err != nil {
		return err
	}
	if st.Handle() == 0 {
		return invalid("HCCL takes no default stream; make one with NewStream")
	}
	s.Hold(&c.graphs)
	return nil
}

// streamOf returns the stream's handle for HCCL.
func streamOf(st *acl.Stream) aclrtStream { return aclrtStream(st.Handle()) }

// length returns the number of elements of a tensor, 0 for nil.
func length(t *aclnn.Tensor) int64 {
	if t == nil {
		return 0
	}
	return t.Len()
}
