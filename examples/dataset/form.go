package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/goascend/cann/examples/budget"
)

// Form is the format of a file of samples.
type Form int

// Forms of files.
const (
	Text   Form = iota // UTF-8
	Lines              // a JSON value on each line
	Array              // one JSON array, whose elements are samples
	Rows               // Parquet
	Tokens             // 32-bit token ids, see OpenTokens
	Words              // 16-bit token ids, little-endian, in a file whose name ends with .bin
)

// headBytes is how much of a file decides on its form.
const headBytes = 64 << 10

// FormOf looks at the beginning of a file and at its name, in upper or lower case and without .gz or .zst. What begins
// as JSON or with the magic number of another format is never text: it is an error if it is none of the forms.
func FormOf(path string) (form Form, err error) {
	f, err := budget.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, closed, _, err := unpacked(f)
	if err != nil {
		return 0, fmt.Errorf("dataset: %s: %w", path, err)
	}
	defer closed()
	head := make([]byte, headBytes)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, fmt.Errorf("dataset: %s: %w", path, err)
	}
	if form, err = formOf(suffix(path), head[:n]); err != nil {
		return 0, fmt.Errorf("dataset: %s: %w", path, err)
	}
	return form, nil
}

// packed lists the suffixes of compressed files.
var packed = []string{".gz", ".zst"}

// suffix is that of a file's name in lower case, without that of a compression.
func suffix(name string) string {
	name = strings.ToLower(name)
	if ext := filepath.Ext(name); slices.Contains(packed, ext) {
		name = strings.TrimSuffix(name, ext)
	}
	return filepath.Ext(name)
}

// mostWindow is how far back a file of zstd may repeat itself, which takes as much memory: the program zstd reads no larger one unless it is told to.
const mostWindow = 128 << 20

// Magic numbers of compressed files. A file of zstd may begin with a frame that is skipped, as pzstd writes it.
const gzipMagic, zstdMagic, skippedMagic = "\x1f\x8b", "\x28\xb5\x2f\xfd", "\x2a\x4d\x18"

// unpacked reads a file through the decompressor that its first bytes ask for, whatever its name; closed frees it.
func unpacked(f io.Reader) (r io.Reader, closed func(), compressed bool, err error) {
	b := bufio.NewReaderSize(f, 64<<10)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, false, err
	}
	switch begin := string(head); {
	case strings.HasPrefix(begin, gzipMagic):
		z, err := gzip.NewReader(b)
		return z, func() {}, true, err
	case begin == zstdMagic, len(begin) == 4 && begin[0]&0xf0 == 0x50 && begin[1:] == skippedMagic:
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(mostWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, true, err
		}
		return z, z.Close, true, nil
	}
	return b, func() {}, false, nil
}

// byteOrderMark may stand before UTF-8.
var byteOrderMark = []byte("\uFEFF")

// foreign are beginnings of files that are neither text nor samples, and what to do about them.
var foreign = []struct{ begin, what, remedy string }{
	{"version https://git-lfs", "a pointer of Git LFS, not the file itself", "run git lfs pull, or download the file"},
	{gzipMagic, "compressed twice", unpackIt}, {zstdMagic, "compressed twice", unpackIt}, {"PK\x03\x04", "a zip archive", unpackIt}, {"BZh", "compressed with bzip2", unpackIt},
	{"\xfd7zXZ", "compressed with xz", unpackIt}, {"\x04\x22\x4d\x18", "compressed with lz4", unpackIt}, {"7z\xbc\xaf", "a 7z archive", unpackIt},
	{"ARROW1", "an Arrow file", giveText}, {"\x93NUMPY", "a NumPy array", giveText}, {"\x89HDF", "an HDF5 file", giveText}, {"SQLite format 3", "an SQLite database", giveText},
	{"GGUF", "a GGUF file", giveText}, {"Obj\x01", "an Avro file", giveText}, {"ORC", "an ORC file", giveText}, {"%PDF-", "a PDF document", giveText}, {"\x89PNG", "an image", giveText},
	{"\xff\xd8\xff", "an image", giveText}, {"GIF8", "an image", giveText}, {"\x7fELF", "a program", giveText}, {"\xff\xfe", "UTF-16", giveText}, {"\xfe\xff", "UTF-16", giveText},
	{"<!DOCTYPE html", "a page of HTML", giveText}, {"<html", "a page of HTML", giveText},
}

const (
	unpackIt = "unpack it"
	giveText = "give text in UTF-8, JSON lines, a JSON array or a Parquet file"
)

func formOf(ext string, head []byte) (Form, error) {
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		return Rows, nil
	case bytes.HasPrefix(head, []byte(tokensMagic)):
		return Tokens, nil
	}
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.begin)) {
			return 0, fmt.Errorf("it is %s, which is not read; %s", f.what, f.remedy)
		}
	}
	if ext == ".parquet" || ext == ".tokens" {
		return 0, fmt.Errorf("it does not begin as a %s file does", ext)
	}
	if ext == ".bin" {
		return Words, nil
	}
	head = bytes.TrimPrefix(head, byteOrderMark)
	lines := ext == ".jsonl" || ext == ".ndjson"
	switch begin := bytes.TrimSpace(head); {
	case bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(head[:max(len(head)-utf8.UTFMax, 0)]) && !validCut(head):
		return 0, errors.New("it has bytes that are not text in UTF-8")
	case !lines && bytes.HasPrefix(begin, []byte("[")) && beginsAsJSON(begin):
		return Array, nil
	case !lines && bytes.HasPrefix(begin, []byte("{")) && beginsAsJSON(begin):
		line, _, whole := bytes.Cut(begin, []byte("\n"))
		if whole && !json.Valid(line) || !whole && len(head) < headBytes && !json.Valid(begin) {
			return 0, errors.New("it begins as one JSON object over several lines; give an array of samples, or a sample on each line")
		}
		return Lines, nil
	case lines || ext == ".json":
		if !lines && len(begin) > 0 {
			return 0, errors.New("it begins neither as an array of samples nor as a sample on a line")
		}
		return Lines, nil
	}
	return Text, nil
}

// validCut reports whether a text is UTF-8 but for a character that is cut at its end.
func validCut(head []byte) bool {
	for cut := range min(utf8.UTFMax, len(head)+1) {
		if utf8.Valid(head[:len(head)-cut]) {
			return true
		}
	}
	return false
}

// beginsAsJSON reports whether a text begins with an object that has a key, or with an array of objects, arrays or
// strings. "[1] a note" and "[a link]" are text.
func beginsAsJSON(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	first, err := d.Token()
	if err != nil {
		return false
	}
	second, err := d.Token()
	if err != nil {
		return false
	}
	switch second := second.(type) {
	case json.Delim:
		if second == '[' || second == '{' {
			_, err = d.Token()
		}
		return err == nil && second != '}'
	case string:
		if first == json.Delim('[') {
			return true
		}
		_, err := d.Token() // the value behind a key and a colon
		return err == nil
	}
	return false
}

// A compressed file becomes at most so many times as large, and so many bytes more: text becomes some 3 to 10 times as large, and a
// file of a megabyte that fills the disk holds nothing to learn.
const (
	mostGrowth = 32
	mostMore   = 64 << 20
)

// openPlain opens a file, and returns its size. The contents of a compressed one are written to a temporary one, so that lines can be found again
// in the middle; the size is that of the compressed one.
func openPlain(path string) (_ *os.File, size int64, err error) {
	f, err := budget.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	plain, err := unpack(f, info.Size())
	if err == nil && plain == nil {
		return f, info.Size(), nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, 0, fmt.Errorf("dataset: %s: %w", path, err)
	}
	return plain, info.Size(), nil
}

// closePlain closes a file of openPlain, and removes it if it is a temporary one.
func closePlain(f *os.File, path string) error {
	if f.Name() == path {
		return f.Close()
	}
	return discard(f)
}

// unpack returns nil for a file that is not compressed, of which it leaves the place at the beginning.
func unpack(f *os.File, size int64) (_ *os.File, err error) {
	most := mostGrowth*size + mostMore
	r, closed, compressed, err := unpacked(f)
	if err != nil {
		return nil, err
	}
	defer closed()
	if !compressed {
		_, err := f.Seek(0, io.SeekStart)
		return nil, err
	}
	to, err := os.CreateTemp("", "dataset-*")
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(to, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("%w: a file of %d bytes unpacks to more than %d; unpack it yourself if that is meant", budget.ErrLimit, size, most)
	}
	if err == nil {
		_, err = to.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, discard(to))
	}
	return to, nil
}

func discard(f *os.File) error { return errors.Join(f.Close(), os.Remove(f.Name())) }
