// Package checkpoint keeps the state of a training on disk so that it can be trusted: a folder for
// each save, which is complete or not there, and of which every bit is checked when it is read. It
// moves named parts of float32 tensors between files and memory, and knows no model and no device.
//
//	saver, err := checkpoint.NewSaver(ctx, group, "runs/a", 3) // on all ranks, with a group of its own
//	err = saver.Save(ctx, checkpoint.About{Step: 40, Model: config}, tensors)
//	… // training goes on while the files are written
//	err = saver.Close()
//
//	set, err := checkpoint.Agree(ctx, group, "runs/a") // all ranks on one complete set
//	values, err := set.Read(checkpoint.Part{Name: "lm_head.weight", Shape: shape, Cut: checkpoint.Cut{Axis: 0, Index: rank, Of: 4}})
//
// # Files
//
// A save makes the folder step-00000040-1f2e3d4c, named after the step and an id of its own. Each rank
// writes its tensors to a file in the safetensors format, whose metadata repeats step and id, and
// makes it durable. When all ranks have done so, rank 0 writes manifest.json and makes it and the
// folders durable. A save that was killed leaves a folder without a manifest; the next saver
// removes it. Old sets are removed when a newer one is complete, so that one always is.
//
// The first line of the manifest has the SHA-256 of the rest, a JSON object: step, layout, model,
// position in the data, versions, and for each file its size, the CRC-32C of its header, and for each
// tensor its part. Beside each tensor the file has the CRC-32C of every few of its elements.
//
// Parts are of the whole tensor, so that a set can be read with another number of ranks, each of which
// reads and checks little more than the elements that it needs.
package checkpoint
