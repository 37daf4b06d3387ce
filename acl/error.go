package acl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/class"
)

// Classes of errors, for errors.Is; the package's documentation has what to do about each. Every
// error of this package is an *Error and is of at most one class, of which ErrWrongDevice also
// matches ErrInvalidArgument. Every call that this module refuses without asking CANN matches
// one.
var (
	ErrNotInstalled    = class.ErrNotInstalled
	ErrNotSupported    = class.ErrNotSupported
	ErrInvalidArgument = class.ErrInvalidArgument
	ErrWrongDevice     = class.Of(ErrInvalidArgument, "object of another device or context")
	ErrClosed          = class.ErrClosed
	ErrBusy            = class.ErrBusy
	ErrOutOfMemory     = errors.New("out of memory")
	ErrExhausted       = errors.New("resource exhausted")
	ErrTimeout         = class.ErrTimeout
	ErrAborted         = errors.New("aborted")
	ErrKernel          = errors.New("kernel failed on the device")
	ErrOverflow        = errors.New("numeric overflow")
	ErrDeviceLost      = errors.New("device lost")
	ErrPeerLost        = class.ErrPeerLost
	ErrCapture         = errors.New("not allowed while a graph is captured")
)

// groupHints advise about the codes that have no closer hint.
var groupHints = map[error]string{
	ErrNotInstalled:    "install CANN and its driver and source CANN's set_env.sh, or build with -tags emu for the emulator",
	ErrNotSupported:    "update CANN, the driver and the firmware together",
	ErrInvalidArgument: "CANN's message names the argument",
	ErrClosed:          "do not use an object after Close",
	ErrBusy:            "wait for the work, or close the objects, that still use it",
	ErrWrongDevice:     "use streams, events and buffers of one device together",
	ErrOutOfMemory:     "free buffers, call Allocator.EmptyCache, or make the work smaller; other processes may hold memory of the device",
	ErrExhausted:       "close objects that are no longer needed",
	ErrTimeout:         "wait longer, or look for a task that hangs",
	ErrAborted:         "launch the work again",
	ErrKernel:          "run again with ASCEND_LAUNCH_BLOCKING=1 to find the operator; a buffer freed or overwritten too early is a frequent cause",
	ErrOverflow:        "results hold Inf or NaN; scale the loss or use bfloat16",
	ErrDeviceLost:      "look at npu-smi info and dmesg; reset the device or restart the process",
	ErrPeerLost:        "look at the logs of the other ranks; make a new communicator of those that are left, or restart from a checkpoint",
	ErrCapture:         "make the call before or after the capture",
}

// Error is a failed or refused call.
type Error struct {
	Op      string // C function that failed, such as "aclrtMalloc", or Go call that was refused
	Code    Code   // CANN's code; 0 when CANN was not called, or not to blame
	Name    string // C name of Code
	Message string // what CANN's own text says, in one line, or why the call was refused
	Hint    string // what to do
	Device  int    // -1 when the call concerns none
	Stream  int    // CANN's number of the stream, -1 when the call concerns none

	// Suspects are the operators that may have caused an asynchronous fault, the most likely
	// one first: those of the stream's launches since it was last known to be well.
	Suspects []string
	// Exceptions are the tasks that CANN's exception callback named for the fault.
	Exceptions []Exception

	stopped bool   // failures stop the context of the call
	meaning string // of the code, where the call has more details than the code
	group   error
	cause   error
}

// Error is one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Device >= 0 {
		fmt.Fprintf(&b, " on device %d", e.Device)
		if e.Stream >= 0 {
			fmt.Fprintf(&b, " stream %d", e.Stream)
		}
	}
	if e.Code != 0 {
		fmt.Fprintf(&b, ": %s (%d)", e.Name, int32(e.Code))
		if m := cmp.Or(e.meaning, e.Code.Meaning()); m != "" {
			b.WriteString(": " + m)
		}
	} else if e.group != nil {
		b.WriteString(": " + e.group.Error())
	}
	if e.Message != "" {
		b.WriteString(": " + strings.TrimSpace(e.Message))
	}
	if e.cause != nil {
		b.WriteString(": " + e.cause.Error())
	}
	switch n := len(e.Suspects); {
	case n == 1:
		b.WriteString("; most likely " + e.Suspects[0])
	case n > 1:
		fmt.Fprintf(&b, "; most likely %s, of the last launches %s", e.Suspects[0], strings.Join(e.Suspects, ", "))
	}
	for _, x := range e.Exceptions {
		b.WriteString("; " + x.String())
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	if e.showsDamage() {
		b.WriteString("; " + e.Damage().String())
	}
	return b.String()
}

// Unwrap gives the group and the cause (a context's error, *cshim.LibraryError,
// *cshim.SymbolError) to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	var out []error
	for _, err := range []error{e.group, e.cause} {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// showsDamage reports whether the text has what can still be used: the device or its memory had
// a part in the error. A refused argument leaves everything as it was.
func (e *Error) showsDamage() bool {
	switch e.group {
	case ErrOutOfMemory, ErrExhausted, ErrTimeout, ErrAborted:
		return e.Code != 0
	}
	return e.Damage() != DamageNone
}

// Damage reports what can still be used after the error. Device.Recover brings the device back after
// DamageWork.
func (e *Error) Damage() Damage {
	if e.stopped && e.Code.Damage() == DamageWork && e.group != ErrAborted {
		return DamageContext
	}
	return e.Code.Damage()
}

// refuse is the error of a call that this package did not pass on to CANN.
func refuse(op string, group error, format string, args ...any) *Error {
	hint := groupHints[group]
	if group == ErrInvalidArgument {
		hint = "CANN was not asked; correct the argument that the message names"
	}
	return &Error{Op: op, Message: fmt.Sprintf(format, args...), Hint: hint, Device: -1, Stream: -1, group: group}
}

// wrap makes an *Error of an error of the shim.
func wrap(err error) *Error {
	e := &Error{Device: -1, Stream: -1}
	var failed *cshim.Error
	var symbol *cshim.SymbolError
	var library *cshim.LibraryError
	switch {
	case errors.As(err, &failed):
		e.Op, e.Code, e.Message = failed.Func, Code(failed.Code), failed.Message
		e.Name, e.Hint, e.group = e.Code.String(), e.Code.Hint(), e.Code.group()
		// aclnn reports a failed allocation inside an operator under codes of its own.
		if e.group == nil && outOfMemoryText(e.Message) {
			e.group, e.Hint = ErrOutOfMemory, groupHints[ErrOutOfMemory]
		}
		if (e.Code == abi.ACLNN_ERR_INNER || e.Code == abi.ACLNN_ERR_INNER_NULLPTR) && noKernels(e.Message) {
			missing := codes[561112] // ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND
			e.meaning, e.Hint, e.group = "no operator package for this chip is installed", missing.hint, missing.group
		}
		if log := logHint(e.Code); log != "" {
			e.Hint = strings.TrimPrefix(e.Hint+"; "+log, "; ")
		}
	case errors.As(err, &symbol):
		e.Op, e.group, e.cause = symbol.Symbol, ErrNotSupported, symbol
		e.Hint = groupHints[ErrNotSupported]
	case errors.As(err, &library):
		// The shim's text has what to install.
		e.Op, e.group, e.cause = library.Library.String(), ErrNotInstalled, library
	default:
		e.Op, e.group, e.cause = "acl", ErrInvalidArgument, err
	}
	return e
}

// noKernels reports whether a text says that CANN found no kernels: it reads what an operator package lists when the first
// operator is called, and the code of that failure is one of many others.
func noKernels(s string) bool {
	return strings.Contains(s, "binary_info_config.json") || strings.Contains(s, "opp_kernel") ||
		strings.Contains(s, "Parse dynamic kernel config fail") || strings.Contains(s, "AclOpKernelInit failed")
}

func outOfMemoryText(s string) bool {
	return strings.Contains(s, "EL0004") || strings.Contains(s, "Failed to allocate")
}

// noContext is the error of a wait without a context.
func noContext(op string) *Error {
	return refuse(op, ErrInvalidArgument, "the context.Context is nil; context.Background() never ends")
}

// interrupted is the error of a wait that its context ended. CANN's object is not affected.
func interrupted(op string, ctx context.Context) *Error {
	e := &Error{Op: op, Device: -1, Stream: -1, cause: ctx.Err(), Message: "the wait ended early, the work goes on and can be waited for again"}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.group = ErrTimeout
	}
	return e
}

// codeOf is CANN's code in an error of the shim or of this package, 0 when there is none.
func codeOf(err error) Code {
	var failed *cshim.Error
	if errors.As(err, &failed) {
		return Code(failed.Code)
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
