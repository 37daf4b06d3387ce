package language

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/serve/tools"
	"github.com/goascend/cann/examples/tokenizer"
)

// tooLong is the error of a text with more tokens than it may have.
func tooLong(most int) error {
	return fmt.Errorf("language: %w: it has more than %d tokens", tokenizer.ErrLength, most)
}

// letters is the language of models whose tokens are bytes.
type letters struct{}

func (letters) Encode(text string, most int) ([]int32, error) {
	if len(text) > most {
		return nil, tooLong(most)
	}
	ids := make([]int32, len(text))
	for i := range len(text) {
		ids[i] = int32(text[i])
	}
	return ids, nil
}

// EncodePair puts the second text behind the first.
func (l letters) EncodePair(first, second string, most int) (ids, types []int32, err error) {
	ids, err = l.Encode(first+second, most)
	return ids, make([]int32, len(ids)), err
}

// Chat writes a line for each message, with its role before a colon.
func (l letters) Chat(c chat.Conversation, most int) ([]int32, error) {
	if len(c.Variables) > 0 {
		return nil, fmt.Errorf("language: variables of a template: %w", chat.ErrNoTemplate)
	}
	text, err := json.Marshal(c.Messages)
	if err != nil {
		return nil, err
	}
	var messages []struct{ Role, Content string }
	if err := json.Unmarshal(text, &messages); err != nil {
		return nil, fmt.Errorf("language: this model takes messages of text only: %w", err)
	}
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Content)
	}
	if c.AddGenerationPrompt {
		b.WriteString("assistant: ")
	}
	return l.Encode(b.String(), most)
}

func (letters) Tools() tools.Form { return tools.None }

func (letters) Bytes(id int32) []byte { return []byte{byte(id)} }

func (l letters) Stream() *tokenizer.Stream { return tokenizer.NewStream(l.Bytes) }

// numbers is the language of models whose tokens are unknown: texts are lists of their numbers.
type numbers struct{}

func (numbers) Encode(text string, most int) (ids []int32, err error) {
	for field := range strings.FieldsSeq(text) {
		if len(ids) == most {
			return nil, tooLong(most)
		}
		id, err := strconv.ParseInt(field, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("language: the model's folder has no tokenizer.json or tokenizer.model, so a prompt is a list of numbers of tokens: %w", err)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// EncodePair puts the numbers of the second text behind those of the first.
func (n numbers) EncodePair(first, second string, most int) (ids, types []int32, err error) {
	ids, err = n.Encode(first+" "+second, most)
	return ids, make([]int32, len(ids)), err
}

func (numbers) Chat(chat.Conversation, int) ([]int32, error) { return nil, chat.ErrNoTemplate }

func (numbers) Tools() tools.Form { return tools.None }

func (numbers) Bytes(id int32) []byte { return strconv.AppendInt(nil, int64(id), 10) }

func (n numbers) Stream() *tokenizer.Stream {
	return tokenizer.NewStream(func(id int32) []byte { return append(n.Bytes(id), ' ') })
}
