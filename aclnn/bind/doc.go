// Bind writes the Go functions of operators from the C headers that declare them: those of a custom operator
// package, or of a CANN that is newer than package aclnn. The functions are like those of aclnn: one struct of
// arguments and one launch for each operator.
//
//	go run github.com/goascend/cann/aclnn/bind@v0.1.0 -headers include -package myops -out zz_myops.go
//
// It reads every *.h file of the folder and the folders in it, and binds each pair of aclnnXGetWorkspaceSize and
// aclnnX. It understands prototypes and is no C parser. An operator whose arguments have no Go form is refused by name.
// Package aclnn/emu emulates the operators in tests; examples/customop shows one from its header on.
package main
