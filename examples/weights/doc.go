// Package weights loads a model of a family of examples/model for programs that generate: from a Hugging Face
// folder, from a checkpoint of trainstep, or, without either, from a short training on bytes of a text.
//
//	s := weights.Source{Folder: "Qwen3-0.6B", DType: aclnn.BFloat16}
//	m, err := s.Model(ctx, st, reg, os.Stderr)
//	ends, err := s.Ends() // tokens that end a text
package weights
