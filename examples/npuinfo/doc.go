// Command npuinfo lists what this machine offers: CANN's libraries and their paths, the functions
// that they lack, the devices, and the kernels that the operators would choose.
//
//	go run -tags emu ./examples/npuinfo
//	npuinfo -json
//	npuinfo -trace step.json   # what leaves the AI Core in a trace of the emulator
//	npuinfo -flight DIR        # what the ranks of a job did last, from their flight records
//	npuinfo -diff Ascend910B1,Ascend310P3   # cores, memory, operators and element types
//	npuinfo -smoke             # tries every kernel, copies, launches, collectives
package main
