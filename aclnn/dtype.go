package aclnn

import "github.com/goascend/cann/internal/dtype"

// DType is the element type of a tensor or scalar (aclDataType). Its methods are String, Valid,
// Bits (of an element), Size (in bytes; 0 for types that share a byte), Bytes (of n elements),
// IsFloat, IsInteger and IsComplex.
type DType = dtype.Type

// Element types. Those of one, four and six bits share bytes.
const (
	Undefined  = dtype.Undefined
	Float32    = dtype.Float32
	Float16    = dtype.Float16
	BFloat16   = dtype.BFloat16
	Float64    = dtype.Float64
	Int8       = dtype.Int8
	Int16      = dtype.Int16
	Int32      = dtype.Int32
	Int64      = dtype.Int64
	Uint8      = dtype.Uint8
	Uint16     = dtype.Uint16
	Uint32     = dtype.Uint32
	Uint64     = dtype.Uint64
	Bool       = dtype.Bool
	Complex32  = dtype.Complex32
	Complex64  = dtype.Complex64
	Complex128 = dtype.Complex128
	Int4       = dtype.Int4
	Uint1      = dtype.Uint1
	HiFloat8   = dtype.HiFloat8
	Float8E5M2 = dtype.Float8E5M2
	Float8E4M3 = dtype.Float8E4M3
	Float8E8M0 = dtype.Float8E8M0
	Float6E3M2 = dtype.Float6E3M2
	Float6E2M3 = dtype.Float6E2M3
	Float4E2M1 = dtype.Float4E2M1
	Float4E1M2 = dtype.Float4E1M2
)

// Format is the storage format of a tensor (aclFormat).
type Format = dtype.Format

// Storage formats. ND is row-major, and so are NCL, NCHW and NCDHW, which say that the second
// dimension counts channels. Convolutions, pooling, resampling and batch norms demand them: the
// functions of this package describe an ND tensor so by its number of dimensions. With the channels
// last a tensor is NHWC or NDHWC, see Tensor.As.
const (
	ND        = dtype.ND
	NCHW      = dtype.NCHW
	NHWC      = dtype.NHWC
	NCDHW     = dtype.NCDHW
	NDHWC     = dtype.NDHWC
	NCL       = dtype.NCL
	NC1HWC0   = dtype.NC1HWC0
	FractalZ  = dtype.FractalZ
	FractalNZ = dtype.FractalNZ
)
