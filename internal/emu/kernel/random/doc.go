// Package random holds the emulator's generator of random numbers, the distributions drawn from it, and
// random choices: dropout and the sampling of candidates by their probabilities.
//
// A number depends on seed, offset and index alone. Operators and the reading of their seeds are
// not here.
//
//	p := random.Philox{Seed: 42}
//	err := p.Uniform(view, -1, 1)
package random
