package hccl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Groups of errors of communicators, for errors.Is.
var (
	ErrArgument    = errors.New("invalid argument of a collective")
	ErrUnsupported = errors.New("not supported by this HCCL or chip")
	ErrJoin        = errors.New("the ranks did not come together")
	ErrBusy        = errors.New("collectives are not done")
	ErrRemote      = errors.New("a peer or its link failed")
	ErrSuspended   = errors.New("the communicator is suspended")
	ErrClosed      = errors.New("used after Close")
)

// codeGroups maps HcclResult to the groups.
var codeGroups = map[int32]error{
	abi.HCCL_E_PARA: ErrArgument, abi.HCCL_E_PTR: ErrArgument, abi.HCCL_E_NOT_SUPPORT: ErrUnsupported,
	abi.HCCL_E_TIMEOUT: ErrJoin, abi.HCCL_E_AGAIN: ErrBusy, abi.HCCL_E_REMOTE: ErrRemote,
	abi.HCCL_E_SUSPENDING: ErrSuspended, abi.HCCL_E_UNAVAIL: ErrJoin, abi.HCCL_E_TCP_CONNECT: ErrJoin,
	abi.HCCL_E_ROCE_CONNECT: ErrJoin, abi.HCCL_E_NETWORK: ErrJoin, abi.HCCL_E_TCP_TRANSFER: ErrRemote,
	abi.HCCL_E_ROCE_TRANSFER: ErrRemote, abi.HCCL_E_MEMORY: acl.ErrOutOfMemory,
}

// Error is a failed or refused call of a communicator.
type Error struct {
	Op         string   // C function, such as "HcclAllReduce"
	Code       int32    // HcclResult; 0 when HCCL was not called
	Rank, Size int      // of the caller
	Tensors    []string // "send float32[2,3]ND"
	Err        error    // a group of this package, *cshim.Error, or both
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s(%s) on rank %d of %d: %v", e.Op, strings.Join(e.Tensors, ", "), e.Rank, e.Size, e.Err)
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// failed makes the error of a call that HCCL refused, or that found no HCCL.
func failed(op string, rank, size int, err error, tensors ...string) error {
	e := &Error{Op: op, Rank: rank, Size: size, Tensors: tensors, Err: err}
	var c *cshim.Error
	var missing *cshim.SymbolError
	switch {
	case errors.As(err, &missing):
		e.Err = fmt.Errorf("%w: %w", ErrUnsupported, err)
	case errors.As(err, &c):
		e.Code = c.Code
		if group := codeGroups[c.Code]; group != nil {
			e.Err = fmt.Errorf("%w: %w", group, err)
		}
	}
	return e
}
