// Package sampling chooses tokens from a model's logits, on the host.
//
//	s := sampling.New(sampling.Options{Temperature: 0.8, TopP: 0.95, Seed: 7}, prompt)
//	next := s.Next(logits) // [vocabulary]
//	chosen, best := sampling.LogProbs(logits, next, 5)
//
// The package depends neither on models nor on text.
package sampling
