// Package chips describes the kinds of NPUs: their cores, memory and buffers, which operators each lacks, and the
// element types that each takes, as far as CANN's public sources say. It is for choosing and for
// reports; a program learns about the device that it has from acl.Device.Properties.
//
//	chip, err := chips.Named("Ascend310P3")
//	abs, public := chip.Operator("Abs")
//	fmt.Println(chip.VectorCores, public, abs.Missing, abs.Types["self"])
package chips
