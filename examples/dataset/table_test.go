package dataset_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/dataset"
)

// textRow is a row with a text and a column that nobody needs.
type textRow struct {
	ID   int64    `parquet:"id"`
	Blob []byte   `parquet:"blob"`
	Text *string  `parquet:"text,zstd"`
	Tags []string `parquet:"tags,list"`
}

// writeTable writes rows to a Parquet file, in groups of some.
func writeTable[T any](t testing.TB, name string, group int64, rows []T) string {
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	require.NoError(t, err)
	w := parquet.NewGenericWriter[T](f, parquet.MaxRowsPerRowGroup(group), parquet.PageBufferSize(2000))
	_, err = w.Write(rows)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	return path
}

// redescribed changes the description at the end of a file.
func redescribed(t testing.TB, path string, change func(about *format.FileMetaData)) string {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	size := len(content) - 8
	begin := size - int(binary.LittleEndian.Uint32(content[size:]))
	var about format.FileMetaData
	require.NoError(t, thrift.Unmarshal(new(thrift.CompactProtocol), content[begin:size], &about))
	change(&about)
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), about)
	require.NoError(t, err)
	return write(t, "changed.parquet", string(described(content[:begin], footer)))
}

// described ends a file with a description.
func described(content, footer []byte) []byte {
	return slices.Concat(content, footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), []byte("PAR1"))
}

// withoutIndex drops the index of the pages, which most writers do not write.
func withoutIndex(t testing.TB, path string) string {
	return redescribed(t, path, func(about *format.FileMetaData) {
		for _, g := range about.RowGroups {
			for i := range g.Columns {
				c := &g.Columns[i]
				require.NotZero(t, c.OffsetIndexOffset)
				c.OffsetIndexOffset, c.OffsetIndexLength, c.ColumnIndexOffset, c.ColumnIndexLength = 0, 0, 0, 0
			}
		}
	})
}

// numberedTable has the rows of numbered.
func numberedTable(t *testing.T, n int, group int64) string {
	rows := make([]textRow, n)
	for i := range rows {
		text := fmt.Sprint(i, strings.Repeat(" ", i%7*5))
		rows[i] = textRow{ID: int64(i), Blob: bytes.Repeat([]byte{1}, 100), Text: &text, Tags: []string{"a", "b"}}
	}
	return writeTable(t, "numbers.parquet", group, rows)
}

// samples returns the texts of an epoch.
func samples(t *testing.T, d *dataset.Dataset) (all []string) {
	for {
		ids, err := d.Tokens()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		text := make([]byte, len(ids))
		for i, id := range ids {
			text[i] = byte(id)
		}
		all = append(all, string(text))
	}
}

// TestTableRows: a Parquet file has the samples of a file of lines with the same texts, whatever its row
// groups are, each once in an epoch and in another order in the next.
func TestTableRows(t *testing.T) {
	const n = 2600
	lines := open(t, numbered(t, n), dataset.Options{End: '.'})
	want := samples(t, lines)
	require.Len(t, want, n)
	slices.Sort(want)
	for _, group := range []int64{100, 1000, n} {
		path := numberedTable(t, n, group)
		d := open(t, path, dataset.Options{Seed: 5, End: '.'})
		first, second := samples(t, d), samples(t, d)
		require.False(t, slices.Equal(first, second))
		plain := open(t, withoutIndex(t, path), dataset.Options{Seed: 5, End: '.'})
		require.True(t, slices.Equal(first, samples(t, plain)))
		for _, got := range [][]string{first, second} {
			require.False(t, slices.IsSorted(got))
			slices.Sort(got)
			require.True(t, slices.Equal(want, got), "groups of %d rows", group)
		}
	}
}

// TestTableColumns: each kind of sample is read from its columns as from a line of JSON.
func TestTableColumns(t *testing.T) {
	o, _ := chats(t)
	type message struct {
		Role    string  `parquet:"role"`
		Content string  `parquet:"content"`
		Name    *string `parquet:"name"`
		Loss    *bool   `parquet:"loss"`
	}
	no := false
	conversation := []message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "One", Loss: &no}, {Role: "user", Content: "More <&>"}, {Role: "assistant", Content: "Two"}}
	type spoken struct {
		From   string   `parquet:"from"`
		Value  string   `parquet:"value"`
		Weight *float64 `parquet:"weight"`
	}
	const said = `[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "One", "loss": false}, {"role": "user", "content": "More <&>"}, {"role": "assistant", "content": "Two"}]`
	for name, c := range map[string]struct{ table, lines string }{
		"messages": {writeTable(t, "m.parquet", 10, []struct {
			Messages []message `parquet:"messages,list"`
		}{{conversation}}), `{"messages": ` + said + `}`},
		"messages in a text, with tools": {writeTable(t, "j.parquet", 10, []struct {
			Messages string `parquet:"messages"`
			Tools    string `parquet:"tools"`
		}{{said, `[{"type": "function", "function": {"name": "f", "parameters": {}}}]`}}), `{"messages": ` + said + `, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}`},
		"prompt": {writeTable(t, "p.parquet", 10, []struct {
			Response string `parquet:"response"`
			Prompt   string `parquet:"prompt"`
		}{{"There", "Hi"}}), `{"prompt": "Hi", "response": "There"}`},
		"text": {writeTable(t, "t.parquet", 10, []struct {
			Text string `parquet:"text,dict"`
		}{{"Some text, größer"}}), `{"text": "Some text, größer"}`},
		"Alpaca": {writeTable(t, "a.parquet", 10, []struct {
			Instruction string     `parquet:"instruction"`
			Input       string     `parquet:"input"`
			Output      string     `parquet:"output"`
			System      *string    `parquet:"system"`
			History     [][]string `parquet:"history,list"`
		}{{"Add", "1 2", "3", new("Be brief"), [][]string{{"Hi", "Hello"}}}}), `{"instruction": "Add", "input": "1 2", "output": "3", "system": "Be brief", "history": [["Hi", "Hello"]]}`},
		"ShareGPT": {writeTable(t, "s.parquet", 10, []struct {
			Conversations []spoken `parquet:"conversations,list"`
		}{{[]spoken{{"human", "Hi", nil}, {"gpt", "There", new(1.0)}, {"human", "More", new(0.0)}, {"gpt", "Nothing", new(0.0)}}}}), `{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "There"}, {"from": "human", "value": "More"}, {"from": "gpt", "value": "Nothing", "loss": false}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := open(t, write(t, "a.jsonl", c.lines), o).Rows(1, 512, dataset.Padded, 1)
			require.NoError(t, err)
			got, err := open(t, c.table, o).Rows(1, 512, dataset.Padded, 1)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// TestBadRows: rows that cannot be used are counted, and the first is named with file and row.
func TestBadRows(t *testing.T) {
	good, empty := "good", ""
	rows := make([]textRow, 300)
	for i := range rows {
		rows[i].Text = &good
	}
	rows[270].Text, rows[280].Text = nil, &empty
	d := open(t, writeTable(t, "bad.parquet", 100, rows), dataset.Options{End: -1})
	for d.Position().Epoch < 1 {
		_, err := d.Rows(1, 16, dataset.Padded, 1)
		require.NoError(t, err)
	}
	r := d.Report()
	require.Equal(t, 1, r.Bad)
	require.Equal(t, 1, r.Empty)
	require.Regexp(t, `bad\.parquet:row 271: it has no text`, r.FirstBad.Error())

	d = open(t, writeTable(t, "conversation.parquet", 10, []struct {
		Messages string `parquet:"messages"`
	}{{"no JSON"}}), dataset.Options{End: -1})
	_, err := d.Rows(1, 16, dataset.Packed, 1)
	require.ErrorContains(t, err, "conversation.parquet:row 1: ")
	d = open(t, writeTable(t, "numbers.parquet", 10, []struct {
		Text int64 `parquet:"text"`
	}{{5}}), dataset.Options{End: -1})
	_, err = d.Rows(1, 16, dataset.Packed, 1)
	require.ErrorContains(t, err, "numbers.parquet:row 1: json: cannot unmarshal number")

	_, err = dataset.Open(writeTable(t, "other.parquet", 10, []struct {
		Question string `parquet:"question"`
		Prompt   string `parquet:"prompt"`
	}{{"a", "b"}}), bytewise)
	require.ErrorContains(t, err, "other.parquet: its columns are question, prompt; samples have text, messages, conversations, or prompt and response")
	_, err = dataset.Open(numberedTable(t, 10, 10), dataset.Options{Tokenizer: dataset.Bytes{}})
	require.ErrorContains(t, err, "numbers.parquet: this program has no reader of Parquet files")
	_, err = dataset.Open(write(t, "text.parquet", strings.Repeat("no table ", 10)), bytewise)
	require.ErrorContains(t, err, "text.parquet")
	_, err = dataset.Open(writeTable(t, "none.parquet", 10, []textRow{}), bytewise)
	require.ErrorContains(t, err, "no samples")
}

// TestDamagedTables: a file that was cut or changed anywhere gives an error or other samples, and never
// a panic.
func TestDamagedTables(t *testing.T) {
	whole, err := os.ReadFile(numberedTable(t, 300, 100))
	require.NoError(t, err)
	try := func(content []byte) (failed bool) {
		d, err := dataset.Open(write(t, "damaged.parquet", string(content)), bytewise)
		if err != nil {
			return true
		}
		defer func() { require.NoError(t, d.Close()) }()
		for range 400 {
			if _, err := d.Rows(1, 64, dataset.Padded, 1); err != nil {
				require.ErrorContains(t, err, "damaged.parquet")
				return true
			}
		}
		return false
	}
	require.False(t, try(whole))
	for cut := 0; cut < len(whole); cut += max(1, len(whole)/50) {
		require.True(t, try(whole[:cut]), "cut to %d", cut)
	}
	failed, rng := 0, rand.New(rand.NewPCG(1, 2))
	for range 100 {
		changed := bytes.Clone(whole)
		changed[rng.IntN(len(changed))] ^= 1 << rng.IntN(8)
		if try(changed) {
			failed++
		}
	}
	require.Positive(t, failed)
}
