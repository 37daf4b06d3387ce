// Package cost estimates on paper how long a step of training takes on 910 chips, and how many bytes it
// moves: for a model whose weights are sharded over all devices (trainstep's -fsdp), with the weights
// of its experts in ND or in FRACTAL_NZ.
//
//	chip, err := cost.ChipOf("Ascend910_93")
//	run := cost.Run{Config: config, Devices: 512, Tokens: 32768, ElementBytes: 2, Format: cost.NZ}
//	step, err := run.On(chip)
//	fmt.Println(step.TokensPerSecond(), step)
//
// An estimate adds up the time of the products, from the number of operations and the chip's rate, that
// of everything that passes over memory, from bytes and bandwidth, and that part of the exchange
// between devices which the products do not hide. Every number of a chip may be replaced by a
// measured one.
//
// It is not a simulator: operators do not overlap, links have no contention, and the products of a model
// have one rate. The rate is that of published runs, so it includes the time that these runs lost to waiting.
package cost
