package dataset_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/examples/dataset/parquet"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/internal/testing/golden"
)

func write(t testing.TB, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// bytewise are the options of a program whose tokens are bytes.
var bytewise = dataset.Options{Tokenizer: dataset.Bytes{}, Parquet: parquet.Open}

func open(t *testing.T, path string, o dataset.Options) *dataset.Dataset {
	if o.Tokenizer == nil {
		o.Tokenizer = bytewise.Tokenizer
	}
	o.Parquet = bytewise.Parquet
	d, err := dataset.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// numbered is a file whose i-th line has i as its text; some lines are longer.
func numbered(t *testing.T, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"text\": \"%d%s\"}\n", i, strings.Repeat(" ", i%7*5))
	}
	return write(t, "numbers.jsonl", b.String())
}

// learnt returns the labels of a row that count, as text.
func learnt(r dataset.Row) string {
	var b []byte
	for _, l := range r.Labels {
		if l != dataset.Ignored {
			b = append(b, byte(l))
		}
	}
	return string(b)
}

// TestEachSampleOncePerEpoch: an epoch has every sample once, in an order of its own that depends on
// the seed.
func TestEachSampleOncePerEpoch(t *testing.T) {
	const n = 10000
	path := numbered(t, n)
	epochs := func(seed uint64) (orders [2][]int) {
		d := open(t, path, dataset.Options{Seed: seed, End: '\n'})
		for d.Position().Epoch < 2 {
			at := d.Position()
			rows, err := d.Rows(1, 64, dataset.Padded, 1)
			require.NoError(t, err)
			if epoch := d.Position().Epoch; epoch < 2 || at.Sample < n {
				id, err := strconv.Atoi(strings.TrimSpace(string([]byte{byte(rows[0].Inputs[0])}) + learnt(rows[0])))
				require.NoError(t, err)
				if epoch == 2 {
					break
				}
				orders[epoch] = append(orders[epoch], id)
			}
		}
		return orders
	}
	one := epochs(1)
	for _, order := range one {
		sorted := slices.Sorted(slices.Values(order))
		require.Len(t, sorted, n)
		for i, id := range sorted {
			require.Equal(t, i, id)
		}
		require.False(t, slices.IsSorted(order))
	}
	require.NotEqual(t, one[0], one[1])
	require.Equal(t, one, epochs(1))
	require.NotEqual(t, one, epochs(2))
}

// TestSeekGoesOnExactly: from any position the rows are those of a run without a break, within a
// sample that two rows share, and in another epoch too.
func TestSeekGoesOnExactly(t *testing.T) {
	table := numberedTable(t, 700, 300)
	for name, path := range map[string]string{"lines": numbered(t, 700), "table": table, "table without index": withoutIndex(t, table)} {
		t.Run(name, func(t *testing.T) { seeks(t, path) })
	}
}

func seeks(t *testing.T, path string) {
	for _, kind := range []dataset.Kind{dataset.Packed, dataset.Padded} {
		d := open(t, path, dataset.Options{Seed: 3, End: 0})
		var positions []dataset.Position
		var all [][]dataset.Row
		for range 400 {
			positions = append(positions, d.Position())
			rows, err := d.Rows(3, 37, kind, 8)
			require.NoError(t, err)
			all = append(all, rows)
		}
		require.Positive(t, d.Position().Epoch)
		require.Equal(t, kind == dataset.Packed, slices.ContainsFunc(positions, func(p dataset.Position) bool { return p.Used > 0 }))
		for i := 0; i < 397; i += 13 {
			text, err := positions[i].MarshalText()
			require.NoError(t, err)
			var p dataset.Position
			require.NoError(t, p.UnmarshalText(text))
			again := open(t, path, dataset.Options{Seed: 3, End: 0})
			require.NoError(t, again.Seek(p))
			for k := range 3 {
				rows, err := again.Rows(3, 37, kind, 8)
				require.NoError(t, err)
				require.Equal(t, all[i+k], rows, "batch %d after %v", k, p)
			}
		}
		require.Error(t, d.Seek(dataset.Position{Sample: 2, Used: 1000}))
		require.Error(t, new(dataset.Position).UnmarshalText([]byte("epoch -1 sample 0 used 0")))
	}
}

// TestPackedRows: rows are full, sequences have their boundaries, texts go on in the next row, and
// answers stay whole.
func TestPackedRows(t *testing.T) {
	d := open(t, write(t, "a.jsonl", `{"text": "abcdefghijkl"}`), dataset.Options{End: -1})
	rows, err := d.Rows(2, 8, dataset.Packed, 1)
	require.NoError(t, err)
	require.Equal(t, "bcdefghi", learnt(rows[0]))
	require.Equal(t, []int{8}, rows[0].Ends)
	require.Equal(t, []int{3, 8}, rows[1].Ends)
	require.Equal(t, "jklbcdef", learnt(rows[1]), "the rest, and the sample again")

	d = open(t, write(t, "b.jsonl", `{"prompt": "ab", "response": "cd"}`), dataset.Options{End: '.'})
	rows, err = d.Rows(1, 10, dataset.Packed, 1)
	require.NoError(t, err)
	require.Equal(t, []int{4, 8, 10}, rows[0].Ends, "two, and a rest without labels")
	require.Equal(t, "cd.cd.", learnt(rows[0]))
	require.Equal(t, []int32{'a', 'b', 'c', 'd', 'a', 'b', 'c', 'd', 0, 0}, rows[0].Inputs)

	rows, err = d.Rows(2, 3, dataset.Padded, 1)
	require.NoError(t, err)
	require.Equal(t, []int{3}, rows[0].Ends)
	require.Equal(t, "cd", learnt(rows[0]))
	require.Equal(t, 2, d.Report().Truncated)
	rows, err = d.Rows(2, 100, dataset.Padded, 8)
	require.NoError(t, err)
	require.Len(t, rows[1].Inputs, 8, "the longest, rounded up")
	require.Equal(t, []int{4}, rows[1].Ends)
	_, err = d.Rows(0, 1, dataset.Packed, 1)
	require.Error(t, err)
}

// TestBadLines: they are counted, the first in the order of reading is named with file and line, and
// data without any sample end with an error rather than never.
func TestBadLines(t *testing.T) {
	path := write(t, "bad.jsonl", "{\"text\": \"good\"}\n\n{\"text\": 5}\n{\"label\": 1}\n{\"text\": \"\"}\n{\"messages\": []}\n")
	d := open(t, path, dataset.Options{End: -1})
	for d.Position().Epoch < 1 {
		_, err := d.Rows(1, 16, dataset.Padded, 1)
		require.NoError(t, err)
	}
	r := d.Report()
	require.GreaterOrEqual(t, r.Bad, 3)
	require.GreaterOrEqual(t, r.Empty, 1)
	require.Regexp(t, `bad\.jsonl:[346]: `, r.FirstBad.Error())
	require.Regexp(t, `samples read, \d+ bad lines \(the first: .*bad\.jsonl:\d: .*\), \d+ with nothing to learn`, r.String())

	d = open(t, write(t, "only.jsonl", "nothing\n{}\n"), dataset.Options{End: -1})
	_, err := d.Rows(1, 16, dataset.Packed, 1)
	require.ErrorContains(t, err, "only.jsonl")
	require.ErrorContains(t, err, "2 bad lines")
	_, err = dataset.Open(write(t, "empty.jsonl", ""), bytewise)
	require.ErrorContains(t, err, "no samples")
	_, err = dataset.Open(filepath.Join(t.TempDir(), "none"), bytewise)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = dataset.Open(path, dataset.Options{})
	require.Error(t, err)
}

// TestFolders: a folder has the lines of its .jsonl files and its texts, in pieces that end with lines.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(`{"text": "line"}`), 0o600))
	long := strings.Repeat(strings.Repeat("x", 1023)+"\n", 2500)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.txt"), []byte(long), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.png"), []byte("picture"), 0o600))
	d := open(t, dir, dataset.Options{End: -1})
	var sizes []int
	for range 4 {
		rows, err := d.Rows(1, 4<<20, dataset.Padded, 1)
		require.NoError(t, err)
		sizes = append(sizes, rows[0].Ends[0]+1)
	}
	slices.Sort(sizes)
	require.Equal(t, []int{4, 2500*1024 - 2<<20, 1 << 20, 1 << 20}, sizes)
}

// chats returns the options of conversations with the small tokenizer, which it returns too, and its template.
func chats(t *testing.T) (dataset.Options, *tokenizer.Tokenizer) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	dir = filepath.Join(dir, "tokenizer", "small")
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	template, err := chat.Load(dir)
	require.NoError(t, err)
	return dataset.Options{Tokenizer: tok, Template: template, End: -1}, tok
}

// TestConversations: of conversations the answers are learnt, with the token that ends a turn.
func TestConversations(t *testing.T) {
	o, tok := chats(t)
	for line, want := range map[string]string{
		`{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello you"}]}`:                                                                                        "Hello you<|im_end|>",
		`{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "One"}, {"role": "user", "content": "More"}, {"role": "assistant", "content": "Two"}]}`:                "One<|im_end|>Two<|im_end|>",
		`{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "One", "loss": false}, {"role": "user", "content": "More"}, {"role": "assistant", "content": "Two"}]}`: "Two<|im_end|>",
		`{"prompt": "Hi", "response": "There"}`: "There<|im_end|>",
	} {
		d := open(t, write(t, "chat.jsonl", line), o)
		rows, err := d.Rows(1, 512, dataset.Padded, 1)
		require.NoError(t, err)
		var labels []int32
		for _, l := range rows[0].Labels {
			if l != dataset.Ignored {
				labels = append(labels, l)
			}
		}
		require.Equal(t, want, tok.Decode(labels), line)
		require.Contains(t, tok.Decode(rows[0].Inputs), "Hi<|im_end|>")
	}
	d := open(t, write(t, "poet.jsonl", `{"messages": [{"role": "poet", "content": "Hi"}]}`), o)
	_, err := d.Rows(1, 512, dataset.Padded, 1)
	require.ErrorContains(t, err, "unknown role poet")
}

// slow is an encoder that is out of time for one text.
type slow struct{ err error }

func (s slow) Encode(text string) ([]int32, error) {
	if text == "slow" {
		return nil, fmt.Errorf("tokenizer: %w: the text takes more than 1s of the processor", s.err)
	}
	return dataset.Bytes{}.Encode(text)
}

// TestTimeEnds: a sample over a limit of time ends the reading, since another machine may have the time; one over a limit of steps is bad everywhere.
func TestTimeEnds(t *testing.T) {
	path := write(t, "a.jsonl", "{\"text\":\"good\"}\n{\"text\":\"slow\"}\n")
	d := open(t, path, dataset.Options{Tokenizer: slow{budget.ErrLimit}, End: -1})
	for range 4 {
		_, err := d.Rows(1, 4, dataset.Padded, 1)
		require.NoError(t, err)
	}
	require.Positive(t, d.Report().Bad)
	d = open(t, path, dataset.Options{Tokenizer: slow{budget.ErrTime}, End: -1})
	var err error
	for range 4 {
		if _, err = d.Rows(1, 4, dataset.Padded, 1); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, budget.ErrTime)
	require.ErrorContains(t, err, "a.jsonl:2: whether it can be used depends on the speed of the machine")
	require.Zero(t, d.Report().Bad)
	_, again := d.Rows(1, 4, dataset.Padded, 1)
	require.EqualError(t, again, err.Error(), "it is not passed over")
}
