package language

import (
	"errors"
	"io/fs"

	"golang.org/x/text/cases"
	unicode "golang.org/x/text/language"

	"github.com/goascend/cann/examples/chat"
	folders "github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/serve/tools"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/examples/weights"
)

// Language is that of a model. It is safe for concurrent use.
type Language interface {
	// Encode gives the tokens of a prompt, which may have so many. The error of one that has more matches tokenizer.ErrLength, and
	// comes as soon as that is known.
	Encode(text string, most int) ([]int32, error)
	// EncodePair gives the tokens of two texts together, and their types, as Encode. The error of a model that knows no pairs matches
	// tokenizer.ErrUnsupported.
	EncodePair(first, second string, most int) (ids, types []int32, err error)
	// Chat gives the tokens of a conversation, as Encode. The error of a model that knows no conversations matches
	// chat.ErrNoTemplate.
	Chat(c chat.Conversation, most int) ([]int32, error)
	// Tools is how the answers of the model call tools.
	Tools() tools.Form
	// Bytes gives what a token stands for, which need not be whole characters.
	Bytes(id int32) []byte
	// Stream decodes the tokens of an answer one by one.
	Stream() *tokenizer.Stream
}

// Load returns the language of a model with so many tokens, which is in a folder, or which has none.
func Load(folder string, vocab int) (Language, error) {
	if folder != "" {
		l, err := loadHub(folder)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return l, err
		}
	}
	if vocab == weights.Bytes {
		return letters{}, nil
	}
	return numbers{}, nil
}

// hub is the language of a hub folder.
type hub struct {
	*tokenizer.Tokenizer
	template *chat.Template // nil if the folder has none
	lower    bool           // texts become lower case first
	written  error          // refuses conversations of such a folder, which are in both cases
}

func loadHub(folder string) (Language, error) {
	tok, err := tokenizer.Load(folder)
	if err != nil {
		return nil, err
	}
	template, err := chat.Load(folder)
	if errors.Is(err, chat.ErrNoTemplate) {
		template, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	lower, err := folders.LowerCase(folder)
	if err != nil {
		return nil, err
	}
	return hub{tok, template, lower, folders.AsWritten(folder)}, nil
}

func (h hub) Encode(text string, most int) ([]int32, error) {
	return h.EncodeAtMost(h.cased(text), true, most)
}

func (h hub) EncodePair(first, second string, most int) (ids, types []int32, err error) {
	return h.Tokenizer.EncodePair(h.cased(first), h.cased(second), most)
}

// cased is a text as the tokenizer gets it, with the rules of Unicode for lower case, as Python has them.
func (h hub) cased(text string) string {
	if !h.lower {
		return text
	}
	return cases.Lower(unicode.Und).String(text)
}

func (h hub) Chat(c chat.Conversation, most int) ([]int32, error) {
	if h.template == nil {
		return nil, chat.ErrNoTemplate
	}
	if h.written != nil {
		return nil, h.written
	}
	p, err := h.template.Render(c)
	if err != nil {
		return nil, err
	}
	return h.EncodeAtMost(p.Text, false, most)
}

func (h hub) Tools() tools.Form {
	if h.template == nil {
		return tools.None
	}
	return tools.FormOf(h.template.Source(true))
}

func (h hub) Stream() *tokenizer.Stream { return h.Tokenizer.Stream(true) }
