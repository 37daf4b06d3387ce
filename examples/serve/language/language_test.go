package language_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/serve/language"
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
	ids, err := l.Encode("hé")
	require.NoError(t, err)
	require.Equal(t, []int32{'h', 0xc3, 0xa9}, ids)
	require.Equal(t, "hé", decode(l, ids))
	require.Equal(t, "h\ufffd", decode(l, ids[:2]))
	require.Equal(t, []byte{0xc3}, l.Bytes(0xc3))
	ids, err = l.Chat(hello)
	require.NoError(t, err)
	require.Equal(t, "user: hé\nassistant: ", decode(l, ids))
	_, err = l.Chat(chat.Conversation{Messages: []chat.Message{{Content: []string{"parts"}}}})
	require.ErrorContains(t, err, "text only")
	_, err = l.Chat(chat.Conversation{Messages: make(chan int)})
	require.Error(t, err)
}

func TestNumbers(t *testing.T) {
	l, err := language.Load(t.TempDir(), 160)
	require.NoError(t, err)
	ids, err := l.Encode("5 77")
	require.NoError(t, err)
	require.Equal(t, []int32{5, 77}, ids)
	require.Equal(t, "5 77 ", decode(l, ids))
	_, err = l.Encode("five")
	require.ErrorContains(t, err, "no tokenizer.json")
	_, err = l.Chat(hello)
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
	ids, err := l.Encode("ab<eos>")
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 3}, ids)
	require.Equal(t, "ab", decode(l, ids), "special tokens are not shown")
	_, err = l.Chat(hello)
	require.ErrorIs(t, err, chat.ErrNoTemplate)
	write("chat_template.jinja", "{% for m in messages %}a:{{ m.content }}{% endfor %}")
	l, err = language.Load(dir, 160)
	require.NoError(t, err)
	ids, err = l.Chat(chat.Conversation{Messages: []chat.Message{{Content: "b"}}})
	require.NoError(t, err)
	require.Equal(t, []int32{0, 2, 1}, ids)
	write("chat_template.jinja", "{% broken")
	_, err = language.Load(dir, 160)
	require.ErrorContains(t, err, "template")
}
