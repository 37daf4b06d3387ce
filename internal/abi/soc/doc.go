// Package soc holds what CANN's platform files contain about its chips: cores, memory, buffers. The emulator
// has these sizes, and package aclnn/chips returns them to programs. It knows nothing of operators;
// package acceptance does.
//
//	chip, err := soc.Named("Ascend910B1")
//	fmt.Println(chip.Cube, chip.UnifiedBuffer)
package soc
