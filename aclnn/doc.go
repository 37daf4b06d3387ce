// Package aclnn launches CANN's operators: one Go function per aclnn operator, with a
// parameter struct in the C order, over tensors that are plain descriptors.
//
//	x, err := aclnn.FromSlice(ctx, st, aclnn.BFloat16, []float32{1, 2, 3, 4}, 2, 2)
//	defer x.Close()
//	y, err := aclnn.New(st, aclnn.BFloat16, 2, 2)
//	defer y.Close()
//	err = aclnn.Add(st, aclnn.AddParams{Self: x, Other: x.Transpose(0, 1), Alpha: aclnn.Float(1), Out: y})
//	err = aclnn.Print(ctx, st, os.Stdout, y)
//	values, err := aclnn.ToSlice[float32](ctx, st, y)
//
// Start with [Tensor], [FromSlice], [ToSlice] and [New]; [Scalar]; [Scope], [Compose] and [Launch] for
// computations of several launches; [Print]; [Load] and [Save] for safetensors files; [Prepare] for a
// call that repeats. Everything else is an operator; the families are below.
//
// # Launches
//
// Operators are queued, not run: the call returns when CANN has accepted the launch, and an
// error of the kernel itself comes from the next Synchronize. Optional tensors are nil
// pointers, absent scalars the zero Scalar, absent arrays nil; output tensors are the
// caller's. Operators on images and volumes get the format that they demand, NCL, NCHW or NCDHW, from
// the number of dimensions; [Tensor.As] describes a tensor in another one.
//
// The package has no process-wide state that a program sets. It checks nothing that CANN checks:
// shapes and dtypes come back as CANN's codes, with the tensors described in the error. Package ops
// checks before it launches, chooses among kernels and knows gradients.
//
// # Which copy do I want
//
//	from → to                          function                      converts      waits
//	Go slice → new tensor              FromSlice                     yes           for staging memory
//	Go slice → tensor, contiguous ND   CopyToDevice                  no            for staging memory
//	tensor, any layout → new slice     ToSlice                       yes           for the stream
//	tensor, contiguous ND → slice      CopyFromDevice                no            for the stream
//	safetensors file → new tensor      Load                          yes           for staging memory
//	safetensors file → tensor          LoadInto                      yes           for staging memory
//	tensor → safetensors file          Save                          yes           for the stream
//	tensor → tensor                    Copy (aclnnInplaceCopy)       yes           no
//	tensor → new tensor                Clone                         no            no
//	tensor → one without gaps, in ND   Contiguous: a view if it is   no            no
//	tensor → another dtype             Scope.Cast, Cast              yes           no
//	ND ↔ FRACTAL_NZ                    Copy, with AsNZ on one side   no            no
//	the same memory, another shape     Reshape, Transpose, Permute, Slice, Narrow, Select, Unflatten,
//	                                   Unsqueeze, Squeeze, Expand: views, which copy nothing
//	the same memory, another format    As, AsNZ, AsND: views
//	buffer → buffer, bytes             acl.Stream.Copy               no            no
//
// In a scope, [Scope.Copy], [Scope.Cast] and [Scope.Contiguous] do the same with scratch tensors. Sizes in
// bytes are int everywhere; numbers of elements and dimensions are int64, as CANN's are.
//
// # Errors
//
// What only describes carries its error: an impossible view ([Tensor.Err]), an impossible scalar
// ([Scalar.Err]) and a tensor from a scope that has failed are values, so that calls can be chained, and
// every launch, copy and wait that gets one returns its error. What makes, queues or waits returns an
// error and then no result: the tensor, slice or executor beside an error is nil, and nothing needs to be
// closed. A [Scope] keeps the first error and launches nothing after it; Err returns it, and Compose
// returns it to its caller.
//
// What this package refuses matches package acl's errors with errors.Is, [acl.ErrInvalidArgument] most
// often. An operator's error is an [*Error], which has the C name, the tensors and the cause; errors.As
// finds [*acl.Error] with CANN's code in it.
//
// # Operators by family
//
// Each family is a file, zz_family.go. The list with families, documents and element types of all operators is
// testdata/zz_operators.md.
//
//	elementwise    192  Add, Mul, Div, Exp, Clamp, Sqrt: arithmetic on each element
//	comparison      44  EqTensor, GtScalar, LogicalAnd, IsInf
//	activation      96  Relu, GeluV2, Silu, SwiGlu, Softmax and their gradients
//	reduction       50  ReduceSum, Mean, Amax, ArgMax, Topk, Sort, Cumsum
//	matmul          79  Matmul, BatchMatMul, Addmm, GroupedMatmulV4, QuantMatmulV4
//	attention      129  FlashAttentionScore, FusedInferAttentionScoreV3, RotaryPositionEmbedding
//	moe             52  MoeInitRoutingV2, MoeGatingTopKSoftmax, MoeDistributeDispatch
//	normalization   61  RmsNorm, LayerNorm, AddRmsNorm, BatchNorm, GroupNorm
//	loss            31  CrossEntropyLoss, MseLoss, NLLLoss, KlDiv
//	optimizer       16  ApplyAdamWV2, FusedAdamw, FusedSgd
//	index           58  Embedding, Gather, Scatter, IndexSelect, InplaceMaskedFillScalar
//	layout          62  Cast, Cat, Permute, InplaceCopy, InplaceFillScalar, InplaceZero
//	foreach         77  ForeachAddList, ForeachMulScalar: one operator on a list of tensors
//	quantization    51  AscendQuant, DynamicQuant, AscendAntiQuant
//	communication   48  MatmulAllReduce, AllGatherMatmul: products fused with collectives
//	recurrent       26  LSTM, GRU, RecurrentGatedDeltaRule
//	convolution     20  Convolution, ConvolutionBackward, CausalConv1d
//	pooling         29  MaxPool, AvgPool2d, AdaptiveAvgPool2d
//	resampling      44  UpsampleBilinear2d, GridSampler2D, Resize, RoiAlign
//	random          31  InplaceNormal, InplaceUniform, DropoutGenMask, Multinomial
//	linalg          17  Inverse, Svd, LinalgQr, TriangularSolve
//
// The functions are generated from the table of CANN's interface, internal/abi; the command aclnn/bind
// writes the same form for operators of a user's own package. A comment says what the operator computes,
// its C name, since which CANN it is there, which chips lack it, and with which dtypes the emulator ran it
// and got the results of the same call in Float32 or Float64 (integers are Int8 to Int64 and Uint8 to
// Uint64; CANN may accept others). Comments of fields say what the Go types do not: which tensors are
// optional or written, how many dimensions they have, and which constants are taken where those are not
// all of an enumeration.
package aclnn
