// Package ctc holds the connectionist temporal classification loss of one sequence and its gradient, by
// the forward-backward algorithm over slices of float64. It knows neither views nor batches.
//
//	loss := ctc.Loss{LogProbs: p, Times: 4, Classes: 3, Stride: 3, Target: []int64{1, 2}}
//	alpha := make([]float64, 4*5) // Times × (2·len(Target)+1)
//	nll := loss.Forward(alpha, 5)
package ctc
