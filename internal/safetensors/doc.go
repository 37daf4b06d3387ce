// Package safetensors reads and writes files of the safetensors format. Package
// aclnn/safetensors is its public face and documents it; the emulator writes its dumps with it.
//
//	f, err := safetensors.Open("model.safetensors")
//	t, err := f.Tensor("lm_head.weight")
//	values, err := safetensors.Values[float32](t)
package safetensors
