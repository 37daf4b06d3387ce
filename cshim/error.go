package cshim

import (
	"fmt"
	"strings"
)

// Error is a non-zero code that a C function returned.
type Error struct {
	Func    string // C name
	Code    int32
	Message string // aclGetRecentErrMsg of the thread that failed, "" when there was none
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

// LibraryError says that no library of a group could be opened.
type LibraryError struct {
	Library Library
	Tried   []Attempt
}

func (e *LibraryError) Error() string {
	return fmt.Sprintf("CANN library %v not found; tried %s; source CANN's set_env.sh (it sets ASCEND_HOME_PATH and LD_LIBRARY_PATH), or build with -tags emu for the emulator",
		e.Library, attempts(e.Tried))
}

// SymbolError says that the libraries of a group are there but lack a function: it belongs
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

func attempts(tried []Attempt) string {
	s := make([]string, len(tried))
	for i, a := range tried {
		s[i] = fmt.Sprintf("%s (%s)", a.Path, a.Reason)
	}
	return strings.Join(s, ", ")
}
