package safetensors

import "github.com/goascend/cann/internal/safetensors"

// Error describes a fault of a tensor or of a file: Path (empty when the file was opened
// from a reader), Tensor (empty when the fault is not one tensor's), Detail (what was found where)
// and Err, which is one of the causes below or an error of the file system. Unwrap returns Err.
type Error = safetensors.Error

// Causes of an *Error, for errors.Is. Each also matches acl.ErrInvalidArgument: another file or
// another request mends it.
var (
	ErrTruncated      = safetensors.ErrTruncated      // the file is shorter than its header states
	ErrHeaderTooLarge = safetensors.ErrHeaderTooLarge // the header exceeds the format's limit of 100 MB
	ErrHeader         = safetensors.ErrHeader         // malformed header
	ErrDuplicate      = safetensors.ErrDuplicate      // named twice
	ErrDType          = safetensors.ErrDType          // unsupported element type
	ErrShape          = safetensors.ErrShape          // invalid shape
	ErrSize           = safetensors.ErrSize           // the bytes do not match dtype and shape
	ErrOffsets        = safetensors.ErrOffsets        // the data offsets overlap, leave a hole or leave the file
	ErrNotFound       = safetensors.ErrNotFound       // no such tensor
	ErrIndex          = safetensors.ErrIndex          // malformed index of shards
	ErrIncomplete     = safetensors.ErrIncomplete     // tensors were declared and not written
	ErrRange          = safetensors.ErrRange          // outside of the tensor
	ErrValue          = safetensors.ErrValue          // a value does not fit the element type
)
