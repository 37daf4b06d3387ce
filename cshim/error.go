package cshim

import (
	"fmt"
	"strings"

	"github.com/goascend/cann/internal/class"
)

// Error is a non-zero code that a C function returned.
type Error struct {
	Func    string // C name
	Code    int32
	Message string // one line of what aclGetRecentErrMsg had for the call on its thread, "" when there was nothing
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%s: code %d", e.Func, e.Code)
	}
	return fmt.Sprintf("%s: code %d: %s", e.Func, e.Code, e.Message)
}

// Attempt is one place where a library or symbol was looked for.
type Attempt struct {
	Path   string
	Reason string
}

// LibraryError is the error when no library of a group could be opened.
type LibraryError struct {
	Library Library
	Tried   []Attempt
	// Build is the platform of the program, such as "darwin/arm64", when such a program can
	// open no CANN library; else "".
	Build string
}

func (e *LibraryError) Error() string {
	if e.Build != "" {
		return fmt.Sprintf("CANN library %v cannot be opened by a program built for %s: CANN and its emulator need Linux on amd64 or arm64, and cgo; build and run the program there or in a Linux container, with CGO_ENABLED=1 and gcc",
			e.Library, e.Build)
	}
	remedy := "source CANN's set_env.sh (it sets ASCEND_HOME_PATH and LD_LIBRARY_PATH)"
	if e.Library == Driver {
		remedy = "install the driver, or give its folder to the container"
	}
	return fmt.Sprintf("CANN library %v not found; tried %s; %s, or build with -tags emu for the emulator", e.Library, attempts(e.Tried), remedy)
}

// SymbolError is the error when the libraries of a group are there and lack a function: it belongs
// to another CANN version or to an operator package that is not installed.
type SymbolError struct {
	Symbol  string
	Library Library
	Tried   []Attempt
}

func (e *SymbolError) Error() string {
	return fmt.Sprintf("CANN function %s not found; tried %s; this CANN version or the installed operator packages do not have it",
		e.Symbol, attempts(e.Tried))
}

// FormError is the error of an operator that the installed release has with other parameters than the program passes.
type FormError struct {
	Symbol    string
	Installed string // the release
}

func (e *FormError) Error() string {
	return fmt.Sprintf("CANN function %s has other parameters in the installed CANN %s than this program passes, so that it is not called; install another release, or call another operator",
		e.Symbol, e.Installed)
}

// Unwrap gives the class of the error, acl.ErrNotSupported, to errors.Is.
func (e *FormError) Unwrap() error { return class.ErrNotSupported }

// Unwrap gives the class of the error, acl.ErrNotInstalled, to errors.Is.
func (e *LibraryError) Unwrap() error { return class.ErrNotInstalled }

// Unwrap gives the class of the error, acl.ErrNotSupported, to errors.Is.
func (e *SymbolError) Unwrap() error { return class.ErrNotSupported }

// refuse is the error of a call that C is not asked for; it matches acl.ErrInvalidArgument.
func refuse(format string, args ...any) error {
	return class.Of(class.ErrInvalidArgument, fmt.Sprintf(format, args...))
}

func attempts(tried []Attempt) string {
	s := make([]string, len(tried))
	for i, a := range tried {
		s[i] = fmt.Sprintf("%s (%s)", a.Path, a.Reason)
	}
	return strings.Join(s, ", ")
}
