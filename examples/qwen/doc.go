// Package qwen is the Qwen3 family written with this module: configuration and weights in
// Hugging Face's form, forward, backward, and the optimiser step, every operator launched
// through package ops or aclnn.
//
//	m, err := qwen.New(st, reg, cfg, qwen.Options{DType: aclnn.Float32})
//	defer m.Close()
//	err = m.Init(seed) // or m.Load(file)
//	loss, err := m.Step(ctx, qwen.Batch{…}, optimizer)
//
// It is an example to copy from, and what the golden training runs test. There is no tape:
// each layer keeps what its backward pass needs and has the backward pass beside the
// forward one.
package qwen
