package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// table is an open Parquet file, whose rows are samples.
type table struct {
	name   string
	groups []parquet.RowGroup // with only the columns of samples
	schema *parquet.Schema

	rows  parquet.Rows // where reading goes on; nil before
	group int          // of rows
	next  int64        // row of the group
	batch []parquet.Row
}

// tableBatch is how many rows are decoded together.
const tableBatch = 16

// sampleColumns are the columns that samples can have, as the fields of a record.
var sampleColumns = []string{"text", "messages", "tools", "prompt", "response"}

// openTable reads the description of a file, which it does not close.
func openTable(f *os.File) (t *table, err error) {
	defer damaged(&err)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// The index of the pages makes it cheap to go on in the middle; filters are for searches.
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	var all []string
	columns := parquet.Group{}
	for _, c := range file.Schema().Fields() {
		all = append(all, c.Name())
		if slices.Contains(sampleColumns, c.Name()) {
			columns[c.Name()] = c
		}
	}
	if columns["text"] == nil && columns["messages"] == nil && (columns["prompt"] == nil || columns["response"] == nil) {
		return nil, fmt.Errorf("its columns are %s; samples have text, messages, or prompt and response", strings.Join(all, ", "))
	}
	t = &table{name: f.Name(), schema: parquet.NewSchema("sample", columns)}
	for _, g := range file.RowGroups() {
		only, err := parquet.Convert(t.schema, g.Schema())
		if err != nil {
			return nil, err
		}
		t.groups = append(t.groups, parquet.ConvertRowGroup(g, only))
	}
	t.batch = make([]parquet.Row, tableBatch)
	return t, nil
}

// damaged makes a panic of the decoder an error: it trusts what a file says about itself.
func damaged(err *error) {
	if what := recover(); what != nil {
		*err = errors.Join(fmt.Errorf("the file is damaged: %v", what), *err)
	}
}

// read appends the samples of a block. It goes on where it has stopped, if the block is the next one.
func (t *table) read(b block, to []raw) (_ []raw, err error) {
	defer damaged(&err)
	if t.rows == nil || t.group != b.group || t.next != b.from {
		if err := t.close(); err != nil {
			return nil, err
		}
		t.rows, t.group, t.next = t.groups[b.group].Rows(), b.group, b.from
		if err := t.rows.SeekToRow(b.from); err != nil {
			return nil, err
		}
	}
	for left := b.lines; left > 0; {
		n, err := t.rows.ReadRows(t.batch[:min(left, len(t.batch))])
		if n == 0 && err == nil {
			err = io.ErrNoProgress
		}
		if n < left && err != nil {
			return nil, err
		}
		for _, row := range t.batch[:n] {
			one := raw{where: place{t.name, b.line + b.lines - left, "row "}}
			if one.text, one.err = t.line(row); len(one.text) > lineLimit {
				one.text, one.err = "", fmt.Errorf("the row is longer than %d MiB", lineLimit>>20)
			}
			to, left = append(to, one), left-1
		}
		t.next += int64(n)
	}
	return to, nil
}

// line writes a row as a line of JSON.
func (t *table) line(row parquet.Row) (string, error) {
	var value any = map[string]any{}
	if err := t.schema.Reconstruct(&value, row); err != nil {
		return "", err
	}
	fields, _ := withoutNulls(value).(map[string]any)
	for _, name := range []string{"messages", "tools"} { // some files have JSON in a column of text
		if text, ok := fields[name].(string); ok {
			fields[name] = json.RawMessage(text)
		}
	}
	line, err := json.Marshal(fields)
	return string(line), err
}

// withoutNulls drops the fields that a row does not have: a column has the fields of all rows.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if field == nil {
				delete(v, name)
			} else {
				v[name] = withoutNulls(field)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}

func (t *table) close() error {
	if t == nil || t.rows == nil {
		return nil
	}
	err := t.rows.Close()
	t.rows = nil
	return err
}
