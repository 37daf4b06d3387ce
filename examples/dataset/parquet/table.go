package parquet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/examples/verdict"
)

// table is an open file, whose rows are samples.
type table struct {
	about   *description
	checked []bool             // the groups whose pages were checked
	groups  []parquet.RowGroup // with only the columns of samples
	schema  *parquet.Schema
	read    []string // columns of samples that the file has
	unread  []string // other columns

	rows  parquet.Rows // where reading goes on; nil before
	group int          // of rows
	next  int64        // row of the group
	batch []parquet.Row
}

// batchRows is how many rows are decoded together.
const batchRows = 16

// Open reads the description of a file, which it does not close.
func Open(f *os.File) (_ dataset.Table, err error) {
	defer damaged(&err)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	about, err := describe(f, info.Size())
	if err != nil {
		return nil, err
	}
	// Filters are for searches, and the index of the pages names places in the file that nothing has checked.
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, err
	}
	t := &table{about: about, checked: make([]bool, len(file.RowGroups())), batch: make([]parquet.Row, batchRows)}
	columns := parquet.Group{}
	for _, c := range file.Schema().Fields() {
		at := slices.IndexFunc(dataset.Keys.Keys, func(k verdict.Key) bool { return k.Name == c.Name() })
		switch {
		case at >= 0 && dataset.Keys.Keys[at].Kind == verdict.Refused:
			return nil, fmt.Errorf("it has a column %s: %s", c.Name(), dataset.Keys.Keys[at].Why)
		case at >= 0 && dataset.Keys.Keys[at].Kind == verdict.Honoured:
			columns[c.Name()], t.read = c, append(t.read, c.Name())
		case at >= 0 && dataset.Keys.Keys[at].Kind == verdict.Harmless:
		default:
			t.unread = append(t.unread, c.Name())
		}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return columns[name] != nil })
	}
	if !has("text", "messages", "conversations", "chosen") && !(has("prompt", "query", "instruction") && has("response", "completion", "output")) {
		var all []string
		for _, c := range file.Schema().Fields() {
			all = append(all, c.Name())
		}
		return nil, fmt.Errorf("its columns are %s; samples have text, messages, conversations, or prompt and response", strings.Join(all, ", "))
	}
	t.schema = parquet.NewSchema("sample", columns)
	for _, g := range file.RowGroups() {
		only, err := parquet.Convert(t.schema, g.Schema())
		if err != nil {
			return nil, err
		}
		t.groups = append(t.groups, parquet.ConvertRowGroup(g, only))
	}
	return t, nil
}

// damaged makes a panic of the decoder an error: the decoder trusts what a file says about itself.
func damaged(err *error) {
	if what := recover(); what != nil {
		*err = errors.Join(fmt.Errorf("the file is damaged: %v", what), *err)
	}
}

// mostText is how many bytes the rows of one call of Read have, beside textGrowth for each byte of the file: many rows can be the same few bytes.
const mostText, textGrowth = 32 << 20, 4

// Unread implements dataset.Table.
func (t *table) Unread() []string { return t.unread }

// Groups implements dataset.Table.
func (t *table) Groups() (rows []int64) {
	for _, g := range t.groups {
		rows = append(rows, g.NumRows())
	}
	return rows
}

// Read implements dataset.Table. It goes on where it has stopped, if these rows are the next ones.
func (t *table) Read(group int, from int64, count int, each func(line string, err error)) (err error) {
	defer damaged(&err)
	if !t.checked[group] {
		if err := t.about.group(group, t.read); err != nil {
			return err
		}
		t.checked[group] = true
	}
	if t.rows == nil || t.group != group || t.next != from {
		if err := t.leave(); err != nil {
			return err
		}
		t.rows, t.group, t.next = t.groups[group].Rows(), group, from
		if err := t.rows.SeekToRow(from); err != nil {
			return err
		}
	}
	most := mostText + int(textGrowth*t.about.size)
	for left := count; left > 0; {
		n, err := t.rows.ReadRows(t.batch[:min(left, len(t.batch))])
		if n == 0 && err == nil {
			err = io.ErrNoProgress
		}
		if n < left && err != nil {
			return err
		}
		for _, row := range t.batch[:n] {
			line, err := t.line(row)
			if most -= len(line); most < 0 {
				return fmt.Errorf("%w: %d rows have more than %d bytes", budget.ErrLimit, count, mostText+textGrowth*t.about.size)
			}
			each(line, err)
		}
		left, t.next = left-n, t.next+int64(n)
	}
	return nil
}

// line writes a row as a line of JSON.
func (t *table) line(row parquet.Row) (string, error) {
	var value any = map[string]any{}
	if err := t.schema.Reconstruct(&value, row); err != nil {
		return "", err
	}
	fields, _ := withoutNulls(value).(map[string]any)
	for _, name := range []string{"messages", "conversations", "rejected_messages", "tools", "history", "chat_template_kwargs"} { // some files have JSON in a column of text
		if text, ok := fields[name].(string); ok && text != "" {
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

// Close implements dataset.Table.
func (t *table) Close() error {
	t.about.Close()
	return t.leave()
}

// leave ends reading where it has stopped.
func (t *table) leave() error {
	if t.rows == nil {
		return nil
	}
	err := t.rows.Close()
	t.rows = nil
	return err
}
