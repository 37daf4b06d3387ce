// Package simulate says how long a program would take on 910 chips that nobody here has: it reads the schedule that the emulator
// writes in the place of computing (CANN_EMU_SCHEDULE), and times it with the figures of a chip.
//
//	chip, err := simulate.ReadChip("Ascend910_93") // or a file of the same form as those in chips
//	entries, err := simulate.ReadSchedule(file)
//	s := simulate.Simulation{Chip: chip, Entries: entries, Ranks: map[int]int{0: 0}, Places: ranks.Places()}
//	result, err := s.Run()
//	err = result.WriteTrace(file) // for Perfetto
//
// A launch takes as long as the slowest of three units: the cube, for the operations of products and attention, the vector unit, and
// memory, for every byte of its tensors once. A collective takes steps of a latency and bytes of a bandwidth, by the algorithms that HCCL
// documents for ranks in one domain of HCCS and between them. Streams run beside each other as the program orders them by events;
// kernels of several streams take turns, as each is timed with the whole chip, and so do collectives on one kind of link. The host takes
// its time for each launch, and waits where the program does.
//
// Nothing in it is fitted to measured steps. So it is a bound from below for everything that kernels and links lose against the figures
// of the chip, and what it leaves out: contention of links between jobs, fragmented memory, experts with more rows than others, and data that
// is late. The memory that the program reports is exact but for blocks that wait for another stream: while nothing is computed, all streams are done at
// once, and the blocks are free earlier. chips has a source for each figure, or says that it is assumed.
package simulate
