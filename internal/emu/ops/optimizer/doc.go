// Package optimizer holds update steps of parameters, loss scaling, and checks for silent errors.
//
// An operator updates parameters and states in place, for one tensor or lists of tensors.
// Reducing gradients over ranks is the task of HCCL.
//
// Table names the operators; package nn joins the tables, and a test calls one with
// package optest:
//
//	optest.Run(t, name, optest.Args{"self": x, "out": y})
package optimizer

import (
	"github.com/goascend/cann/internal/emu/op"
)

// Table lists the operators of the package by name, without the prefix "aclnn".
var Table = op.Merge(lossScalings, optimizers, silentChecks)
