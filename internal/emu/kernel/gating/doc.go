// Package gating decides which tokens go to which experts: gating by the largest scores, with and
// without groups of experts, and plans that load every expert evenly.
//
// Moving the tokens is in kernel (Gather and Scatter), and the operators are in ops/moe.
//
//	g := gating.TopK{Scores: scores, TopKFirst: true}
//	err := g.Choose(weights, experts, kernel.View{}, kernel.View{})
package gating
