package dataset_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/dataset"
)

// texts returns the texts of an epoch, in alphabetical order.
func texts(t *testing.T, d *dataset.Dataset) (all []string) {
	for {
		ids, err := d.Tokens()
		if err != nil {
			slices.Sort(all)
			return all
		}
		var b []byte
		for _, id := range ids {
			b = append(b, byte(id))
		}
		all = append(all, string(b))
	}
}

// TestForms: the first bytes of a file decide its format, whatever the case of its suffix, compressed or not, with a byte-order mark or
// without.
func TestForms(t *testing.T) {
	const mark = "\uFEFF"
	lines := "{\"text\":\"one\"}\n{\"text\":\"two\"}\n"
	array := "[\n  {\"text\": \"one\"},\n {\"text\":\"two\"}]\n"
	var zipped, zstandard bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte(lines))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	s, err := zstd.NewWriter(&zstandard)
	require.NoError(t, err)
	_, err = s.Write([]byte(array))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for name, c := range map[string]struct {
		text string
		form dataset.Form
	}{
		"a.jsonl": {lines, dataset.Lines}, "a.JSONL": {lines, dataset.Lines}, "b.jsonl": {mark + lines, dataset.Lines}, "a.json": {lines, dataset.Lines}, "a.ndjson": {lines, dataset.Lines},
		"a.txt": {lines, dataset.Lines}, "a": {mark + array, dataset.Array}, "b.json": {array, dataset.Array}, "b.txt": {array, dataset.Array},
		"c.jsonl.gz": {zipped.String(), dataset.Lines}, "c.Json.GZ": {zipped.String(), dataset.Lines}, "d.json.zst": {zstandard.String(), dataset.Array},
		"f.txt": {zipped.String(), dataset.Lines}, "f.json": {"\x50\x2a\x4d\x18\x04\x00\x00\x00skip" + zstandard.String(), dataset.Array}, "f": {zipped.String(), dataset.Lines},
		"e.jsonl": {lines + "\n{\"text\":\"two\"", dataset.Lines},
	} {
		path := write(t, name, c.text)
		form, err := dataset.FormOf(path)
		require.NoError(t, err, name)
		require.Equal(t, c.form, form, name)
		has, err := dataset.HasSamples(path)
		require.NoError(t, err, name)
		require.True(t, has)
		d := open(t, path, dataset.Options{End: -1})
		require.Equal(t, []string{"one", "two"}, texts(t, d), name)
	}
	for _, text := range []string{"[1] a note", "[a link](b)", "[![badge](x)](y)", "{{ template }}", "[[wiki]]", "{\n}", "", "plain"} {
		form, err := dataset.FormOf(write(t, "a.md", text))
		require.NoError(t, err, text)
		require.Equal(t, dataset.Text, form, text)
	}
	for text, want := range map[string]string{
		"PK\x03\x04": "zip archive",
		"version https://git-lfs.github.com/spec/v1\n": "Git LFS",
		"ab\x00c":                             "not text",
		"\xff\xfea\x00":                       "UTF-16",
		"caf\xe9 au lait, and then some more": "not text",
		"{\n \"data\": [1]\n}":                "one JSON object over several lines",
		"<!DOCTYPE html>":                     "HTML",
	} {
		_, err := dataset.FormOf(write(t, "a.txt", text))
		require.ErrorContains(t, err, want, text)
		_, err = dataset.Open(write(t, "a.txt", text), bytewise)
		require.ErrorContains(t, err, want, text)
	}
	for name, want := range map[string]string{"a.parquet": "as a .parquet file does", "a.tokens": "as a .tokens file does", "a.json": "neither as an array"} {
		_, err := dataset.FormOf(write(t, name, "hello"))
		require.ErrorContains(t, err, want)
	}
	_, err = dataset.Open(write(t, "a.jsonl.gz", zipped.String()[:zipped.Len()-9]), bytewise)
	require.ErrorContains(t, err, "a.jsonl.gz: unexpected EOF")
	var twice bytes.Buffer
	z = gzip.NewWriter(&twice)
	_, err = z.Write(zipped.Bytes())
	require.NoError(t, err)
	require.NoError(t, z.Close())
	_, err = dataset.FormOf(write(t, "a.txt.gz.gz", twice.String()))
	require.ErrorContains(t, err, "compressed twice")
	_, err = dataset.Open(write(t, "a.json", `[{"text":"one"},{"text":]`), bytewise)
	require.ErrorContains(t, err, "element 2")
	_, err = dataset.Open(write(t, "a.json", `[{"text":"one"}] {"text":"two"}`), bytewise)
	require.ErrorContains(t, err, "behind the array")
}

// TestTokenFiles: files of token ids are samples of all their tokens.
func TestTokenFiles(t *testing.T) {
	words := make([]byte, 0, 8)
	wide := dataset.TokensHeader(128)
	for _, c := range "four" {
		words, wide = binary.LittleEndian.AppendUint16(words, uint16(c)), binary.LittleEndian.AppendUint32(wide, uint32(c))
	}
	for _, path := range []string{write(t, "a.bin", string(words)), write(t, "a.tokens", string(wide)), write(t, "a.dat", string(wide))} {
		has, err := dataset.HasSamples(path)
		require.NoError(t, err)
		require.False(t, has)
		require.Equal(t, []string{"four"}, texts(t, open(t, path, dataset.Options{End: 7})))
	}
	_, err := dataset.Open(write(t, "a.bin", "odd"), bytewise)
	require.ErrorContains(t, err, "16-bit tokens")
}

// TestFolder: of a folder the files that can be samples are read, and the others are counted.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.JSONL": `{"text":"one"}`, "b.json": `[{"text":"two"}]`, "package.json": "{\n\"name\":1}", "c.md": "three", "x.png": "\x89PNG"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	d := open(t, dir, dataset.Options{End: -1})
	require.Equal(t, []string{"one", "three", "two"}, texts(t, d))
	require.Equal(t, map[string]int{".json": 1, ".png": 1}, d.Report().LeftOut)
	require.Contains(t, d.Report().String(), `1 files "*.json" not read, 1 files "*.png" not read`)
	has, err := dataset.HasSamples(dir)
	require.NoError(t, err)
	require.True(t, has)
}

// TestOtherPrograms: samples in the forms of other programs are those in ours.
func TestOtherPrograms(t *testing.T) {
	folder := filepath.Dir(write(t, "chat_template.jinja", "{% for f in tools or [] %}[{{ f.function.name }}]{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.role == 'assistant' %}|{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"))
	template, err := chat.Load(folder)
	require.NoError(t, err)
	for line, want := range map[string]string{
		`{"prompt":"q","completion":"a"}`:                                                                                 "<user>q<assistant>a|",
		`{"query":"q","response":"a","history":[["h","i"]]}`:                                                              "<user>h<assistant>i|<user>q<assistant>a|",
		`{"instruction":"q","input":"","output":"a"}`:                                                                     "<user>q<assistant>a|",
		`{"instruction":"q","input":"r","output":"a","system":"s","history":null}`:                                        "<system>s<user>q\nr<assistant>a|",
		`{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}],"system":"s","id":7}`:                 "<system>s<user>q<assistant>a|",
		`{"conversations":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`:                            "<user>q<assistant>a|",
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"tools":"[]","chosen":null}`:      "<user>q<assistant>a|",
		`{"query":"q","response":"a","tools":[{"type":"function","function":{"name":"f"}}]}`:                              "[f]<user>q<assistant>a|",
		`{"conversations":[{"from":"system","value":"s"},{"from":"observation","value":"o"},{"from":"gpt","value":"a"}]}`: "<system>s<tool>o<assistant>a|",
	} {
		d := open(t, write(t, "a.jsonl", line), dataset.Options{End: -1, Template: template})
		require.Equal(t, []string{want}, texts(t, d), line)
		require.Zero(t, d.Report().Bad, "%v", d.Report())
	}
	for line, want := range map[string]string{
		`{"text":"a","messages":[]}`:                                "text and messages",
		`{"prompt":"a","response":"b","output":"c"}`:                "several of response",
		`{"prompt":"a","chosen":"b","rejected":"c"}`:                "chosen and rejected",
		`{"conversations":[{"from":"narrator","value":"a"}]}`:       `from "narrator"`,
		`{"conversations":[{"from":"human"}]}`:                      "needs a value",
		`{"conversations":["a"]}`:                                   "turn 0",
		`{"messages":[{"role":"user","content":"q"}],"tools":"[x"}`: "tools is a text that is no JSON",
		`{"question":"a"}`:                                          "no text, no messages",
	} {
		d := open(t, write(t, "a.jsonl", line+"\n"+`{"text":"good"}`), dataset.Options{End: -1, Template: template})
		require.Equal(t, []string{"good"}, texts(t, d), line)
		require.Equal(t, 1, d.Report().Bad, line)
		require.True(t, strings.Contains(d.Report().FirstBad.Error(), want), "%v", d.Report().FirstBad)
	}
}

// TestUnpacked: a compressed file that would fill the disk is refused, and nothing of it is left.
func TestUnpacked(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	require.NoError(t, err)
	lines := bytes.Repeat([]byte("{\"text\":\"one\"}\n"), 1<<16)
	for range 160 {
		_, err = z.Write(lines)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	_, err = dataset.Open(write(t, "bomb.jsonl.zst", packed.String()), dataset.Options{Tokenizer: bytewise.Tokenizer})
	require.ErrorIs(t, err, budget.ErrLimit)
	require.ErrorContains(t, err, "unpack it yourself")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestReadText: the texts of a folder have a line's end between them, and none before the first, also if that is behind empty files.
func TestReadText(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"a.txt": "", "b.txt": "", "c.txt": "one", "d.txt": "", "e.txt": "two"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	text, _, err := dataset.ReadText(folder)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo", string(text))
}

// TestPackedInside: what is compressed in a way, or in a place, that is not read has to be unpacked, and the error says so.
func TestPackedInside(t *testing.T) {
	inner := string(gzipped(t, []byte("{\"text\":\"one\"}\n")))
	for name, text := range map[string]string{
		"a.jsonl.gz": string(gzipped(t, []byte(inner))), "a.parquet": "PK\x03\x04", "a.tokens": "BZh91", "a.bin": "\xfd7zXZ\x00", "a.txt": "7z\xbc\xaf", "a.json": "\x04\x22\x4d\x18",
		"b.parquet": string(gzipped(t, []byte("PAR1....PAR1"))),
	} {
		_, err := dataset.Open(write(t, name, text), bytewise)
		require.ErrorContains(t, err, "unpack it", name)
	}
}
