package safetensors

import (
	"errors"
	"strconv"
	"strings"
)

// Causes of an *Error, for errors.Is.
var (
	ErrTruncated      = errors.New("the file is shorter than it says")
	ErrHeaderTooLarge = errors.New("the header exceeds the format's limit of 100 MB")
	ErrHeader         = errors.New("malformed header")
	ErrDuplicate      = errors.New("named twice")
	ErrDType          = errors.New("unsupported element type")
	ErrShape          = errors.New("invalid shape")
	ErrSize           = errors.New("the bytes do not match dtype and shape")
	ErrOffsets        = errors.New("the data offsets overlap, leave a hole or leave the file")
	ErrNotFound       = errors.New("no such tensor")
	ErrIndex          = errors.New("malformed index of shards")
	ErrIncomplete     = errors.New("tensors were declared and not written")
)

// Error says which file and which tensor are wrong, and how. Err is one of the causes above
// or an error of the file system.
type Error struct {
	Path   string // empty when the file was opened from a reader
	Tensor string // empty when the fault is not one tensor's
	Detail string
	Err    error
}

// Error joins the parts that are known.
func (e *Error) Error() string {
	parts := []string{"safetensors"}
	if e.Path != "" {
		parts = append(parts, e.Path)
	}
	if e.Tensor != "" {
		parts = append(parts, "tensor "+strconv.Quote(e.Tensor))
	}
	parts = append(parts, e.Err.Error())
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
