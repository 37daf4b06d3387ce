// Package soc holds what CANN's platform files say of its chips: cores, memory, buffers. The emulator
// has these sizes, and package aclnn/chips tells them to programs. It says nothing of operators;
// package acceptance does.
//
//	chip, err := soc.Named("Ascend910B1")
//	fmt.Println(chip.Cube, chip.UnifiedBuffer)
package soc
