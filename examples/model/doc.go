// Package model implements decoder-only language models, of which ModelTypes lists the families, with this module: configuration and weights in
// Hugging Face's formats, forward and backward pass, and optimiser step. Every operator is launched through
// package ops or aclnn.
//
//	m, err := model.New(st, reg, cfg, aclnn.Float32)
//	defer m.Close()
//	err = m.Init(ctx, seed) // or m.Load(ctx, folder)
//	loss, err := m.Gradients(ctx, model.Batch{…})
//	norm, err := optimizer.Step(ctx)
//
// With Config.Frozen, adapters are trained in place of the weights (NewAdapter): one at a time with Use, or several in
// one pass with UseEach and GradientsEach.
//
// A Decoder and a Trainer replay their steps as captured graphs. Pages and Advance read many sequences
// of different lengths in one pass, which Steps replay as graphs. Quantize converts weights to int8.
//
// It serves as an example and is tested against golden training runs. The layers are forward passes on a tape of
// package autograd, which computes the gradients and frees each value after its last use; generation and evaluation run
// the same passes on a tape that records nothing.
package model
