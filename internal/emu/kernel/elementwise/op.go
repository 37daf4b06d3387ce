package elementwise

// #include "op.h"
import "C"

// Op is an element-wise operator of Map. The formulas are in op.h, where x, y and z are the
// inputs in order and u, v and w the parameters.
type Op int32

// Defined for every class.
const (
	Identity      Op = C.OP_COPY
	Neg           Op = C.OP_NEG
	Sign          Op = C.OP_SIGN
	Square        Op = C.OP_SQUARE
	Cube          Op = C.OP_CUBE
	Relu          Op = C.OP_RELU
	Add           Op = C.OP_ADD
	ReverseSub    Op = C.OP_RSUB
	Mul           Op = C.OP_MUL
	Max           Op = C.OP_MAX
	Min           Op = C.OP_MIN
	Equal         Op = C.OP_EQ
	NotEqual      Op = C.OP_NE
	Less          Op = C.OP_LT
	LessEqual     Op = C.OP_LE
	Greater       Op = C.OP_GT
	GreaterEqual  Op = C.OP_GE
	LogicalAnd    Op = C.OP_AND
	LogicalOr     Op = C.OP_OR
	LogicalXor    Op = C.OP_XOR
	LogicalNot    Op = C.OP_NOT
	Where         Op = C.OP_WHERE
	Heaviside     Op = C.OP_HEAVISIDE
	Clamp         Op = C.OP_CLAMP
	Threshold     Op = C.OP_THRESHOLD
	ThresholdGrad Op = C.OP_THRESHOLD_GRAD
	Addcmul       Op = C.OP_ADDCMUL
	MulNoNan      Op = C.OP_MUL_NO_NAN
)

// Defined for every class, in one form for floats and one for integers.
const (
	Abs       Op = C.OP_ABS
	Div       Op = C.OP_DIV
	TruncDiv  Op = C.OP_TRUNC_DIV
	FloorDiv  Op = C.OP_FLOOR_DIV
	Fmod      Op = C.OP_FMOD
	Remainder Op = C.OP_REMAINDER
	Pow       Op = C.OP_POW
	Addcdiv   Op = C.OP_ADDCDIV
	Signbit   Op = C.OP_SIGNBIT
)

// Defined for float and double.
const (
	Sqrt            Op = C.OP_SQRT
	Rsqrt           Op = C.OP_RSQRT
	Reciprocal      Op = C.OP_RECIPROCAL
	Floor           Op = C.OP_FLOOR
	Ceil            Op = C.OP_CEIL
	Trunc           Op = C.OP_TRUNC
	Round           Op = C.OP_ROUND
	RoundDecimals   Op = C.OP_ROUND_DECIMALS
	Frac            Op = C.OP_FRAC
	IsFinite        Op = C.OP_IS_FINITE
	IsInf           Op = C.OP_IS_INF
	IsPosInf        Op = C.OP_IS_POS_INF
	IsNegInf        Op = C.OP_IS_NEG_INF
	IsClose         Op = C.OP_IS_CLOSE
	NanToNum        Op = C.OP_NAN_TO_NUM
	Lerp            Op = C.OP_LERP
	LeakyRelu       Op = C.OP_LEAKY_RELU
	LeakyReluGrad   Op = C.OP_LEAKY_RELU_GRAD
	HardSigmoid     Op = C.OP_HARD_SIGMOID
	HardSigmoidGrad Op = C.OP_HARD_SIGMOID_GRAD
	HardSwish       Op = C.OP_HARD_SWISH
	HardSwishGrad   Op = C.OP_HARD_SWISH_GRAD
	HardTanhGrad    Op = C.OP_HARD_TANH_GRAD
	HardShrink      Op = C.OP_HARD_SHRINK
	SoftShrink      Op = C.OP_SOFT_SHRINK
	Shrink          Op = C.OP_SHRINK
	ShrinkGrad      Op = C.OP_SHRINK_GRAD
	SoftSign        Op = C.OP_SOFT_SIGN
	SoftSignGrad    Op = C.OP_SOFT_SIGN_GRAD
	SigmoidGrad     Op = C.OP_SIGMOID_GRAD
	TanhGrad        Op = C.OP_TANH_GRAD
	SqrtGrad        Op = C.OP_SQRT_GRAD
	MaskedScale     Op = C.OP_MASKED_SCALE

	SquaredError      Op = C.OP_SQUARED_ERROR
	SquaredErrorGrad  Op = C.OP_SQUARED_ERROR_GRAD
	AbsoluteError     Op = C.OP_ABSOLUTE_ERROR
	AbsoluteErrorGrad Op = C.OP_ABSOLUTE_ERROR_GRAD
	SubMul            Op = C.OP_SUB_MUL
	SmoothError       Op = C.OP_SMOOTH_ERROR
	SmoothErrorGrad   Op = C.OP_SMOOTH_ERROR_GRAD

	Prelu           Op = C.OP_PRELU
	PreluGrad       Op = C.OP_PRELU_GRAD
	PreluWeightGrad Op = C.OP_PRELU_WEIGHT_GRAD
)

// Defined for integers.
const (
	BitAnd     Op = C.OP_BIT_AND
	BitOr      Op = C.OP_BIT_OR
	BitXor     Op = C.OP_BIT_XOR
	BitNot     Op = C.OP_BIT_NOT
	ShiftLeft  Op = C.OP_SHIFT_LEFT
	ShiftRight Op = C.OP_SHIFT_RIGHT
	GCD        Op = C.OP_GCD
)

// Elementary functions and activations: float and double.
const (
	Exp            Op = C.OP_EXP
	Exp2           Op = C.OP_EXP2
	Expm1          Op = C.OP_EXPM1
	Log            Op = C.OP_LOG
	Log2           Op = C.OP_LOG2
	Log10          Op = C.OP_LOG10
	Log1p          Op = C.OP_LOG1P
	Sin            Op = C.OP_SIN
	Cos            Op = C.OP_COS
	Tanh           Op = C.OP_TANH
	Erf            Op = C.OP_ERF
	Sigmoid        Op = C.OP_SIGMOID
	Swish          Op = C.OP_SWISH
	SwishGrad      Op = C.OP_SWISH_GRAD
	Gelu           Op = C.OP_GELU
	GeluGrad       Op = C.OP_GELU_GRAD
	GeluTanh       Op = C.OP_GELU_TANH
	GeluTanhGrad   Op = C.OP_GELU_TANH_GRAD
	FastGelu       Op = C.OP_FAST_GELU
	FastGeluGrad   Op = C.OP_FAST_GELU_GRAD
	Softplus       Op = C.OP_SOFTPLUS
	SoftplusGrad   Op = C.OP_SOFTPLUS_GRAD
	LogSigmoid     Op = C.OP_LOG_SIGMOID
	LogSigmoidGrad Op = C.OP_LOG_SIGMOID_GRAD
	Mish           Op = C.OP_MISH
	MishGrad       Op = C.OP_MISH_GRAD
	Elu            Op = C.OP_ELU
	EluGrad        Op = C.OP_ELU_GRAD
	EluResultGrad  Op = C.OP_ELU_RESULT_GRAD
	LogAddExp      Op = C.OP_LOG_ADD_EXP
)

// Rare functions: float and double, computed in double.
const (
	Tan        Op = C.OP_TAN
	Sinh       Op = C.OP_SINH
	Cosh       Op = C.OP_COSH
	Asin       Op = C.OP_ASIN
	Acos       Op = C.OP_ACOS
	Atan       Op = C.OP_ATAN
	Asinh      Op = C.OP_ASINH
	Acosh      Op = C.OP_ACOSH
	Atanh      Op = C.OP_ATANH
	Atan2      Op = C.OP_ATAN2
	Erfc       Op = C.OP_ERFC
	Erfinv     Op = C.OP_ERFINV
	Lgamma     Op = C.OP_LGAMMA
	Digamma    Op = C.OP_DIGAMMA
	Sinc       Op = C.OP_SINC
	Logit      Op = C.OP_LOGIT
	LogitGrad  Op = C.OP_LOGIT_GRAD
	XLogY      Op = C.OP_XLOGY
	XLog1pY    Op = C.OP_XLOG1PY
	LogAddExp2 Op = C.OP_LOG_ADD_EXP2
	AcosGrad   Op = C.OP_ACOS_GRAD
	AtanGrad   Op = C.OP_ATAN_GRAD
	AsinhGrad  Op = C.OP_ASINH_GRAD
)

// Losses of a prediction x and a target y, and their derivatives with respect to one of them. z
// is the weight of the positive class; the Log forms take the logarithm of the target.
const (
	BinaryEntropy                 Op = C.OP_BINARY_ENTROPY
	BinaryEntropySlope            Op = C.OP_BINARY_ENTROPY_SLOPE
	LogitEntropy                  Op = C.OP_LOGIT_ENTROPY
	LogitEntropySlope             Op = C.OP_LOGIT_ENTROPY_SLOPE
	LogitEntropyTargetSlope       Op = C.OP_LOGIT_ENTROPY_TARGET_SLOPE
	RelativeEntropy               Op = C.OP_RELATIVE_ENTROPY
	RelativeEntropySlope          Op = C.OP_RELATIVE_ENTROPY_SLOPE
	RelativeEntropyTargetSlope    Op = C.OP_RELATIVE_ENTROPY_TARGET_SLOPE
	LogRelativeEntropy            Op = C.OP_LOG_RELATIVE_ENTROPY
	LogRelativeEntropySlope       Op = C.OP_LOG_RELATIVE_ENTROPY_SLOPE
	LogRelativeEntropyTargetSlope Op = C.OP_LOG_RELATIVE_ENTROPY_TARGET_SLOPE
	SoftMargin                    Op = C.OP_SOFT_MARGIN
	SoftMarginSlope               Op = C.OP_SOFT_MARGIN_SLOPE
)
