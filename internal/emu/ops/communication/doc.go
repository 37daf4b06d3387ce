// Package communication holds operators that combine a matrix product with a collective.
//
// A product from package matmul writes to the workspace, the HCCL collective is a stage of phase
// two (op.Call.AllReduce and similar methods), and the rest of the computation is the Run. Plain
// collectives are not operators; they are in package ccl. The exchange of tokens between experts is
// in package moe. The operators of workers that have attention and experts on different devices read
// and write the memory to which a context in device memory points.
//
// Table holds the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package communication

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table holds the operators of the family by name without "aclnn".
var Table = op.Merge(op.Merge(fused, fusedExchanges, fusedExperts, columnExchanges, groupedSums).Exchanges(), schedules, workers)
