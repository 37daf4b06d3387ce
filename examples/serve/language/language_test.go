package language_test

import (
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
	require.ErrorContains(t, err, "no tokenizer.json")
	_, err = l.Chat(hello, 100)
	require.ErrorIs(t, err, chat.ErrNoTemplate)
}

func TestHub(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("tokenizer.json", `{"added_tokens":[{"id":3,"content":"<eos>","special":true}],"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,":":2,"<eos>":3},"merges":[]}}`)
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

// TestLongTexts: texts with more tokens than there may be are refused.
func TestLongTexts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(`{"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"1":0,"\u0120":1},"merges":[]}}`), 0o600))
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
