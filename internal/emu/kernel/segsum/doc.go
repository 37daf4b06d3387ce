// Package segsum computes the decays between the positions of a sequence from their logarithms, which
// selective state space models multiply by, and the gradient.
//
//	err := segsum.Exp(out, x) // out[i, j] = exp(x[j+1] + … + x[i])
package segsum
