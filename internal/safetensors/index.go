package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
)

// maxIndex bounds an index as maxHeader bounds a header: both grow with the tensors' names.
const maxIndex = maxHeader

// mostShards bounds the files that an index names; the largest models have some hundreds.
const mostShards = 10_000

// longestName is the length of a file's name in bytes that systems allow.
const longestName = 255

// openIndex opens the shards an index names, each once, and takes from each the tensors the
// index assigns to it, and those that the index does not name: a scale that was left out must not
// be lost.
func openIndex(path string) (*File, error) {
	text, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	shardOf, metadata, err := parseIndex(text)
	if err != nil {
		return nil, &Error{Path: path, Err: ErrIndex, Detail: err.Error()}
	}
	f := &File{path: path, names: slices.Sorted(maps.Keys(shardOf)), tensors: make(map[string]Tensor, len(shardOf)), metadata: metadata}
	shards := map[string]*File{}
	for _, name := range f.names {
		shard := shards[shardOf[name]]
		if shard == nil {
			if shard, err = openSingle(filepath.Join(filepath.Dir(path), shardOf[name])); err != nil {
				return nil, errors.Join(err, f.Close())
			}
			shards[shardOf[name]] = shard
			f.closers = append(f.closers, shard)
		}
		if f.tensors[name], err = shard.Tensor(name); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	for _, file := range slices.Sorted(maps.Keys(shards)) {
		for _, name := range shards[file].names {
			if _, listed := f.tensors[name]; !listed {
				f.tensors[name] = shards[file].tensors[name]
			}
		}
	}
	f.names = slices.Sorted(maps.Keys(f.tensors))
	return f, nil
}

func readIndex(path string) ([]byte, error) {
	osFile, err := regular(path)
	if err != nil {
		return nil, err
	}
	defer osFile.Close()
	text, err := io.ReadAll(io.LimitReader(osFile, maxIndex+1))
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	if len(text) > maxIndex {
		return nil, &Error{Path: path, Err: ErrHeaderTooLarge}
	}
	return text, nil
}

// parseIndex reads {"metadata": {…}, "weight_map": {"tensor": "file", …}}. Metadata that is not
// a string, such as total_size, is kept as its JSON text.
func parseIndex(text []byte) (shardOf, metadata map[string]string, err error) {
	err = scanDocument(text, func(s scanner) error {
		return s.object(func(key string) error {
			switch key {
			case "metadata":
				return s.optional(func(s scanner, key string) error {
					if metadata == nil {
						metadata = map[string]string{}
					}
					if err := few(metadata); err != nil {
						return err
					}
					value := s.value()
					var str string
					if json.Unmarshal(value, &str) != nil {
						str = string(value)
					}
					metadata[key] = str
					return nil
				})
			case "weight_map":
				shardOf = map[string]string{}
				files := map[string]bool{}
				return s.object(func(name string) error {
					file, err := s.text()
					// A shard lies beside its index; anything else would let an index read other folders.
					if err == nil && (file == "." || file != filepath.Base(file) || !filepath.IsLocal(file) || len(file) > longestName) {
						err = fmt.Errorf("tensor %q: shard %.300q is not a file name", short(name), file)
					}
					shardOf[name], files[file] = file, true
					if len(files) > mostShards {
						return fmt.Errorf("it names more than %d files", mostShards)
					}
					return err
				})
			}
			return fmt.Errorf("unknown field %q", key)
		})
	})
	if err == nil && shardOf == nil {
		err = fmt.Errorf("no weight_map")
	}
	return shardOf, metadata, err
}
