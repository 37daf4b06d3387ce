// Package recurrent has layers that carry a state from token to token: LSTM, GRU, and the gated delta rule in chunks and in
// steps, each with its gradients.
//
// All are chains of other kernels, in Go. A new cell is a step function of [Recurrence], or functions like those of delta.go.
package recurrent
