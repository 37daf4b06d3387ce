package dataset_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget/budgettest"
	"github.com/goascend/cann/examples/dataset"
)

// readAll reads a file to its end, or to an error.
func readAll(t testing.TB, path string) error { return readSome(t, path, math.MaxInt, bytewise) }

// readSome reads the first rows or pairs of a file.
func readSome(t testing.TB, path string, rows int, o dataset.Options) error {
	d, err := dataset.Open(path, o)
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, d.Close()) }()
	for n := 0; n < rows && d.Position().Epoch < 1; n++ {
		if o.Pairs > 0 {
			_, _, err = d.Pairs(1, 1)
		} else {
			_, err = d.Rows(1, 64, dataset.Padded, 1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// some rows of text.
func someRows(n int, text string) []struct {
	Text string `parquet:"text,dict,zstd"`
} {
	all := make([]struct {
		Text string `parquet:"text,dict,zstd"`
	}, n)
	for i := range all {
		all[i].Text = text
	}
	return all
}

// page is a file of one column and one page, which may lie about itself.
func page(t testing.TB, codec format.CompressionCodec, body []byte, uncompressed, values int32) string {
	return redescribedPage(t, body, uncompressed, values, format.Plain, func(about *format.FileMetaData) { about.RowGroups[0].Columns[0].MetaData.Codec = codec })
}

func redescribedPage(t testing.TB, body []byte, uncompressed, values int32, encoding format.Encoding, change func(about *format.FileMetaData)) string {
	var about format.FileMetaData
	_ = redescribed(t, writeTable(t, "plain.parquet", 10, []struct {
		Text string `parquet:"text"`
	}{{"x"}}), func(plain *format.FileMetaData) { about = *plain })
	header, err := thrift.Marshal(new(thrift.CompactProtocol), format.PageHeader{
		Type: format.DataPage, UncompressedPageSize: uncompressed, CompressedPageSize: int32(len(body)),
		DataPageHeader: thrift.Null[format.DataPageHeader]{Valid: true, V: format.DataPageHeader{NumValues: values, Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}},
	})
	require.NoError(t, err)
	content := append(append([]byte("PAR1"), header...), body...)
	g := &about.RowGroups[0]
	g.NumRows, about.NumRows = int64(values), int64(values)
	c := &g.Columns[0]
	c.OffsetIndexOffset, c.OffsetIndexLength, c.ColumnIndexOffset, c.ColumnIndexLength = 0, 0, 0, 0
	c.MetaData.DataPageOffset, c.MetaData.DictionaryPageOffset = 4, 0
	c.MetaData.TotalCompressedSize, c.MetaData.NumValues = int64(len(content)-4), int64(values)
	change(&about)
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), about)
	require.NoError(t, err)
	return write(t, "page.parquet", string(described(content, footer)))
}

type messageRow struct {
	Role    *string `parquet:"role,dict"`
	Content *string `parquet:"content,dict"`
}

type messagesRow struct {
	Messages []messageRow `parquet:"messages,list"`
}

// differentRows are rows with texts that differ at their begin only.
func differentRows(n, length int) []struct {
	Text string `parquet:"text,zstd"`
} {
	all := make([]struct {
		Text string `parquet:"text,zstd"`
	}, n)
	for i := range all {
		all[i].Text = fmt.Sprint(i) + strings.Repeat("x", length)
	}
	return all
}

// encoded is a file of one column of a kind, with one page in an encoding, which may lie about itself.
func encoded(t testing.TB, kind format.Type, encoding format.Encoding, body string, values int32) string {
	return redescribedPage(t, []byte(body), int32(len(body)), values, encoding, func(about *format.FileMetaData) {
		column, m := &about.Schema[1], &about.RowGroups[0].Columns[0].MetaData
		column.Type.V, m.Type, m.Codec, m.Encoding = kind, kind, format.Uncompressed, []format.Encoding{encoding}
		if kind != format.ByteArray {
			column.LogicalType, column.ConvertedType.Valid = format.LogicalType{}, false
		}
	})
}

func zstandard(t testing.TB, text []byte) []byte {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	return w.EncodeAll(text, nil)
}

func gzipped(t testing.TB, text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// TestCostlyTables: whatever a Parquet file says about itself, it is refused, or read in bounded time and memory.
func TestCostlyTables(t *testing.T) {
	small := numberedTable(t, 300, 100)
	zeros := make([]byte, 100<<20)
	deep := bytes.Repeat([]byte{0x1c}, 5_000_000) // structures in structures
	change := func(f func(about *format.FileMetaData)) string { return redescribed(t, small, f) }
	column := func(f func(c *format.ColumnMetaData)) string {
		return change(func(about *format.FileMetaData) {
			for i := range about.RowGroups {
				for j := range about.RowGroups[i].Columns {
					f(&about.RowGroups[i].Columns[j].MetaData)
				}
			}
		})
	}
	for name, c := range map[string]struct{ path, want string }{
		"whole":                       {small, ""},
		"a list of billions":          {write(t, "x.parquet", "PAR1\x15\x04\x19\xfc\xff\xff\xff\xff\x07"+strings.Repeat("\x00", 60)+"E\x00\x00\x00PAR1"), "elements in 60 bytes"},
		"a text of gigabytes":         {write(t, "x.parquet", string(described([]byte("PAR1"), []byte("\x18\xff\xff\xff\xff\x07")))), "2147483647 bytes of 0"},
		"a footer of 2 GiB":           {write(t, "x.parquet", "PAR1"+strings.Repeat("\x00", 60)+"\xff\xff\xff\x7fPAR1"), "more than the file"},
		"a footer of 10 MB":           {write(t, "x.parquet", string(described([]byte("PAR1"), bytes.Repeat([]byte("\x19\xf0\xff\x7f"), 2_500_000)))), "its description: "},
		"many elements":               {write(t, "x.parquet", string(described([]byte("PAR1"), append([]byte("\x29\xfc\x80\xad\xe2\x04"), make([]byte, 10_000_000)...)))), "over the limit: a description has"},
		"deep structures":             {write(t, "x.parquet", string(described([]byte("PAR1"), deep))), "levels"},
		"encrypted":                   {write(t, "x.parquet", "PARE"+strings.Repeat("\x00", 60)+"\x02\x00\x00\x00PARE"), "begin"},
		"a schema with many parts":    {change(func(about *format.FileMetaData) { about.Schema[0].NumChildren.V = math.MaxInt32 }), "parts"},
		"a schema with negative ones": {change(func(about *format.FileMetaData) { about.Schema[0].NumChildren.V = -5 }), "parts"},
		"a deep schema": {change(func(about *format.FileMetaData) {
			for range 5000 {
				about.Schema = append([]format.SchemaElement{{Name: "x", NumChildren: thrift.Null[int32]{Valid: true, V: 1}}}, about.Schema...)
			}
		}), "levels"},
		"many rows": {change(func(about *format.FileMetaData) {
			about.NumRows, about.RowGroups[0].NumRows = math.MaxInt64, math.MaxInt64
		}), "rows; a file of"},
		"rows that are negative":   {change(func(about *format.FileMetaData) { about.RowGroups[1].NumRows = -1 }), "rows; a file of"},
		"columns that are missing": {change(func(about *format.FileMetaData) { about.RowGroups[1].Columns = nil }), "0 columns of 4"},
		"a large column":           {column(func(c *format.ColumnMetaData) { c.TotalCompressedSize = math.MaxInt64 }), "not in the file"},
		"a column before the file": {column(func(c *format.ColumnMetaData) { c.DataPageOffset = -1 }), "not in the file"},
		"a page elsewhere": {column(func(c *format.ColumnMetaData) {
			c.DictionaryPageOffset, c.DataPageOffset = c.DataPageOffset, c.DataPageOffset+3
		}), "no page where the first one should be"},
		"a large page":                {page(t, format.Uncompressed, []byte("xx"), math.MaxInt32, 1), "a page has 2147483647 bytes"},
		"many values":                 {page(t, format.Uncompressed, []byte("xx"), 2, math.MaxInt32), "over the limit"},
		"zstd, honest":                {page(t, format.Zstd, zstandard(t, zeros), int32(len(zeros)), 1), "104857600 bytes; at most 67108864"},
		"zstd that lies":              {page(t, format.Zstd, zstandard(t, zeros), 1000, 1), "more bytes than it says, 1000"},
		"many frames of zstd":         {page(t, format.Zstd, bytes.Repeat(zstandard(t, zeros[:1000]), 1000), 1000, 1), "more bytes than it says, 1000"},
		"gzip that lies":              {page(t, format.Gzip, gzipped(t, zeros), 1000, 1), "more bytes than it says, 1000"},
		"snappy that lies":            {page(t, format.Snappy, []byte("\xff\xff\xff\xff\x0fcontents"), 1000, 1), "4294967295 bytes and says 1000"},
		"lz4 that lies":               {page(t, format.Lz4Raw, append([]byte("\x1fx\x01\x00"), bytes.Repeat([]byte{0xff}, 100_000)...), 1000, 1), "a page of 1000 bytes"},
		"a row of many messages":      {writeTable(t, "x.parquet", 100, []messagesRow{{Messages: make([]messageRow, 390_000)}}), "can be used"},
		"a row of more messages":      {writeTable(t, "x.parquet", 100, []messagesRow{{Messages: make([]messageRow, 400_000)}}), "values; a file of"},
		"many rows without a message": {writeTable(t, "x.parquet", 1<<30, make([]messagesRow, 200_000)), "can be used"},
		"more rows without a message": {writeTable(t, "x.parquet", 1<<30, make([]messagesRow, 200_001)), "rows; a file of"},
		"many texts of one letter":    {writeTable(t, "x.parquet", 1<<30, someRows(200_000, "x")), ""},
		"booleans in a run":           {encoded(t, format.Boolean, format.RLE, "\x06\x00\x00\x00\xfe\xff\xff\xff\x0f\x01", 10), "the encoding RLE is not read"},
		"differences of billions":     {encoded(t, format.Int64, format.DeltaBinaryPacked, "\x80\x01\x04\xff\xff\xff\xff\x07\x02\x00", 10), "rows 1 to"},
		"differences in large blocks": {encoded(t, format.Int64, format.DeltaBinaryPacked, "\x80\x80\x80\x80\x80\x10\x01\x80\x80\x40\x02\x00", 1), "rows 1 to"},
		"lengths of gigabytes":        {encoded(t, format.ByteArray, format.DeltaLengthByteArray, "\x80\x01\x04\x01\xfe\xff\xff\xff\x0fxyz", 1), "rows 1 to"},
		"a dictionary that is not":    {encoded(t, format.ByteArray, format.RLEDictionary, "\x20\xfe\xff\xff\xff\x0f\x01\x00\x00\x00", 10), "rows 1 to"},
		"texts that compress well":    {writeTable(t, "same.parquet", 1<<30, someRows(1500, strings.Repeat("x", 30_000))), ""},
		"texts that compress better":  {writeTable(t, "same.parquet", 200, differentRows(2000, 40_000)), "the pages have more than"},
		"rows that are shuffled":      {writeTable(t, "same.parquet", 1000, someRows(2000, strings.Repeat("x", 1<<16))), "which are shuffled together"},
		"the same row often":          {writeTable(t, "same.parquet", 1000, someRows(400, strings.Repeat("x", 1<<19))), "over the limit: "},
	} {
		t.Run(name, func(t *testing.T) {
			info, err := os.Stat(c.path)
			require.NoError(t, err)
			require.LessOrEqual(t, info.Size(), int64(11<<20))
			budgettest.Bounded(t, func() {
				err := readAll(t, c.path)
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.want)
			})
		})
	}
}

// FuzzTable: a Parquet file is refused, or read, in bounded time.
func FuzzTable(f *testing.F) {
	for _, codec := range []parquet.WriterOption{parquet.Compression(&parquet.Uncompressed), parquet.Compression(&parquet.Gzip), parquet.Compression(&parquet.Snappy)} {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[textRow](&b, codec, parquet.PageBufferSize(200))
		one, two := "one", strings.Repeat("two", 30)
		_, err := w.Write([]textRow{{Text: &one, Tags: []string{"a"}}, {}, {Text: &two}})
		require.NoError(f, err)
		require.NoError(f, w.Close())
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := write(t, "fuzzed.parquet", string(content))
		budgettest.Timely(t, func() { _ = readAll(t, path) })
	})
}
