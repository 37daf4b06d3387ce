// Package fourier has the Fourier transform of rows of real numbers, for lengths that are powers of two. Other lengths are
// products with a matrix of roots, in package ops/linalg.
//
// fourier_body.h has the passes, which compute as many rows at once as a vector has elements.
package fourier
