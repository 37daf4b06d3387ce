package key

import (
	"github.com/goascend/cann/aclnn"
)

// Activation is an elementwise function that is applied to a product; package ops has its constants.
type Activation uint8

// GroupedMatmul holds the properties by which kernels of GroupedMatmul are chosen.
type GroupedMatmul struct {
	DType           aclnn.DType  // of X, Weight and Out
	Format          aclnn.Format // of Weight, ND or FractalNZ
	Groups, In, Out int64
	Rows            Extent
	// ByRows and ByColumns say how the matrices of Weight are stored: contiguous, or contiguous
	// with the last two dimensions exchanged. Both hold if one of these dimensions is 1.
	ByRows, ByColumns bool
	Host              bool // whether the host knows the groups
	Cumulative        bool // whether the groups are given by their ends
	Bias              bool // whether there is a bias
	Activation        Activation
	Contiguous        bool // whether all tensors but Weight are contiguous
}

// GroupedMatmulGrad holds the properties by which kernels of GroupedMatmulGrad are chosen.
type GroupedMatmulGrad struct {
	GroupedMatmul              // of the product, without bias and activation
	DX             bool        // whether it is computed
	DWeight, DBias aclnn.DType // Undefined if the gradient is not computed
	Accumulate     bool
}

// WeightQuantGroupedMatmul holds the properties by which kernels of WeightQuantGroupedMatmul are chosen.
type WeightQuantGroupedMatmul struct {
	DType           aclnn.DType // of X, Scale, Offset and Out
	Bits            int         // of a code: 8 or 4
	Groups, In, Out int64
	Blocks          int64 // of inputs that share a scale
	Rows            Extent
	ByRows          bool // whether Weight is contiguous, not the transpose of a contiguous tensor
	Host            bool // whether the host knows the groups
	Cumulative      bool // whether the groups are given by their ends
	Offset, Bias    bool // whether there is one
	Contiguous      bool // whether all tensors but Weight are contiguous
}

// Linear holds the properties by which kernels of Linear are chosen.
type Linear struct {
	DType      aclnn.DType // of all tensors
	In, Out    int64       // features
	Rows       Extent      // all leading dimensions of X together
	Bias       bool        // whether there is a bias
	Flat       bool        // whether X and Out can be viewed as matrices [rows, features]
	Contiguous bool        // whether all tensors are contiguous
}

// LinearGrad holds the properties by which kernels of LinearGrad are chosen.
type LinearGrad struct {
	X              aclnn.DType // also of DOut, Weight and DX
	DWeight, DBias aclnn.DType // Undefined if the gradient is not computed
	In, Out        int64       // features
	Rows           Extent      // all leading dimensions of X together
	DX             bool        // whether it is computed
	Accumulate     bool
	Contiguous     bool // whether all tensors are contiguous
}

// MatMul holds the properties by which kernels of MatMul are chosen. Any size may be a number of
// tokens, so all are classes.
type MatMul struct {
	DType          aclnn.DType // of all tensors
	Batch, M, N, K Extent      // [batch, m, k]·[batch, k, n]; Batch is that of Out, all its dimensions together
	// AByColumns and BByColumns say that a factor is the transpose of a contiguous matrix or batch
	// of matrices.
	AByColumns, BByColumns bool
	Contiguous             bool // whether all tensors are contiguous
}

// MatMulGrad holds the properties by which kernels of MatMulGrad are chosen.
type MatMulGrad struct {
	MatMul      // of the forward product, with DOut for Out; Contiguous covers DA and DB too
	DA, DB bool // whether the gradients are computed
}

// SliceToNZ holds the properties by which kernels of SliceToNZ are chosen.
type SliceToNZ struct {
	DType   aclnn.DType
	Ranks   int64 // rows of Gathered
	Batch   int64 // of Out: all dimensions before the last two together
	K, N    int64 // the last two dimensions of Out
	Whole   bool  // whether the columns hold exactly the elements of Out
	Aligned bool  // Start and End are at multiples of 32 bytes in a row of Gathered
}
