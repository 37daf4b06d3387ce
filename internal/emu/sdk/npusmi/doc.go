// Command npusmi answers for the emulated devices as npu-smi does for those of a machine: programs
// and build systems ask it for the chip.
//
//	npu-smi info       the table; the name of the first chip is field 3 of line 7
//	npu-smi info -l    the devices and the number of their chips
//	npu-smi info -m    the chips and their logical numbers
//
// It reads the same CANN_EMU_ variables as the emulator, CANN_EMU_HEALTH among them. Use and processes are
// not emulated: each device is idle. It has no other command of npu-smi.
package main
