package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/examples/weights"
)

// speech is a prompt as tokens, and a way to write those that follow.
type speech struct {
	prompt []int32
	write  func(id int32) error
	end    func() error // writes what is left of an unfinished character
}

// newSpeech turns the prompt into tokens: those of -ids; with the tokenizer of a hub folder; or the bytes of the text.
func newSpeech(o options, vocab int, out io.Writer) (speech, error) {
	if o.ids != nil {
		return speech{o.ids, func(id int32) error {
			_, err := fmt.Fprintf(out, "%d ", id)
			return err
		}, func() error { return nil }}, nil
	}
	if o.prompt == "" {
		return speech{}, errors.New("-prompt is empty; the model needs a token to go on from")
	}
	if info, err := os.Stat(o.source.Folder); err == nil && info.IsDir() {
		tok, err := tokenizer.Load(o.source.Folder)
		if err == nil {
			err = hub.AsWritten(o.source.Folder)
		}
		if err == nil {
			return speak(o, tok, vocab, out)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return speech{}, err
		}
	}
	switch {
	case o.chat:
		return speech{}, errors.New("-chat needs -model with a folder that has tokenizer.json or tokenizer.model, and a chat template")
	case vocab != weights.Bytes:
		return speech{}, fmt.Errorf("the model has %d tokens, not those of bytes, and no tokenizer.json or tokenizer.model: give the prompt as -ids", vocab)
	}
	prompt := make([]int32, len(o.prompt))
	for i := range len(o.prompt) {
		prompt[i] = int32(o.prompt[i])
	}
	if _, err := io.WriteString(out, o.prompt); err != nil {
		return speech{}, err
	}
	return speech{prompt, func(id int32) error {
		_, err := out.Write([]byte{byte(id)})
		return err
	}, func() error { return nil }}, nil
}

// speak encodes the prompt with a tokenizer. With -chat it writes the prompt as a user's message, and
// prints only the answer.
func speak(o options, tok *tokenizer.Tokenizer, vocab int, out io.Writer) (speech, error) {
	var prompt []int32
	var err error
	if o.chat {
		prompt, err = asked(o, tok)
	} else if prompt, err = tok.EncodeSpecial(o.prompt); err == nil {
		_, err = io.WriteString(out, o.prompt)
	}
	if err != nil {
		return speech{}, err
	}
	for _, id := range prompt {
		if int(id) >= vocab {
			return speech{}, fmt.Errorf("the tokenizer gives token %d, but the model has only %d", id, vocab)
		}
	}
	stream := tok.Stream(true)
	return speech{prompt, func(id int32) error {
		_, err := io.WriteString(out, stream.Next(id))
		return err
	}, func() error {
		_, err := io.WriteString(out, stream.Flush())
		return err
	}}, nil
}

// asked writes the prompt as a conversation.
func asked(o options, tok *tokenizer.Tokenizer) ([]int32, error) {
	template, err := chat.Load(o.source.Folder)
	if err != nil {
		return nil, err
	}
	var messages []chat.Message
	if o.system != "" {
		messages = append(messages, chat.Message{Role: "system", Content: o.system})
	}
	said, err := template.Render(chat.Conversation{
		Messages:            append(messages, chat.Message{Role: "user", Content: o.prompt}),
		AddGenerationPrompt: true,
	})
	if err != nil {
		return nil, err
	}
	return tok.Encode(said.Text)
}
