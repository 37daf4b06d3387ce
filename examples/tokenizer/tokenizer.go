package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// Tokenizer encodes and decodes text with the vocabulary of one tokenizer.json.
type Tokenizer struct {
	model     *merger
	normalize normalizer
	split     splitter
	raw       *matcher // added tokens that are found in the text as it is
	normal    *matcher // added tokens that are found in normalised text
	prefix    []int32  // what EncodeSpecial puts before a text
	suffix    []int32  // and after it
	bytes     [][]byte // of each id
	special   map[int32]bool
	ids       map[string]int32 // of added tokens and of the vocabulary
}

// Encode gives the ids of a text. Added tokens in the text, such as <|im_end|>, become their
// own id; the tokens that the file's post-processor adds around a text are left out.
func (t *Tokenizer) Encode(text string) ([]int32, error) {
	return t.Append(make([]int32, 0, len(text)/3+1), text)
}

// EncodeSpecial is Encode with the tokens of the post-processor around the text, such as
// Llama 3's <|begin_of_text|>.
func (t *Tokenizer) EncodeSpecial(text string) ([]int32, error) {
	ids, err := t.Append(slices.Clone(t.prefix), text)
	return append(ids, t.suffix...), err
}

// Append adds the ids of a text to ids. Invalid UTF-8 is read as U+FFFD.
func (t *Tokenizer) Append(ids []int32, text string) ([]int32, error) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	err := t.raw.split(text, func(part string, id int32) error {
		if id >= 0 {
			ids = append(ids, id)
			return nil
		}
		return t.normal.split(t.normalize(part), func(part string, id int32) error {
			if id >= 0 {
				ids = append(ids, id)
				return nil
			}
			return t.split(part, func(word string) { ids = t.model.append(ids, word) })
		})
	})
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return ids, nil
}

// Decode gives the text of ids, special tokens included. Bytes that are no UTF-8 become
// U+FFFD, and ids that the vocabulary lacks become nothing.
func (t *Tokenizer) Decode(ids []int32) string { return t.decode(ids, false) }

// DecodePlain is Decode without the special tokens.
func (t *Tokenizer) DecodePlain(ids []int32) string { return t.decode(ids, true) }

func (t *Tokenizer) decode(ids []int32, plain bool) string {
	var out []byte
	for _, id := range ids {
		if plain && t.special[id] {
			continue
		}
		out = append(out, t.Bytes(id)...)
	}
	return replaceInvalid(out)
}

// Bytes gives the bytes that a token stands for, or nil for an id that the vocabulary lacks. They
// need not be whole characters; see Stream.
func (t *Tokenizer) Bytes(id int32) []byte {
	if id < 0 || int(id) >= len(t.bytes) {
		return nil
	}
	return t.bytes[id]
}

// ID gives the id of a token by its content as tokenizer.json spells it, such as
// "<|im_end|>"; ok reports whether there is one.
func (t *Tokenizer) ID(content string) (id int32, ok bool) {
	id, ok = t.ids[content]
	return id, ok
}

// Special reports whether a token is one that DecodePlain leaves out.
func (t *Tokenizer) Special(id int32) bool { return t.special[id] }

// Size is one more than the largest id. A model's vocabulary may be larger, since it is often padded.
func (t *Tokenizer) Size() int { return len(t.bytes) }
