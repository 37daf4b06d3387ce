package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// CreateShards declares the tensors of a model that is written to several files of a folder,
// with an index, named as Hugging Face names them: model-00001-of-00003.safetensors, …,
// model.safetensors.index.json. The folder is made when it is not there. Tensors fill the files
// in the order of the list; a file has at most limit bytes of elements, or one tensor. The
// metadata, which may be nil, goes into the index and into each file; the index also has
// total_size, the bytes of all elements.
//
// Commit puts the files in place one by one, the index last: in a folder without a model
// readers see nothing or all. Files of an earlier model that has more of them stay, unused.
// The errors are those of Create.
func CreateShards(folder string, limit int64, tensors []Info, metadata map[string]string) (*Writer, error) {
	shards, total, err := divide(tensors, limit)
	if err != nil {
		return nil, withPlace(err, folder, "")
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, &Error{Path: folder, Err: err}
	}
	w := &Writer{path: folder, places: make(map[string]*place, len(tensors))}
	shardOf := make(map[string]string, len(tensors))
	for i, shard := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		for _, info := range shard {
			shardOf[info.Name] = name
		}
		if err := w.add(filepath.Join(folder, name), shard, metadata); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	path := filepath.Join(folder, indexName)
	text, err := formatIndex(shardOf, metadata, total)
	if err != nil {
		return nil, errors.Join(&Error{Path: path, Err: err}, w.Close())
	}
	index, err := newDraft(path, text, int64(len(text)))
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.parts = append(w.parts, index)
	return w, nil
}

// divide fills shards with tensors in their order. A name that is there twice is refused here:
// a shard's own check sees its tensors only.
func divide(tensors []Info, limit int64) (shards [][]Info, total int64, err error) {
	entries, err := layout(tensors) // for its checks: names, types, and that sizes can be added
	if err != nil {
		return nil, 0, err
	}
	if len(entries) > 0 {
		total = entries[len(entries)-1].end
	}
	shards = [][]Info{nil}
	var size int64
	for _, info := range tensors {
		if size > 0 && info.Size() > limit-size {
			shards, size = append(shards, nil), 0
		}
		last := len(shards) - 1
		shards[last] = append(shards[last], info)
		size += info.Size()
	}
	return shards, total, nil
}

func formatIndex(shardOf, metadata map[string]string, total int64) ([]byte, error) {
	about := map[string]any{}
	for key, value := range metadata {
		about[key] = value
	}
	about["total_size"] = total
	text, err := json.MarshalIndent(map[string]any{"metadata": about, "weight_map": shardOf}, "", "  ")
	return append(text, '\n'), err
}
