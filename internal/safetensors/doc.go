// Package safetensors reads and writes tensors in the safetensors format of Hugging Face: an
// eight-byte header length, a JSON header, then the tensors' elements, row-major and
// little-endian.
//
// Reading is lazy (opening costs the header, a tensor's elements are read when asked for) and
// treats the file as hostile: whatever does not follow the format is an *Error before anything
// is allocated from it. Writing is atomic: the file appears complete or not at all. The package
// does not map files into memory, does not convert element types on writing and knows nothing
// of models.
//
//	f, err := safetensors.Open("model.safetensors") // or an index file, or the folder
//	defer f.Close()
//	t, err := f.Tensor("lm_head.weight")
//	weights, err := t.Float32s()
//
//	w, err := safetensors.Create(path, []safetensors.Info{
//		{Name: "w", DType: dtype.Float32, Shape: []int{2, 3}},
//	}, map[string]string{"format": "pt"})
//	defer w.Close() // removes the temporary file unless Commit was reached
//	data, err := binary.Append(nil, binary.LittleEndian, weights)
//	err = w.Write("w", data)
//	err = w.Commit()
package safetensors
