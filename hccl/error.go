package hccl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/class"
)

// Errors of communicators, for errors.Is. Each also matches a class of package acl: the ranks or
// peers and retries are acl.ErrPeerLost, suspension is acl.ErrAborted. Arguments that do not fit are
// acl.ErrInvalidArgument, a closed communicator, stream or tensor is acl.ErrClosed, what this HCCL
// or chip lacks acl.ErrNotSupported, and a communicator that still works acl.ErrBusy.
var (
	ErrJoin      = class.Of(acl.ErrPeerLost, "the ranks did not come together")
	ErrRemote    = class.Of(acl.ErrPeerLost, "a peer or its link failed")
	ErrSuspended = class.Of(acl.ErrAborted, "the communicator is suspended")
	ErrNotFound  = class.Of(acl.ErrInvalidArgument, "the communicator has none")
	ErrRetried   = class.Of(acl.ErrPeerLost, "collectives failed again when HCCL retried them after the fault of a link")
)

// errLate is ErrJoin after HCCL's own limit.
var errLate = fmt.Errorf("%w: %w", ErrJoin, acl.ErrTimeout)

// codeClasses maps HcclResult codes to the errors.
var codeClasses = map[int32]error{
	abi.HCCL_E_PARA: acl.ErrInvalidArgument, abi.HCCL_E_PTR: acl.ErrInvalidArgument, abi.HCCL_E_NOT_SUPPORT: acl.ErrNotSupported,
	abi.HCCL_E_TIMEOUT: errLate, abi.HCCL_E_AGAIN: acl.ErrBusy, abi.HCCL_E_REMOTE: ErrRemote,
	abi.HCCL_E_SUSPENDING: ErrSuspended, abi.HCCL_E_UNAVAIL: ErrJoin, abi.HCCL_E_TCP_CONNECT: ErrJoin,
	abi.HCCL_E_ROCE_CONNECT: ErrJoin, abi.HCCL_E_NETWORK: ErrJoin, abi.HCCL_E_TCP_TRANSFER: ErrRemote,
	abi.HCCL_E_ROCE_TRANSFER: ErrRemote, abi.HCCL_E_MEMORY: acl.ErrOutOfMemory, abi.HCCL_E_OOM: acl.ErrOutOfMemory,
	abi.HCCL_E_OPRETRY_FAIL: ErrRetried,
}

// invalid is the cause of a call with an argument that does not fit.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", acl.ErrInvalidArgument, fmt.Sprintf(format, args...))
}

// Error is a failed or refused call of a communicator.
type Error struct {
	Op         string   // C function, such as "HcclAllReduce"
	Code       int32    // HcclResult; 0 when HCCL was not called
	Rank, Size int      // of the caller
	Tensors    []string // "send float32[2,3]ND"
	Err        error    // an error of this package or of acl, *cshim.Error, or both
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s(%s) on rank %d of %d: %v", e.Op, strings.Join(e.Tensors, ", "), e.Rank, e.Size, e.Err)
}

// Unwrap returns the cause for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// failed makes the error of a call that HCCL refused or for which HCCL was not found.
func failed(op string, rank, size int, err error, tensors ...string) error {
	e := &Error{Op: op, Rank: rank, Size: size, Tensors: tensors, Err: err}
	var c *cshim.Error
	if errors.As(err, &c) {
		e.Code = c.Code
		if class := codeClasses[c.Code]; class != nil {
			e.Err = fmt.Errorf("%w: %w", class, err)
		}
	}
	return e
}
