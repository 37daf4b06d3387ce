package key

import (
	"github.com/goascend/cann/aclnn"
)

// RoPE holds the properties by which kernels of RoPE and RoPEGrad are chosen.
type RoPE struct {
	X, Cos      aclnn.DType // of the features and of the tables
	Dim         int64       // features of a head
	Rotated     int64       // how many of them are rotated
	Pair        bool        // whether there are keys too, with the same first two dimensions
	Heads       int64       // the third dimensions of both tensors together
	Rows        Extent      // the first three dimensions of X together
	Shared      [3]bool     // over which Cos and Sin repeat: {true, false, true} for [1,S,1,R]
	Contiguous  bool        // whether all tensors are contiguous
	Interleaved bool        // whether neighbouring features are pairs, in place of the halves
}

// SwiGLU holds the properties by which kernels of SwiGLU, ClippedSwiGLU and their gradients are chosen.
type SwiGLU struct {
	DType      aclnn.DType // of all tensors
	Width      int64       // of the gate
	Rows       Extent      // all leading dimensions together
	Joined     bool        // whether gate and up are the halves of one tensor, and do not take turns in it
	Contiguous bool        // whether all tensors are contiguous
}
