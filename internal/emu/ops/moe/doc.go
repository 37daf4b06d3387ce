// Package moe holds the routing of tokens to experts and back.
//
// It covers gating, permutation, dispatch to the ranks that hold the experts, and combination of
// their results. The experts' products are in package matmul.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package moe

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(barriers, distributions, experts, linkTests)
