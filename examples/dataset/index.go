package dataset

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// blockLines is the number of lines per entry of the index.
	blockLines = 256
	// groupBlocks is the number of random blocks whose samples are shuffled together.
	groupBlocks = 16
	// lineLimit is the length of a line, in bytes, above which it is bad.
	lineLimit = 64 << 20
	// textLimit is about how long a piece of a text file is, in bytes; it ends with a line.
	textLimit = 1 << 20
)

// block is some lines of a file of JSON lines, some rows of a Parquet file, or a piece of a text file.
type block struct {
	file        int
	from, bytes int64 // of a Parquet file, from is a row of the group
	line        int   // number of the first line or row, from 1
	lines       int   // 0 for text
	group       int   // of rows, in a Parquet file
	follows     bool  // it is read after the one before it: that costs less than going elsewhere
}

// raw is a sample as it stands in a file.
type raw struct {
	text  string
	where place
	plain bool  // not JSON
	err   error // why it cannot be read
}

// place names a line of a file.
type place struct {
	file string
	line int
	unit string // "row " of a Parquet file
}

func (p place) String() string { return fmt.Sprintf("%s:%s%d", p.file, p.unit, p.line) }

// Table is an open file of which each row is a sample, such as a Parquet file. Its rows are in groups.
type Table interface {
	// Groups returns the number of rows of each group.
	Groups() []int64
	// Read calls each with count rows of a group, from one of them on, each as a line of JSON or with
	// the reason why it cannot be one. It is fast when the rows follow those of the last call.
	Read(group int, from int64, count int, each func(line string, err error)) error
	Close() error
}

// index locates the samples of files.
type index struct {
	files  []string
	open   []*os.File
	tables []Table // of files that are Parquet files, nil of others
	blocks []block
	starts []int // blocks that follow no other
}

// textFiles are the extensions of files that are read in a folder, beside those of HasSamples.
var textFiles = []string{".txt", ".md", ".go", ".c", ".h", ".py"}

// newIndex looks through a file, or the files of a folder in the order of their names.
func newIndex(path string, openTable func(*os.File) (Table, error)) (*index, error) {
	x := &index{}
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != path && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || name != path && !HasSamples(name) && !slices.Contains(textFiles, filepath.Ext(name)):
			return nil
		}
		return x.add(name, openTable)
	})
	if err == nil && len(x.blocks) == 0 {
		err = fmt.Errorf("dataset: %s has no samples: no .jsonl file, no .parquet file and no text", path)
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

// HasSamples reports whether a file consists of samples rather than of text, by its name.
func HasSamples(name string) bool { return lines(name) || filepath.Ext(name) == ".parquet" }

// lines reports whether a file has a JSON value on each line.
func lines(name string) bool {
	return slices.Contains([]string{".jsonl", ".ndjson"}, filepath.Ext(name))
}

// add finds the blocks of a file.
func (x *index) add(name string, openTable func(*os.File) (Table, error)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	x.files, x.open, x.tables = append(x.files, name), append(x.open, f), append(x.tables, nil)
	if filepath.Ext(name) == ".parquet" {
		return x.addTable(f, openTable)
	}
	now := block{file: len(x.files) - 1, line: 1}
	r := bufio.NewReaderSize(f, 1<<20)
	json := lines(name)
	for line := 1; ; line++ {
		n, err := skipLine(r)
		if n > 0 {
			now.bytes += n
			if json {
				now.lines++
			}
		}
		full := json && now.lines == blockLines || !json && now.bytes >= textLimit
		if now.bytes > 0 && (full || err == io.EOF) {
			x.blocks = append(x.blocks, now)
			now = block{file: now.file, from: now.from + now.bytes, line: line + 1}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// addTable finds the blocks of a Parquet file.
func (x *index) addTable(f *os.File, openTable func(*os.File) (Table, error)) error {
	if openTable == nil {
		return fmt.Errorf("dataset: %s: this program has no reader of Parquet files; Options.Parquet names one", f.Name())
	}
	t, err := openTable(f)
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", f.Name(), err)
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
	if b.lines == 0 {
		text := make([]byte, b.bytes)
		if _, err := f.ReadAt(text, b.from); err != nil {
			return nil, fmt.Errorf("dataset: %s: %w; has the file changed?", name, err)
		}
		return append(to, raw{text: string(text), where: place{file: name, line: b.line}, plain: true}), nil
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, b.from, b.bytes), 64<<10)
	for i := range b.lines {
		one := raw{where: place{file: name, line: b.line + i}}
		var text []byte
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
		one.text = strings.TrimSpace(string(text))
		to = append(to, one)
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
	for _, f := range x.open {
		errs = append(errs, f.Close())
	}
	x.open, x.tables = nil, nil
	return errors.Join(errs...)
}
