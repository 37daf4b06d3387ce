package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// layout gives each tensor its place and returns the entries in the order of their bytes:
// larger elements first, then by name, so that every tensor is aligned to its element although
// the format allows no padding between tensors.
func layout(tensors []Info) ([]entry, error) {
	entries := make([]entry, 0, len(tensors))
	names := make(map[string]bool, len(tensors))
	for _, info := range tensors {
		switch {
		case info.Name == metadataKey:
			return nil, &Error{Tensor: info.Name, Err: ErrHeader, Detail: "the name is reserved"}
		case !utf8.ValidString(info.Name):
			return nil, &Error{Tensor: info.Name, Err: ErrHeader, Detail: "the name is not UTF-8"}
		case names[info.Name]:
			return nil, &Error{Tensor: info.Name, Err: ErrDuplicate}
		}
		if err := info.check(); err != nil {
			return nil, err
		}
		names[info.Name] = true
		// Not a nil slice, so that a scalar's shape is spelled [] and not null.
		info.Shape = append([]int{}, info.Shape...)
		entries = append(entries, entry{Info: info})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.DType.Size(), a.DType.Size()), strings.Compare(a.Name, b.Name))
	})
	at := int64(0)
	for i := range entries {
		e := &entries[i]
		if e.Size() > math.MaxInt64-lengthBytes-maxHeader-at {
			return nil, &Error{Tensor: e.Name, Err: ErrShape, Detail: "the file would take more than 2^63 bytes"}
		}
		e.begin, e.end = at, at+e.Size()
		at = e.end
	}
	return entries, nil
}

// formatHeader spells the length word and the header, padded with spaces so that the data
// starts at a multiple of eight. The same input gives the same bytes. A header longer than
// limit, the length word aside, is refused.
func formatHeader(entries []entry, metadata map[string]string, limit int) ([]byte, error) {
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, &Error{Err: ErrHeader, Detail: fmt.Sprintf("metadata %q is not UTF-8", key)}
		}
	}
	buf := append(make([]byte, lengthBytes), '{')
	field := func(key string, value any) error {
		text, err := json.Marshal(map[string]any{key: value})
		if err != nil {
			return &Error{Err: ErrHeader, Detail: err.Error()}
		}
		if len(buf) > lengthBytes+1 {
			buf = append(buf, ',')
		}
		buf = append(buf, text[1:len(text)-1]...) // without the braces of its own object
		return nil
	}
	if len(metadata) > 0 {
		if err := field(metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	type record struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	for _, e := range entries {
		if err := field(e.Name, record{formatNames[e.DType], e.Shape, [2]int64{e.begin, e.end}}); err != nil {
			return nil, err
		}
	}
	buf = append(buf, '}')
	for len(buf)%8 != 0 {
		buf = append(buf, ' ')
	}
	length := len(buf) - lengthBytes
	if length > limit {
		return nil, &Error{Err: ErrHeaderTooLarge, Detail: fmt.Sprintf("%d bytes", length)}
	}
	binary.LittleEndian.PutUint64(buf, uint64(length))
	return buf, nil
}
