package hccl

import (
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
)

// dataTypes are HCCL's numbers of the element types.
var dataTypes = map[dtype.Type]uint64{
	dtype.Int8: abi.HCCL_DATA_TYPE_INT8, dtype.Int16: abi.HCCL_DATA_TYPE_INT16, dtype.Int32: abi.HCCL_DATA_TYPE_INT32,
	dtype.Float16: abi.HCCL_DATA_TYPE_FP16, dtype.Float32: abi.HCCL_DATA_TYPE_FP32, dtype.Int64: abi.HCCL_DATA_TYPE_INT64,
	dtype.Uint64: abi.HCCL_DATA_TYPE_UINT64, dtype.Uint8: abi.HCCL_DATA_TYPE_UINT8, dtype.Uint16: abi.HCCL_DATA_TYPE_UINT16,
	dtype.Uint32: abi.HCCL_DATA_TYPE_UINT32, dtype.Float64: abi.HCCL_DATA_TYPE_FP64, dtype.BFloat16: abi.HCCL_DATA_TYPE_BFP16,
}

// pass is one collective: its tensors, which are the same one where there is only one.
type pass struct {
	c    *Comm
	st   *acl.Stream
	f    *cshim.Func
	a, b *aclnn.Tensor
}

func (p pass) failed(err error) error {
	return failed(p.f.Name(), p.c.rank, p.c.size, err, p.a.String(), p.b.String())
}

func (p pass) refuse(group error, format string, args ...any) error {
	return p.failed(fmt.Errorf("%w: %s", group, fmt.Sprintf(format, args...)))
}

// start refuses tensors that HCCL would read wrongly and gives its number of their dtype.
func (p pass) start() (kind uint64, err error) {
	for _, t := range []*aclnn.Tensor{p.a, p.b} {
		switch {
		case t == nil:
			return 0, p.refuse(ErrArgument, "a tensor is nil")
		case t.Err() != nil:
			return 0, p.refuse(ErrArgument, "%v", t.Err())
		case !t.Contiguous():
			return 0, p.refuse(ErrArgument, "%v is not contiguous; copy it first", t)
		}
	}
	kind, known := dataTypes[p.a.DType()]
	switch {
	case p.c.closed.Load():
		return 0, p.refuse(ErrClosed, "the communicator is closed")
	case p.st.ContextHandle() != p.c.context:
		return 0, p.refuse(ErrArgument, "the stream is of another context than the communicator")
	case !known:
		return 0, p.refuse(ErrUnsupported, "HCCL has no %v elements", p.a.DType())
	case p.a.DType() != p.b.DType():
		return 0, p.refuse(ErrArgument, "the dtypes differ")
	}
	return kind, nil
}

// check is start for a collective whose tensor b has want elements.
func (p pass) check(want int64) (kind uint64, err error) {
	if kind, err = p.start(); err == nil && p.b.Len() != want {
		err = p.refuse(ErrArgument, "the second tensor has %d elements; %d are needed", p.b.Len(), want)
	}
	return kind, err
}

// member refuses a rank that the communicator does not have.
func (p pass) member(what string, rank int) error {
	if rank < 0 || rank >= p.c.size {
		return p.refuse(ErrArgument, "%s %d; the ranks are 0 to %d", what, rank, p.c.size-1)
	}
	return nil
}

// apart refuses send and receive buffers that share memory.
func (p pass) apart(send, recv *aclnn.Tensor) error {
	s, r := send.Address(), recv.Address()
	if send.Len() > 0 && recv.Len() > 0 && s < r+uint64(recv.Bytes()) && r < s+uint64(send.Bytes()) {
		return p.refuse(ErrArgument, "send and recv share memory; use a second tensor")
	}
	return nil
}

// call queues the collective; HCCL does nothing for no elements.
func (p pass) call(args ...uint64) error {
	var c cshim.Call
	copy(c.Args[:], args)
	if err := c.Do(p.f, p.c.context); err != nil {
		return p.failed(err)
	}
	if t := p.c.tracker.Load(); t != nil {
		return t.queued(p, args)
	}
	return nil
}

// length is the number of elements of a tensor that may be nil.
func length(t *aclnn.Tensor) int64 {
	if t == nil {
		return 0
	}
	return t.Len()
}
