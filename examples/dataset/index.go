package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

const (
	// blockLines is the number of lines per entry of the index.
	blockLines = 256
	// groupBlocks is the number of random blocks whose samples are shuffled together.
	groupBlocks = 16
	// groupBytes is how many bytes of a file are shuffled together, beside the first block.
	groupBytes = 32 << 20
	// mostShuffled is how many bytes of the rows of Parquet files are shuffled together, beside shuffledGrowth for each byte of the files: rows may
	// be the same few bytes.
	mostShuffled, shuffledGrowth = 64 << 20, 4
	// lineLimit is the length of a line, in bytes, above which it is bad: tokens take eight times as much memory.
	lineLimit = 8 << 20
	// textLimit is the largest length of a piece of a text file, in bytes.
	textLimit = 1 << 20
	// A file may have mostLines lines or elements, and one more for every linesGrowth bytes of it. The shortest sample takes 12.
	mostLines, linesGrowth = 1_000_000, 8
)

// block is some lines of a file of JSON lines, some elements of an array, some rows of a Parquet file, or a piece of a file
// of text or tokens.
type block struct {
	file        int
	from, bytes int64 // of a Parquet file, from is a row of the group
	line        int   // number of the first line, element or row, from 1
	lines       int   // 0 for text and tokens
	group       int   // of rows, in a Parquet file
	follows     bool  // it is read after the one before it: that costs less than going elsewhere
}

// raw is a sample as it stands in a file.
type raw struct {
	text  string
	ids   []int32 // in place of the text
	where place
	plain bool  // not JSON
	err   error // why it cannot be read
}

// place names a line of a file.
type place struct {
	file string
	line int
	unit string // "row " of a Parquet file, "element " of an array
}

func (p place) String() string { return fmt.Sprintf("%s:%s%d", p.file, p.unit, p.line) }

// Table is an open file of which each row is a sample, such as a Parquet file. Its rows are in groups.
type Table interface {
	// Groups returns the number of rows of each group.
	Groups() []int64
	// Read calls each with count rows of a group, from one of them on, each as a line of JSON or with
	// the reason why it cannot be one. It is fast when the rows follow those of the last call.
	Read(group int, from int64, count int, each func(line string, err error)) error
	// Unread names the columns that are no keys of samples.
	Unread() []string
	Close() error
}

// index locates the samples of files.
type index struct {
	files  []string
	forms  []Form
	open   []*os.File
	sizes  []int64        // in bytes, before a compressed file is unpacked
	tables []Table        // of files that are Parquet files, nil of others
	left   map[string]int // files of a folder that are not read, by suffix
	blocks []block
	starts []int // blocks that follow no other
	size   int64 // of the files, in bytes
}

// textFiles are the suffixes of texts that are read in a folder.
var textFiles = []string{".txt", ".md", ".go", ".c", ".h", ".py"}

// newIndex looks through a file, or the files of a folder in the order of their names.
func newIndex(path string, openTable func(*os.File) (Table, error)) (*index, error) {
	x := &index{left: map[string]int{}}
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != path && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		form, ok, err := inFolder(name, name == path)
		if err != nil {
			return err
		}
		if !ok {
			x.left[strings.ToLower(filepath.Ext(name))]++
			return nil
		}
		return x.add(name, form, openTable)
	})
	if err == nil && len(x.blocks) == 0 {
		err = fmt.Errorf("dataset: %s has no samples: no JSON lines, no JSON array, no Parquet file and no text", path)
	}
	if err != nil {
		return nil, errors.Join(err, x.close())
	}
	for i, b := range x.blocks {
		if !b.follows {
			x.starts = append(x.starts, i)
		}
	}
	return x, nil
}

// inFolder returns the form of a file, and whether it is read: all are that are named by themselves. Of a folder those with
// the suffix of a text or of samples are, and .json files of samples.
func inFolder(name string, itself bool) (Form, bool, error) {
	ext := suffix(name)
	known := slices.Contains(textFiles, ext) || slices.Contains([]string{".jsonl", ".ndjson", ".parquet"}, ext)
	if !itself && !known && ext != ".json" {
		return 0, false, nil
	}
	form, err := FormOf(name)
	if !itself && ext == ".json" && err != nil {
		return 0, false, nil
	}
	return form, true, err
}

// HasSamples reports whether a file, or a file of a folder, consists of samples rather than of text or tokens.
func HasSamples(path string) (found bool, err error) {
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != path && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		form, ok, err := inFolder(name, name == path)
		if ok && err == nil && (form == Lines || form == Array || form == Rows) {
			found, err = true, fs.SkipAll
		}
		return err
	})
	return found, err
}

// add finds the blocks of a file.
func (x *index) add(name string, form Form, openTable func(*os.File) (Table, error)) error {
	f, size, err := openPlain(name)
	if err != nil {
		return err
	}
	if form == Rows && f.Name() != name { // its bounds grow with the file
		return errors.Join(fmt.Errorf("dataset: %s: it is a Parquet file that is compressed once more; unpack it", name), closePlain(f, name))
	}
	x.size += size
	x.files, x.forms, x.open, x.sizes, x.tables = append(x.files, name), append(x.forms, form), append(x.open, f), append(x.sizes, size), append(x.tables, nil)
	switch form {
	case Rows:
		return x.addTable(f, openTable)
	case Tokens, Words:
		return x.addTokens(f, form)
	case Array:
		err = x.addArray(f)
	case Lines:
		err = x.addLines(f)
	case Text:
		err = x.addText(f)
	}
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", name, err)
	}
	return nil
}

// few is an error for the number of a line or an element that the file added last may not have.
func (x *index) few(n int) error {
	size := x.sizes[len(x.sizes)-1]
	if most := mostLines + size/linesGrowth; int64(n) > most {
		return fmt.Errorf("%w: a file of %d bytes has at most %d lines or elements", budget.ErrLimit, size, most)
	}
	return nil
}

// addLines finds the blocks of a file of JSON lines.
func (x *index) addLines(f *os.File) error {
	start, err := afterMark(f)
	if err != nil {
		return err
	}
	now := block{file: len(x.files) - 1, from: start, line: 1}
	r := bufio.NewReaderSize(f, 1<<20)
	for line := 1; ; line++ {
		n, err := skipLine(r)
		if n > 0 {
			now.bytes += n
			now.lines++
		}
		if now.bytes > 0 && (now.lines == blockLines || now.bytes >= lineLimit || err == io.EOF) {
			x.blocks = append(x.blocks, now)
			now = block{file: now.file, from: now.from + now.bytes, line: line + 1}
		}
		if err == io.EOF {
			return nil
		}
		if err := errors.Join(err, x.few(line)); err != nil {
			return err
		}
	}
}

// addText finds the pieces of a text: they end with a line, or with a word where a line is longer than a piece.
func (x *index) addText(f *os.File) error {
	start, err := afterMark(f)
	if err != nil {
		return err
	}
	now := block{file: len(x.files) - 1, from: start, line: 1}
	r := bufio.NewReaderSize(f, textLimit)
	for {
		text, err := r.Peek(textLimit)
		if err != nil && err != io.EOF {
			return err
		}
		if len(text) == 0 {
			return nil
		}
		if err == nil {
			text = text[:pieceEnd(text)]
		}
		now.bytes = int64(len(text))
		x.blocks = append(x.blocks, now)
		now.from, now.line = now.from+now.bytes, now.line+bytes.Count(text, []byte("\n"))
		if _, err := r.Discard(len(text)); err != nil {
			return err
		}
	}
}

// pieceEnd returns where a piece of a text ends that goes on.
func pieceEnd(text []byte) int {
	if at := bytes.LastIndexByte(text, '\n'); at >= 0 {
		return at + 1
	}
	if at := bytes.LastIndexByte(text, ' '); at > 0 {
		return at // a space belongs to the word behind it, as tokenizers have it
	}
	at := len(text) - 1
	for at > len(text)-utf8.UTFMax && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// afterMark goes to the first byte behind a byte-order mark, if there is one.
func afterMark(f *os.File) (int64, error) {
	head := make([]byte, len(byteOrderMark))
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return 0, err
	}
	if !bytes.Equal(head[:n], byteOrderMark) {
		n = 0
	}
	return f.Seek(int64(n), io.SeekStart)
}

// elementReader refuses to read on for a decoder within an element that is too long.
type elementReader struct {
	file    io.Reader
	decoder *json.Decoder
	read    int64
}

func (r *elementReader) Read(p []byte) (int, error) {
	ahead := r.read - r.decoder.InputOffset()
	if ahead > lineLimit {
		return 0, fmt.Errorf("%w: it is longer than %d MiB", budget.ErrLimit, lineLimit>>20)
	}
	n, err := r.file.Read(p[:min(int64(len(p)), lineLimit+1-ahead)])
	r.read += int64(n)
	return n, err
}

// addArray finds the blocks of a JSON array.
func (x *index) addArray(f *os.File) error {
	start, err := afterMark(f)
	if err != nil {
		return err
	}
	from := &elementReader{file: bufio.NewReaderSize(f, 1<<20)}
	d := json.NewDecoder(from)
	from.decoder = d
	if _, err := d.Token(); err != nil {
		return err
	}
	now := block{file: len(x.files) - 1, line: 1}
	var one json.RawMessage
	for d.More() {
		if err := d.Decode(&one); err != nil {
			return fmt.Errorf("element %d of the array: %w", now.line+now.lines, err)
		}
		end := start + d.InputOffset()
		if now.lines == 0 {
			now.from = end - int64(len(one))
		}
		now.lines, now.bytes = now.lines+1, end-now.from
		if err := x.few(now.line + now.lines); err != nil {
			return err
		}
		if now.lines == blockLines || now.bytes >= lineLimit {
			x.blocks = append(x.blocks, now)
			now = block{file: now.file, line: now.line + now.lines}
		}
	}
	if now.lines > 0 {
		x.blocks = append(x.blocks, now)
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("behind element %d of the array: %w", now.line+now.lines-1, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more behind the array")
	}
	return nil
}

// addTokens finds the blocks of a file of tokens.
func (x *index) addTokens(f *os.File, form Form) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	from, size := int64(0), int64(2)
	if form == Tokens {
		from, size = tokensHeader, 4
	}
	if (info.Size()-from)%size != 0 {
		return fmt.Errorf("dataset: %s: %d bytes are no sequence of %d-bit tokens", x.files[len(x.files)-1], info.Size()-from, 8*size)
	}
	for ; from < info.Size(); from += textLimit {
		x.blocks = append(x.blocks, block{file: len(x.files) - 1, from: from, bytes: min(textLimit, info.Size()-from), line: 1})
	}
	return nil
}

// addTable finds the blocks of a Parquet file.
func (x *index) addTable(f *os.File, openTable func(*os.File) (Table, error)) error {
	if openTable == nil {
		return fmt.Errorf("dataset: %s: this program has no reader of Parquet files; Options.Parquet names one", x.files[len(x.files)-1])
	}
	t, err := openTable(f)
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", x.files[len(x.files)-1], err)
	}
	file, line := len(x.files)-1, 1
	x.tables[file] = t
	for i, rows := range t.Groups() {
		for from := int64(0); from < rows; from += blockLines {
			n := int(min(blockLines, rows-from))
			x.blocks = append(x.blocks, block{file: file, from: from, line: line, lines: n, group: i, follows: from > 0})
			line += n
		}
	}
	return nil
}

// ReadText returns the text of a file or of the texts of a folder, one after the other with a line's end between them, as Open reads
// them: unpacked and without a byte-order mark. A file of 16-bit token ids is returned as it is. left counts the files of a folder that are not
// read, by suffix. Files with samples or of 32-bit tokens, alone or beside texts, are refused.
func ReadText(path string) (text []byte, left map[string]int, err error) {
	x, err := newIndex(path, nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	file := -1 // none: the first files may be empty
	for _, b := range x.blocks {
		if form := x.forms[b.file]; form != Text && (form != Words || len(x.files) > 1) {
			return nil, nil, fmt.Errorf("dataset: %s is neither a text, nor alone a file of 16-bit tokens", x.files[b.file])
		}
		if b.file != file && file >= 0 {
			text = append(text, '\n')
		}
		file = b.file
		at := len(text)
		text = append(text, make([]byte, b.bytes)...)
		if _, err := x.open[b.file].ReadAt(text[at:], b.from); err != nil {
			return nil, nil, fmt.Errorf("dataset: %s: %w", x.files[b.file], err)
		}
	}
	return text, x.left, nil
}

// skipLine reads a line and returns its length with the end of the line.
func skipLine(r *bufio.Reader) (n int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

// together returns the first of some blocks, whose samples are shuffled together.
func (x *index) together(blocks []int) []int {
	size := int64(0)
	for n, i := range blocks {
		if size += x.blocks[i].bytes; n == groupBlocks || n > 0 && size > groupBytes {
			return blocks[:n]
		}
	}
	return blocks
}

// samples returns how many samples some blocks have.
func (x *index) samples(blocks []int) (n int) {
	for _, i := range blocks {
		n += max(x.blocks[i].lines, 1)
	}
	return n
}

// read appends the samples of a block.
func (x *index) read(b block, to []raw) ([]raw, error) {
	f, name := x.open[b.file], x.files[b.file]
	if t := x.tables[b.file]; t != nil {
		line := b.line
		err := t.Read(b.group, b.from, b.lines, func(text string, err error) {
			if len(text) > lineLimit {
				text, err = "", fmt.Errorf("the row is longer than %d MiB", lineLimit>>20)
			}
			to = append(to, raw{text: text, where: place{name, line, "row "}, err: err})
			line++
		})
		if err != nil {
			return nil, fmt.Errorf("dataset: %s: rows %d to %d: %w", name, b.line, b.line+b.lines-1, err)
		}
		return to, nil
	}
	if form := x.forms[b.file]; form != Lines {
		text := make([]byte, b.bytes)
		if _, err := f.ReadAt(text, b.from); err != nil {
			return nil, fmt.Errorf("dataset: %s: %w; has the file changed?", name, err)
		}
		switch form {
		case Array:
			return elements(text, name, b, to)
		case Tokens:
			return append(to, raw{ids: ids(text, 4), where: place{file: name, line: b.line}, plain: true}), nil
		case Words:
			return append(to, raw{ids: ids(text, 2), where: place{file: name, line: b.line}, plain: true}), nil
		}
		return append(to, raw{text: string(text), where: place{file: name, line: b.line}, plain: true}), nil
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, b.from, b.bytes), 64<<10)
	var text []byte
	for i := range b.lines {
		one := raw{where: place{file: name, line: b.line + i}}
		text = text[:0]
		for {
			part, err := r.ReadSlice('\n')
			if len(text)+len(part) > lineLimit {
				one.err, text = fmt.Errorf("the line is longer than %d MiB", lineLimit>>20), nil
			} else if one.err == nil {
				text = append(text, part...)
			}
			if err == nil || err == io.EOF {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, fmt.Errorf("dataset: %s: %w", name, err)
			}
		}
		one.text = string(bytes.TrimSpace(text))
		to = append(to, one)
	}
	return to, nil
}

// elements appends those of a part of an array.
func elements(text []byte, name string, b block, to []raw) ([]raw, error) {
	d := json.NewDecoder(bytes.NewReader(slices.Concat([]byte("["), text, []byte("]"))))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for i := range b.lines {
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("dataset: %s: element %d: %w; has the file changed?", name, b.line+i, err)
		}
		to = append(to, raw{text: string(one), where: place{name, b.line + i, "element "}})
	}
	return to, nil
}

func (x *index) close() error {
	var errs []error
	for _, t := range x.tables {
		if t != nil {
			errs = append(errs, t.Close())
		}
	}
	for i, f := range x.open {
		errs = append(errs, closePlain(f, x.files[i]))
	}
	x.open, x.tables = nil, nil
	return errors.Join(errs...)
}
