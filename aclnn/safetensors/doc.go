// Package safetensors reads and writes tensors in the safetensors format of Hugging Face: an
// eight-byte header length, a JSON header, then the tensors' elements, row-major and
// little-endian. It is plain Go and needs neither CANN nor cgo; aclnn.Load and aclnn.Save move
// tensors between these files and a device.
//
// Reading is lazy: Open reads the headers of a file, of the shards of an index or of a model's
// folder, and a tensor's elements are read when asked for, as a whole or in part (Narrow,
// Range), in their own type or converted (As, Values). It treats files as hostile: whatever
// does not follow the format is an *Error, before anything is allocated for it. Elements are
// read with pread and not by mapping the file: a file that somebody truncates gives an error,
// where a mapping would end the process.
//
// Writing is atomic: a file appears complete or not at all. The package knows nothing of
// models, and no types that share bytes (int4, float4).
//
//	f, err := safetensors.Open("model.safetensors") // or an index file, or a folder
//	defer f.Close()
//	t, err := f.Tensor("lm_head.weight")
//	part, err := t.Narrow(0, rank*rows, rows)
//	weights, err := safetensors.Values[float32](part)
//
//	err = safetensors.WriteFile("scaled.safetensors", []safetensors.Data{
//		safetensors.Of("lm_head.weight", weights, rows, hidden),
//	}, map[string]string{"format": "pt"})
//
// Create and CreateShards write tensors one after the other, or in parts, where they do not
// fit into memory together.
package safetensors
