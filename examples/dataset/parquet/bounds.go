package parquet

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"github.com/goascend/cann/examples/budget"
)

// The library that reads Parquet files trusts what a file says about its own sizes. This file checks that first: what is described must
// lie in the file, and what is decompressed or decoded must be as large as it is said to be, within limits that grow with the file.
const (
	longestFooter   = 16 << 20
	mostElements    = 200_000 // of lists in the footer; and pages of a file
	mostColumns     = 10_000  // with the groups of columns
	deepestColumn   = 32
	longestHeader   = 16 << 20 // of a page: it can have its least value and its greatest
	largestPage     = 64 << 20 // uncompressed
	deepestMetadata = 16
)

// The bounds of what is in a file. One of up to smallFile bytes is read in a second or two, whatever is in it; a larger one may have more.
const (
	smallFile  = 10 << 20
	mostPages  = 48 << 20 // bytes of all pages that are read, uncompressed
	pageGrowth = 32       // and for each further byte of the file
	mostValues = 3 << 18  // of all columns that are read
	mostRows   = 200_000
)

// allowed is a bound for a file that may have so many more things for each of its bytes beyond smallFile, or one more for so many bytes.
func (d *description) allowed(most, more, bytes int64) int64 {
	return most + max(0, d.size-smallFile)*more/bytes
}

// description holds the metadata of a file, after they have been checked against the file's size.
type description struct {
	file io.ReaderAt
	size int64
	meta format.FileMetaData
	// fields are the columns that a row has, in which the leaves of the schema lie.
	fields []string
	// grown is the size of all pages that were looked at, uncompressed, and pages their number.
	grown int64
	pages int
	// values are those of the pages that were looked at.
	values int64
	zstd   *zstd.Decoder // nil before the first use
}

// Close frees what decompresses.
func (d *description) Close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}

// describe reads the end of a file.
func describe(f io.ReaderAt, size int64) (*description, error) {
	const magic = "PAR1"
	var start [4]byte
	var end [8]byte
	if size < int64(len(start)+len(end)) {
		return nil, fmt.Errorf("it has %d bytes, too few for a Parquet file", size)
	}
	if _, err := f.ReadAt(start[:], 0); err != nil {
		return nil, err
	}
	if _, err := f.ReadAt(end[:], size-int64(len(end))); err != nil {
		return nil, err
	}
	if string(start[:]) != magic || string(end[4:]) != magic {
		return nil, fmt.Errorf("it begins with %q and ends with %q; a Parquet file that is not encrypted has %s in both places", start, end[4:], magic)
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > size-int64(len(start)+len(end)) {
		return nil, fmt.Errorf("its description has %d bytes, more than the file", length)
	}
	if err := budget.Size("the description", int(length), longestFooter, "bytes"); err != nil {
		return nil, err
	}
	footer := make([]byte, length)
	if _, err := f.ReadAt(footer, size-int64(len(end))-length); err != nil {
		return nil, err
	}
	w := walker{text: footer, left: mostElements}
	if w.structure(0); w.err != nil {
		return nil, fmt.Errorf("its description: %w", w.err)
	}
	d := &description{file: f, size: size}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), footer[:w.at], &d.meta); err != nil {
		return nil, fmt.Errorf("its description: %w", err)
	}
	return d, d.check()
}

// check compares the description with the file.
func (d *description) check() error {
	if err := d.leaves(); err != nil {
		return err
	}
	rows := int64(0)
	for i, g := range d.meta.RowGroups {
		if len(g.Columns) != len(d.fields) {
			return fmt.Errorf("group %d of its rows has %d columns of %d", i, len(g.Columns), len(d.fields))
		}
		if rows += g.NumRows; g.NumRows < 0 || rows < 0 || rows > d.allowed(mostRows, 1, 8) {
			return fmt.Errorf("%w: it says that it has %d rows; a file of %d bytes has at most %d", budget.ErrLimit, rows, d.size, d.allowed(mostRows, 1, 8))
		}
		for j, c := range g.Columns {
			m := c.MetaData
			begin := m.DataPageOffset
			if m.DictionaryPageOffset != 0 {
				begin = m.DictionaryPageOffset
			}
			if begin < 0 || m.TotalCompressedSize < 0 || begin > d.size || m.TotalCompressedSize > d.size-begin {
				return fmt.Errorf("column %d of group %d of its rows is not in the file: bytes %d and %d more, of %d", j, i, begin, m.TotalCompressedSize, d.size)
			}
		}
	}
	return nil
}

// leaves finds the columns of the schema, which is a tree in the order of its nodes.
func (d *description) leaves() error {
	all := d.meta.Schema
	if err := budget.Size("the schema", len(all), mostColumns, "columns"); err != nil {
		return err
	}
	var open []int32 // children that are missing, of each node around
	field := ""
	for i, e := range all {
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
		if i > 0 {
			if len(open) == 0 {
				return errors.New("its schema has several roots")
			}
			open[len(open)-1]--
		}
		if len(open) == 1 {
			field = e.Name
		}
		children := e.NumChildren.V
		if children < 0 || int(children) > len(all)-i-1 {
			return fmt.Errorf("column %d of its schema has %d parts", i, children)
		}
		if e.TypeLength.V < 0 || e.TypeLength.V > largestPage {
			return fmt.Errorf("the values of column %d of its schema have %d bytes", i, e.TypeLength.V)
		}
		if children == 0 {
			d.fields = append(d.fields, field)
			continue
		}
		open = append(open, children)
		if err := budget.Size("a column", len(open), deepestColumn, "levels"); err != nil {
			return err
		}
	}
	return nil
}

// group checks the pages of some fields in a group of rows.
func (d *description) group(group int, fields []string) error {
	for i, field := range d.fields {
		if slices.Contains(fields, field) {
			if err := d.column(group, i); err != nil {
				return fmt.Errorf("the column %s: %w", field, err)
			}
		}
	}
	return nil
}

// column checks the pages of a column in a group of rows, which are decompressed for that.
func (d *description) column(group, column int) error {
	m := d.meta.RowGroups[group].Columns[column].MetaData
	at := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		at = m.DictionaryPageOffset
	}
	end, known := at+m.TotalCompressedSize, false
	for at < end {
		known = known || at == m.DataPageOffset
		h, length, err := d.header(at, end)
		if err != nil {
			return err
		}
		at += length
		n := int64(max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues))
		if d.values += n; n < 0 || d.values > d.allowed(mostValues, 1, 1) { // with those of dictionaries
			return fmt.Errorf("%w: the columns have more than %d values; a file of %d bytes has no more", budget.ErrLimit, d.allowed(mostValues, 1, 1), d.size)
		}
		for _, e := range []format.Encoding{format.DeltaByteArray, format.RLE} {
			if h.Type == format.DataPage && h.DataPageHeader.V.Encoding == e || h.Type == format.DataPageV2 && h.DataPageHeaderV2.V.Encoding == e {
				return fmt.Errorf("the encoding %v is not read: what it stands for has any size", e)
			}
		}
		size, whole := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
		if size < 0 || whole < 0 || size > end-at {
			return fmt.Errorf("a page of %d bytes, %d of them uncompressed, is not in its column", size, whole)
		}
		d.pages++
		d.grown += whole
		if err := errors.Join(budget.Size("a page", int(whole), largestPage, "bytes"), budget.Size("the file", d.pages, mostElements, "pages")); err != nil {
			return err
		}
		if most := d.allowed(mostPages, pageGrowth, 1); d.grown > most {
			return fmt.Errorf("%w: the pages have more than %d bytes, uncompressed", budget.ErrLimit, most)
		}
		compressed := m.Codec != format.Uncompressed
		levels := int64(0)
		if h.Type == format.DataPageV2 { // its levels are not compressed
			v2 := &h.DataPageHeaderV2.V
			levels = int64(v2.DefinitionLevelsByteLength) + int64(v2.RepetitionLevelsByteLength)
			compressed = compressed && (!v2.IsCompressed.Valid || v2.IsCompressed.V)
			if v2.DefinitionLevelsByteLength < 0 || v2.RepetitionLevelsByteLength < 0 || levels > min(size, whole) {
				return fmt.Errorf("a page of %d bytes has levels of %d", size, levels)
			}
		}
		if compressed {
			if err := d.decompressed(m.Codec, io.NewSectionReader(d.file, at+levels, size-levels), whole-levels); err != nil {
				return err
			}
		}
		at += size
	}
	if !known && m.TotalCompressedSize > 0 {
		return errors.New("a column has no page where the first one should be")
	}
	return nil
}

// header reads the header of a page, and returns its length.
func (d *description) header(at, end int64) (*format.PageHeader, int64, error) {
	for length := int64(1 << 10); ; length = min(length<<7, longestHeader) {
		text := make([]byte, min(length, end-at))
		if _, err := d.file.ReadAt(text, at); err != nil {
			return nil, 0, err
		}
		w := walker{text: text, left: mostElements}
		w.structure(0)
		if errors.Is(w.err, io.ErrUnexpectedEOF) && int64(len(text)) < min(longestHeader, end-at) {
			continue
		}
		h := new(format.PageHeader)
		if w.err == nil {
			w.err = thrift.Unmarshal(new(thrift.CompactProtocol), text[:w.at], h)
		}
		if w.err != nil {
			return nil, 0, fmt.Errorf("the header of a page: %w", w.err)
		}
		return h, int64(w.at), nil
	}
}

// decompressed refuses a page that becomes longer than it says.
func (d *description) decompressed(codec format.CompressionCodec, page *io.SectionReader, most int64) error {
	var r io.Reader
	switch codec {
	case format.Snappy:
		var start [binary.MaxVarintLen64]byte
		n, _ := page.ReadAt(start[:], 0)
		if length, k := binary.Uvarint(start[:n]); n > 0 && (k <= 0 || length > uint64(most)) {
			return fmt.Errorf("a page has %d bytes and says %d", length, most)
		}
		return nil
	case format.Gzip:
		z, err := gzip.NewReader(page)
		if err != nil {
			return fmt.Errorf("a page: %w", err)
		}
		r = z
	case format.Zstd:
		if d.zstd == nil {
			var err error
			if d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(largestPage), zstd.WithDecoderLowmem(true)); err != nil {
				return err
			}
		}
		if err := d.zstd.Reset(page); err != nil {
			return fmt.Errorf("a page: %w", err)
		}
		r = d.zstd
	case format.Brotli:
		r = brotli.NewReader(page)
	case format.Lz4Raw:
		text := make([]byte, page.Size())
		if _, err := io.ReadFull(page, text); err != nil {
			return err
		}
		if _, err := lz4.UncompressBlock(text, make([]byte, most)); err != nil && len(text) > 0 {
			return fmt.Errorf("a page of %d bytes: %w", most, err)
		}
		return nil
	default:
		return fmt.Errorf("the compression %v is not read", codec)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("it has more bytes than it says, %d", most)
	}
	if err != nil {
		return fmt.Errorf("a page: %w", err)
	}
	return nil
}

// walker reads a value in Thrift's compact protocol, without memory for it: each list must have as many elements as it says.
type walker struct {
	text []byte
	at   int
	left int // elements of lists that may still come
	err  error
}

// Types of the protocol: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
const (
	thriftTrue = iota + 1
	thriftFalse
	thriftByte
	thriftInt16
	thriftInt32
	thriftInt64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

func (w *walker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
	w.at = len(w.text)
}

// skip passes n bytes.
func (w *walker) skip(n uint64) {
	if n > uint64(len(w.text)-w.at) {
		w.fail(fmt.Errorf("%d bytes of %d: %w", n, len(w.text)-w.at, io.ErrUnexpectedEOF))
		return
	}
	w.at += int(n)
}

func (w *walker) next() byte {
	if w.skip(1); w.err != nil {
		return 0
	}
	return w.text[w.at-1]
}

func (w *walker) number() uint64 {
	n, k := binary.Uvarint(w.text[w.at:])
	switch {
	case k == 0:
		w.fail(io.ErrUnexpectedEOF)
	case k < 0:
		w.fail(errors.New("a number of more than 64 bits"))
	default:
		w.at += k
	}
	return n
}

// structure passes the fields of a structure.
func (w *walker) structure(depth int) {
	if err := budget.Size("a value", depth, deepestMetadata, "levels"); err != nil {
		w.fail(err)
	}
	for w.err == nil {
		h := w.next()
		if h == 0 {
			return
		}
		if h>>4 == 0 {
			w.number() // of the field
		}
		if kind := h & 15; kind > thriftFalse { // these have no value
			w.value(kind, depth)
		}
	}
}

func (w *walker) value(kind byte, depth int) {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		w.skip(1)
	case thriftInt16, thriftInt32, thriftInt64:
		w.number()
	case thriftDouble:
		w.skip(8)
	case thriftBinary:
		w.skip(w.number())
	case thriftList, thriftSet:
		h := w.next()
		n := uint64(h >> 4)
		if n == 15 {
			n = w.number()
		}
		w.elements(n, depth, h&15)
	case thriftMap:
		if n := w.number(); n > 0 {
			h := w.next()
			w.elements(n, depth, h>>4, h&15)
		}
	case thriftStruct:
		w.structure(depth + 1)
	default:
		w.fail(fmt.Errorf("a value of type %d", kind))
	}
}

// elements passes n elements, each of some values. Every value has a byte.
func (w *walker) elements(n uint64, depth int, kinds ...byte) {
	if n > uint64(len(w.text)-w.at) || n > math.MaxInt32 {
		w.fail(fmt.Errorf("%d elements in %d bytes: %w", n, len(w.text)-w.at, io.ErrUnexpectedEOF))
		return
	}
	if err := budget.Size("a description", int(n), w.left, "elements"); err != nil {
		w.fail(err)
		return
	}
	w.left -= int(n)
	if err := budget.Size("a value", depth+1, deepestMetadata, "levels"); err != nil {
		w.fail(err)
	}
	for ; n > 0 && w.err == nil; n-- {
		for _, kind := range kinds {
			w.value(kind, depth+1)
		}
	}
}
