package safetensors

import (
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/class"
)

// Causes of an *Error, for errors.Is. Each also matches acl.ErrInvalidArgument: another file or
// another request mends it.
var (
	ErrTruncated      = class.Of(class.ErrInvalidArgument, "the file is shorter than its header states")
	ErrHeaderTooLarge = class.Of(class.ErrInvalidArgument, "the header exceeds the format's limit of 100 MB")
	ErrHeader         = class.Of(class.ErrInvalidArgument, "malformed header")
	ErrDuplicate      = class.Of(class.ErrInvalidArgument, "named twice")
	ErrDType          = class.Of(class.ErrInvalidArgument, "unsupported element type")
	ErrShape          = class.Of(class.ErrInvalidArgument, "invalid shape")
	ErrSize           = class.Of(class.ErrInvalidArgument, "the bytes do not match dtype and shape")
	ErrOffsets        = class.Of(class.ErrInvalidArgument, "the data offsets overlap, leave a hole or leave the file")
	ErrNotFound       = class.Of(class.ErrInvalidArgument, "no such tensor")
	ErrIndex          = class.Of(class.ErrInvalidArgument, "malformed index of shards")
	ErrIncomplete     = class.Of(class.ErrInvalidArgument, "tensors were declared and not written")
	ErrRange          = class.Of(class.ErrInvalidArgument, "outside of the tensor")
	ErrValue          = class.Of(class.ErrInvalidArgument, "a value does not fit the element type")
)

// Error describes a fault of a tensor or of a file.
type Error struct {
	Path   string // empty when the file was opened from a reader
	Tensor string // empty when the fault is not one tensor's
	Detail string // what was found where: offsets, sizes, shapes
	Err    error  // one of the causes above, or an error of the file system
}

// longestPart bounds in bytes the name of a tensor, and the text that was found, in an error: the file chooses their lengths.
const longestPart = 300

func short(text string) string {
	if len(text) <= longestPart {
		return text
	}
	return strings.ToValidUTF8(text[:longestPart], "") + " …"
}

// Error joins the parts that are known.
func (e *Error) Error() string {
	parts := []string{"safetensors"}
	if e.Path != "" {
		parts = append(parts, e.Path)
	}
	if e.Tensor != "" {
		parts = append(parts, "tensor "+strconv.Quote(short(e.Tensor)))
	}
	parts = append(parts, e.Err.Error())
	if e.Detail != "" {
		parts = append(parts, short(e.Detail))
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
