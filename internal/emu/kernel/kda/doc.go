// Package kda computes Kimi delta attention, a delta rule whose state decays by a gate of its own for
// each key channel: the gates, and the recurrence of one head token by token. It works on slices of
// float64; the caller reads and writes tensors.
//
//	decay := kda.Gate{Rate: 1, Bias: bias}.Log(row)
//	kda.Step(out, state, q, k, v, decay, beta)
package kda
