package op

import "github.com/goascend/cann/internal/abi"

// Codes of phase one (aclnnStatus).
const (
	NullPointer  = int32(abi.ACLNN_ERR_PARAM_NULLPTR)
	InvalidParam = int32(abi.ACLNN_ERR_PARAM_INVALID)
	// Unsupported is the code of format casts that are not supported, and of attributes that some operators refuse last.
	Unsupported = int32(abi.ACLNN_ERR_RUNTIME_ERROR)
	// TilingRefused is the code for shapes and attributes that the tiling of a kernel refuses.
	TilingRefused = int32(abi.ACLNN_ERR_INNER_TILING_ERROR)
	// NoKernel is the code for dtypes that pass the checks but for which no kernel was compiled.
	NoKernel = int32(abi.ACLNN_ERR_INNER_FIND_KERNEL_ERROR)
	// NoStep is the code where a step that the operator consists of, such as a cast, refuses its tensors.
	NoStep = int32(abi.ACLNN_ERR_INNER_NULLPTR)
)
