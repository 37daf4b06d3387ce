package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// maxHeader is the limit of the reference implementation.
	maxHeader   = 100_000_000
	metadataKey = "__metadata__"
	// lengthBytes is the little-endian header length at the start of the file.
	lengthBytes = 8
)

// entry is a tensor and the place of its bytes, counted from the end of the header.
type entry struct {
	Info
	begin, end int64
}

// readHeader parses and checks the header of a file of the given size. It returns the entries
// in the order of their bytes and the position in the file where those bytes start.
func readHeader(r io.ReaderAt, size int64) (entries []entry, metadata map[string]string, start int64, err error) {
	var word [lengthBytes]byte
	if size < lengthBytes {
		return nil, nil, 0, &Error{Err: ErrTruncated, Detail: fmt.Sprintf("%d bytes, the header length alone takes %d", size, lengthBytes)}
	}
	if err := readAt(r, word[:], 0); err != nil {
		return nil, nil, 0, err
	}
	length := binary.LittleEndian.Uint64(word[:])
	if known := mistaken(word[:]); known != "" {
		return nil, nil, 0, &Error{Err: ErrHeader, Detail: known}
	}
	switch {
	case length > maxHeader:
		return nil, nil, 0, &Error{Err: ErrHeaderTooLarge, Detail: fmt.Sprintf("%d bytes", length)}
	case int64(length) > size-lengthBytes:
		return nil, nil, 0, &Error{Err: ErrTruncated, Detail: fmt.Sprintf("a header of %d bytes in a file of %d", length, size)}
	}
	text := make([]byte, length)
	if err := readAt(r, text, lengthBytes); err != nil {
		return nil, nil, 0, err
	}
	if entries, metadata, err = parseHeader(text); err != nil {
		return nil, nil, 0, err
	}
	start = lengthBytes + int64(length)
	return entries, metadata, start, checkLayout(entries, size-start)
}

// readAt fills p; a file that shrank since it was measured is truncated.
func readAt(r io.ReaderAt, p []byte, at int64) error {
	switch n, err := r.ReadAt(p, at); {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return &Error{Err: ErrTruncated, Detail: fmt.Sprintf("%d bytes are due at offset %d, %d are there", len(p), at, n)}
	default:
		return &Error{Err: err, Detail: fmt.Sprintf("%d bytes at offset %d", len(p), at)}
	}
}

// mistaken names what else begins with some bytes, and is found in the place of a safetensors file. None of the beginnings
// is the length of a header that the format allows.
func mistaken(word []byte) string {
	for _, m := range []struct{ begin, what string }{
		{"version ", "it is a pointer of Git LFS, not the weights themselves: run git lfs pull, or download the file"},
		{"<!DOCTYP", "it is a page of HTML, not weights: the download was refused, or needs a log-in"},
		{"<!doctyp", "it is a page of HTML, not weights: the download was refused, or needs a log-in"},
		{"<html", "it is a page of HTML, not weights: the download was refused, or needs a log-in"},
		{"<?xml", "it is an answer in XML, not weights: the download was refused, or needs a log-in"},
		{"PK\x03\x04", "it is a zip archive, as PyTorch saves pickles: convert it to safetensors"},
		{"GGUF", "it is a GGUF file: convert it to safetensors"},
		{"\x1f\x8b\x08", "it is compressed with gzip: unpack it"},
		{"\x28\xb5\x2f\xfd", "it is compressed with zstd: unpack it"},
	} {
		if strings.HasPrefix(string(word), m.begin) && binary.LittleEndian.Uint64(word) > maxHeader {
			return m.what
		}
	}
	if word[0] == '{' && binary.LittleEndian.Uint64(word) > maxHeader {
		return "it is a JSON text, not weights"
	}
	return ""
}

// few is an error for metadata with more keys than any writer has, which would cost more time than all tensors.
func few(metadata map[string]string) error {
	const most = 10_000
	if len(metadata) >= most {
		return fmt.Errorf("the metadata has more than %d keys", most)
	}
	return nil
}

func parseHeader(text []byte) (entries []entry, metadata map[string]string, err error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, nil, &Error{Err: ErrHeader, Detail: "it does not start with {"}
	}
	err = scanDocument(text, func(s scanner) error {
		return s.object(func(name string) error {
			if name == metadataKey {
				return s.optional(func(s scanner, key string) (err error) {
					if metadata == nil {
						metadata = map[string]string{}
					}
					if err := few(metadata); err != nil {
						return err
					}
					metadata[key], err = s.text()
					return err
				})
			}
			e, err := s.entry(name)
			entries = append(entries, e)
			return err
		})
	})
	if _, typed := errors.AsType[*Error](err); err == nil || typed {
		return entries, metadata, err
	}
	cause := ErrHeader
	if errors.Is(err, ErrDuplicate) {
		cause = ErrDuplicate
	}
	return nil, nil, &Error{Err: cause, Detail: err.Error()}
}

// entry reads the record of one tensor and checks it by itself.
func (s scanner) entry(name string) (entry, error) {
	e := entry{Info: Info{Name: name}}
	var typeName string
	var offsets []int
	err := s.object(func(key string) (err error) {
		switch key {
		case "dtype":
			typeName, err = s.text()
		case "shape":
			e.Shape, err = s.naturals()
		case "data_offsets":
			offsets, err = s.naturals()
		default:
			err = fmt.Errorf("unknown field %q of tensor %q", key, name)
		}
		return err
	})
	if err != nil {
		return e, err
	}
	if typeName == "" || e.Shape == nil || len(offsets) != 2 {
		return e, &Error{Tensor: name, Err: ErrHeader, Detail: "it needs dtype, shape and two data_offsets"}
	}
	known := false
	if e.DType, known = typesByName[typeName]; !known {
		return e, &Error{Tensor: name, Err: ErrDType, Detail: typeName}
	}
	if err := e.check(); err != nil {
		return e, err
	}
	e.begin, e.end = int64(offsets[0]), int64(offsets[1])
	if e.begin > e.end {
		return e, &Error{Tensor: name, Err: ErrOffsets, Detail: fmt.Sprintf("[%d, %d] runs backwards", e.begin, e.end)}
	}
	if e.end-e.begin != e.Size() {
		return e, &Error{Tensor: name, Err: ErrSize, Detail: fmt.Sprintf("%v takes %d bytes, the offsets [%d, %d] span %d", e.Info, e.Size(), e.begin, e.end, e.end-e.begin)}
	}
	return e, nil
}

// checkLayout sorts the entries by place and demands that they tile the data bytes exactly:
// the format allows neither overlaps nor holes, so nothing can hide in a file.
func checkLayout(entries []entry, dataSize int64) error {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), strings.Compare(a.Name, b.Name))
	})
	at := int64(0)
	for _, e := range entries {
		switch {
		case e.end > dataSize:
			return &Error{Tensor: e.Name, Err: ErrTruncated, Detail: fmt.Sprintf("it ends at %d of %d data bytes", e.end, dataSize)}
		case e.begin != at:
			return &Error{Tensor: e.Name, Err: ErrOffsets, Detail: fmt.Sprintf("it starts at %d, the tensors before it end at %d", e.begin, at)}
		}
		at = e.end
	}
	if at != dataSize {
		return &Error{Err: ErrOffsets, Detail: fmt.Sprintf("the tensors end at %d of %d data bytes", at, dataSize)}
	}
	return nil
}
