package blas

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/bridge"
)

// Handle queues the library's work on a stream (aclblasHandle). It holds 32 MiB of device memory.
type Handle struct {
	st      *acl.Stream
	queue   bridge.Queue
	context aclrtContext

	mu        sync.Mutex
	handle    aclblasHandleT
	workspace *acl.Buffer // of SetWorkspace; kept from the garbage collector
}

// New makes a handle for a stream (aclblasCreate, aclblasSetStream).
func New(st *acl.Stream) (*Handle, error) {
	queue, _, err := bridge.StreamOf(st)
	if err != nil {
		return nil, failed("blas.New", nil, err)
	}
	h := &Handle{st: st, queue: queue, context: aclrtContext(st.ContextHandle())}
	if h.handle, err = aclblasCreate(h.context); err != nil {
		return nil, failed("blas.New", nil, err)
	}
	if err := aclblasSetStream(h.context, h.handle, aclrtStream(st.Handle())); err != nil {
		return nil, errors.Join(failed("blas.New", nil, err), h.Close())
	}
	return h, nil
}

// SetWorkspace gives the library device memory for what it stores meanwhile, in place of its own (aclblasSetWorkspace). A smaller
// buffer than the one before is not taken. It waits for the stream. The buffer stays the caller's, and must be open as long
// as the handle.
func (h *Handle) SetWorkspace(b *acl.Buffer) error {
	return h.call("Handle.SetWorkspace", []operand{{name: "workspace", data: b, bytes: 1}}, func() error {
		h.workspace = b
		return aclblasSetWorkspace(h.context, h.handle, b.Address(), uint64(b.Size()))
	})
}

// Version returns the library's version, such as 10000 for 1.0.0 (aclblasGetVersion).
func (h *Handle) Version() (version int, err error) {
	err = h.call("Handle.Version", nil, func() error {
		v, err := aclblasGetVersion(h.context, h.handle)
		version = int(v)
		return err
	})
	return version, err
}

// Close waits for the stream and destroys the handle (aclblasDestroy). A second Close does nothing.
func (h *Handle) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handle == 0 {
		return nil
	}
	if err := aclblasDestroy(h.context, h.handle); err != nil {
		return failed("Handle.Close", nil, err)
	}
	h.handle = 0
	return nil
}

// Vector is N elements of device memory, Inc apart. An Inc of 0 is 1; with a negative one the first element has the highest
// address, as in BLAS.
type Vector struct {
	Data   *acl.Buffer
	Offset int         // of the element with the lowest address, in elements
	DType  aclnn.DType // the zero value is float32
	N, Inc int
}

// Matrix is Rows x Cols elements of device memory, column by column. Columns are LD elements apart; an LD of 0 is Rows.
type Matrix struct {
	Data           *acl.Buffer
	Offset         int // in elements
	DType          aclnn.DType
	Rows, Cols, LD int
}

// Triangle selects the part of a symmetric or triangular matrix that is stored. There is no zero value.
type Triangle int32

// The triangles.
const (
	Upper Triangle = abi.ACLBLAS_UPPER
	Lower Triangle = abi.ACLBLAS_LOWER
)

// Transpose selects the form in which a matrix is multiplied. There is no zero value.
type Transpose int32

// The forms of a matrix.
const (
	NoTrans   Transpose = abi.ACLBLAS_OP_N
	Trans     Transpose = abi.ACLBLAS_OP_T
	ConjTrans Transpose = abi.ACLBLAS_OP_C
)

// Diagonal says what is on the diagonal of a triangular matrix. There is no zero value.
type Diagonal int32

// The diagonals.
const (
	NonUnit Diagonal = abi.ACLBLAS_NON_UNIT
	Unit    Diagonal = abi.ACLBLAS_UNIT // ones, whatever is stored
)

// Side is the place of the special matrix of a product. There is no zero value.
type Side int32

// The sides.
const (
	Left  Side = abi.ACLBLAS_SIDE_LEFT
	Right Side = abi.ACLBLAS_SIDE_RIGHT
)

// operand is a view as a call checks it.
type operand struct {
	name  string
	data  *acl.Buffer
	text  string
	bytes int // from the buffer's start to the view's end
	empty bool
	wrong string // why it is no view
}

func (v Vector) inc() int {
	if v.Inc == 0 {
		return 1
	}
	return v.Inc
}

func (v Vector) operand(name string) operand {
	o := operand{name: name, data: v.Data, text: fmt.Sprintf("%s %v[%d]", name, v.DType, v.N), empty: v.N == 0}
	if v.inc() != 1 {
		o.text += fmt.Sprintf(" by %d", v.inc())
	}
	size := v.DType.Size()
	switch inc := max(v.inc(), -v.inc()); {
	case v.N < 0 || v.Offset < 0 || size == 0:
		o.wrong = "a negative length or offset, or no element type"
	case v.N > math.MaxInt32 || inc > math.MaxInt32 || inc < 0:
		o.wrong = "a length or stride beyond 32 bits, which the library takes"
	case v.N > 0:
		o.bytes = extent(v.Offset, size, [2]int{v.N, inc})
	}
	return o
}

func (m Matrix) ld() int {
	if m.LD == 0 {
		return max(1, m.Rows)
	}
	return m.LD
}

func (m Matrix) operand(name string) operand {
	o := operand{name: name, data: m.Data, text: fmt.Sprintf("%s %v[%d,%d]", name, m.DType, m.Rows, m.Cols), empty: m.Rows == 0 || m.Cols == 0}
	if m.ld() != m.Rows {
		o.text += fmt.Sprintf(" by %d", m.ld())
	}
	size := m.DType.Size()
	switch {
	case m.Rows < 0 || m.Cols < 0 || m.Offset < 0 || size == 0:
		o.wrong = "a negative size or offset, or no element type"
	case max(m.Rows, m.Cols, m.ld()) > math.MaxInt32:
		o.wrong = "a size beyond 32 bits, which the library takes"
	case m.ld() < max(1, m.Rows):
		o.wrong = fmt.Sprintf("columns of %d elements that are %d apart", m.Rows, m.ld())
	case !o.empty:
		o.bytes = extent(m.Offset, size, [2]int{m.Rows, 1}, [2]int{m.Cols, m.ld()})
	}
	return o
}

// extent returns the bytes from the start of a buffer to the end of a view, whose counts are positive; -1 if there are more than
// any buffer has.
func extent(offset, size int, of ...[2]int) int {
	const most = 1 << 46
	last := offset
	for _, d := range of {
		if d[1] > most/d[0] {
			return -1
		}
		last += (d[0] - 1) * d[1]
	}
	if last >= most {
		return -1
	}
	return (last + 1) * size
}

// address of the first element of the lowest address; 0 of an empty view.
func (v Vector) address() uint64 { return at(v.Data, v.Offset, v.DType, v.N == 0) }
func (m Matrix) address() uint64 { return at(m.Data, m.Offset, m.DType, m.Rows == 0 || m.Cols == 0) }

func at(b *acl.Buffer, offset int, dt aclnn.DType, empty bool) uint64 {
	if empty && b == nil {
		return 0
	}
	return b.Address() + uint64(offset*dt.Size())
}

// call checks the operands, notes the stream as a user of their memory, and calls the library.
func (h *Handle) call(op string, operands []operand, f func() error) error {
	if h == nil || h.st == nil {
		return fmt.Errorf("%s: %w: the handle is nil, or was not made by this package", op, acl.ErrInvalidArgument)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handle == 0 {
		return failed(op, operands, fmt.Errorf("%w: the handle is closed", acl.ErrClosed))
	}
	for _, o := range operands {
		switch {
		case o.wrong != "":
			return failed(op, operands, fmt.Errorf("%w: %s: %s", acl.ErrInvalidArgument, o.name, o.wrong))
		case o.data == nil && !o.empty:
			return failed(op, operands, fmt.Errorf("%w: %s has no buffer", acl.ErrInvalidArgument, o.name))
		case o.data != nil && (o.bytes < 0 || o.bytes > o.data.Size()):
			return failed(op, operands, fmt.Errorf("%w: %s ends beyond its buffer of %d bytes", acl.ErrInvalidArgument, o.name, o.data.Size()))
		case o.data != nil:
			if err := h.queue.Use(bridge.MemoryOf(o.data)); err != nil {
				return failed(op, operands, err)
			}
		}
	}
	if err := f(); err != nil {
		return failed(op, operands, err)
	}
	return nil
}

// refuse is call for arguments that do not fit each other.
func refuse(op string, operands []operand, format string, args ...any) error {
	return failed(op, operands, fmt.Errorf("%w: %s", acl.ErrInvalidArgument, fmt.Sprintf(format, args...)))
}

// typed refuses element types for which the library has no function.
func typed(op string, operands []operand, names string) error {
	return failed(op, operands, fmt.Errorf("%w: the library has the function for %s", acl.ErrNotSupported, names))
}

// Error is a failed or refused call of a handle.
type Error struct {
	Op       string   // such as "Handle.Gemm"
	Operands []string // "a float32[2,3]"
	Code     int32    // aclblasStatus_t; 0 when the library was not called
	Err      error    // an error of acl, *cshim.Error, or both
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s(%s): %v", e.Op, strings.Join(e.Operands, ", "), e.Err)
}

// Unwrap returns the cause for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

func failed(op string, operands []operand, err error) error {
	e := &Error{Op: op, Err: err}
	for _, o := range operands {
		e.Operands = append(e.Operands, o.text)
	}
	var c *cshim.Error
	var library *cshim.LibraryError
	var symbol *cshim.SymbolError
	switch {
	case errors.As(err, &c):
		e.Code = c.Code
		if class := codeClasses[c.Code]; class != nil {
			e.Err = fmt.Errorf("%w: %w", class, err)
		}
	case errors.As(err, &symbol):
		e.Err = fmt.Errorf("%w: %w; ops-blas has each function for some chips only", acl.ErrNotSupported, err)
	case errors.As(err, &library):
		e.Err = fmt.Errorf("%w: %w; build ops-blas and install it beside CANN", acl.ErrNotInstalled, err)
	}
	return e
}

// codeClasses maps aclblasStatus_t codes to the errors of package acl.
var codeClasses = map[int32]error{
	abi.ACLBLAS_STATUS_NOT_INITIALIZED: acl.ErrClosed, abi.ACLBLAS_STATUS_ALLOC_FAILED: acl.ErrOutOfMemory,
	abi.ACLBLAS_STATUS_INVALID_VALUE: acl.ErrInvalidArgument, abi.ACLBLAS_STATUS_INVALID_ENUM: acl.ErrInvalidArgument,
	abi.ACLBLAS_STATUS_NOT_SUPPORTED: acl.ErrNotSupported, abi.ACLBLAS_STATUS_ARCH_MISMATCH: acl.ErrNotSupported,
}
