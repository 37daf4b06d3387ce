package language_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/tokenizer"
)

func decode(l language.Language, ids []int32) (text string) {
	s := l.Stream()
	for _, id := range ids {
		text += s.Next(id)
	}
	return text + s.Flush()
}

var hello = chat.Conversation{Messages: []chat.Message{{Role: "user", Content: "hé"}}, AddGenerationPrompt: true}

func TestBytes(t *testing.T) {
	l, err := language.Load("", 256)
	require.NoError(t, err)
	ids, err := l.Encode("hé", 10)
	require.NoError(t, err)
	require.Equal(t, []int32{'h', 0xc3, 0xa9}, ids)
	require.Equal(t, "hé", decode(l, ids))
	require.Equal(t, "h\ufffd", decode(l, ids[:2]))
	require.Equal(t, []byte{0xc3}, l.Bytes(0xc3))
	ids, err = l.Chat(hello, 100)
	require.NoError(t, err)
	require.Equal(t, "user: hé\nassistant: ", decode(l, ids))
	_, err = l.Chat(chat.Conversation{Messages: []chat.Message{{Content: []string{"parts"}}}}, 100)
	require.ErrorContains(t, err, "text only")
	_, err = l.Chat(chat.Conversation{Messages: make(chan int)}, 100)
	require.Error(t, err)
}

func TestNumbers(t *testing.T) {
	l, err := language.Load(t.TempDir(), 160)
	require.NoError(t, err)
	ids, err := l.Encode("5 77", 10)
	require.NoError(t, err)
	require.Equal(t, []int32{5, 77}, ids)
	require.Equal(t, "5 77 ", decode(l, ids))
	_, err = l.Encode("five", 10)
	require.ErrorContains(t, err, "no tokenizer.json or tokenizer.model")
	_, err = l.Chat(hello, 100)
	require.ErrorIs(t, err, chat.ErrNoTemplate)
}

func TestHub(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("tokenizer.json", `{"added_tokens":[{"id":3,"content":"<eos>","special":true}],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,":":2,"<eos>":3},"merges":[]}}`)
	l, err := language.Load(dir, 160)
	require.NoError(t, err)
	ids, err := l.Encode("ab<eos>", 10)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 3}, ids)
	require.Equal(t, "ab", decode(l, ids), "special tokens are not shown")
	_, err = l.Chat(hello, 100)
	require.ErrorIs(t, err, chat.ErrNoTemplate)
	write("chat_template.jinja", "{% for m in messages %}a:{{ m.content }}{% endfor %}")
	l, err = language.Load(dir, 160)
	require.NoError(t, err)
	ids, err = l.Chat(chat.Conversation{Messages: []chat.Message{{Content: "b"}}}, 100)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 2, 1}, ids)
	write("chat_template.jinja", "{% broken")
	_, err = language.Load(dir, 160)
	require.ErrorContains(t, err, "template")
}

// TestLowerCase: with do_lower_case texts get the lower case that Python gives them.
func TestLowerCase(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sentence_xlm-roberta_config.json"), []byte(`{"max_seq_length":512,"do_lower_case":true}`), 0o600))
	want, vocab := map[string]string{ // by Python 3.12
		"İstanbul": "i\u0307stanbul", "ΑΣ": "\u03b1\u03c2", "ΑΣΑ": "\u03b1\u03c3\u03b1", "Σ": "\u03c3", "ΑΣ.": "\u03b1\u03c2.", "ǅ": "\u01c6", "ẞ": "\u00df", "ÀÉÎ": "\u00e0\u00e9\u00ee", "Ω": "\u03c9",
		"Ⅷ": "\u2177", "A\u0301Σ\u0301": "a\u0301\u03c2\u0301", "ΣΣ Σ": "\u03c3\u03c2 \u03c3", "[SEP]": "[sep]",
	}, map[string]int{}
	for _, text := range want {
		for _, r := range text {
			if _, known := vocab[string(r)]; !known {
				vocab[string(r)] = len(vocab)
			}
		}
	}
	file, err := json.Marshal(map[string]any{"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}, "decoder": map[string]string{"type": "Fuse"}, "added_tokens": []any{map[string]any{"id": 999, "content": "[SEP]", "special": true}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), file, 0o600))
	l, err := language.Load(dir, 1000)
	require.NoError(t, err)
	for text, lower := range want {
		ids, err := l.Encode(text, 100)
		require.NoError(t, err)
		require.Equal(t, lower, decode(l, ids), "%q", text)
		pair, types, err := l.EncodePair(text, text, 100)
		require.NoError(t, err)
		require.Equal(t, append(ids, ids...), pair)
		require.Len(t, types, len(pair))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte("{% for m in messages %}{{ m.content }}{% endfor %}"), 0o600))
	l, err = language.Load(dir, 1000)
	require.NoError(t, err)
	_, err = l.Chat(hello, 100)
	require.ErrorContains(t, err, "do_lower_case of sentence_*_config.json is true")
}

// TestLongTexts: texts with more tokens than there may be are refused.
func TestLongTexts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(`{"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"1":0,"\u0120":1},"merges":[]}}`), 0o600))
	for name, c := range map[string]struct {
		folder string
		vocab  int
		most   int // of the text below
	}{"bytes": {"", 256, 5}, "numbers": {t.TempDir(), 160, 3}, "hub": {dir, 160, 5}} {
		t.Run(name, func(t *testing.T) {
			l, err := language.Load(c.folder, c.vocab)
			require.NoError(t, err)
			ids, err := l.Encode("1 1 1", c.most)
			require.NoError(t, err)
			require.Len(t, ids, c.most)
			_, err = l.Encode("1 1 1", c.most-1)
			require.ErrorIs(t, err, tokenizer.ErrLength)
		})
	}
}
