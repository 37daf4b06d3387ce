package tokenizer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

// Tokenizer encodes and decodes text with the vocabulary of one tokenizer.json.
type Tokenizer struct {
	model     segmenter
	normalize normalizer
	split     splitter
	raw       *matcher         // added tokens that are found in the text as it is
	normal    *matcher         // added tokens that are found in normalised text
	prefix    []int32          // what EncodeSpecial puts before a text
	suffix    []int32          // and after it
	pair      []pairPart       // of two texts, or nil
	noPair    error            // why there is none
	metaspace *metaspace       // or nil
	pieces    *pieceNormalizer // of a model of SentencePiece, or nil
	spelling  *spelling        // nil for byte-level BPE
	bytes     [][]byte         // of each id
	heads     [][]byte         // of each id at the begin of a text; nil where that is no difference
	single    map[int32]bool   // tokens of one byte that stands for a part of a character
	special   map[int32]bool
	ids       map[string]int32 // of added tokens and of the vocabulary
}

// ErrLength is the error of a text with more tokens than are asked for. It matches budget.ErrLimit.
var ErrLength = fmt.Errorf("%w: the text is too long", budget.ErrLimit)

// Encode gives the ids of a text. Added tokens in the text, such as <|im_end|>, become their
// own id; the tokens that the file's post-processor adds around a text are left out. Invalid UTF-8 is read as U+FFFD. The error matches
// budget.ErrLimit if the patterns and normalisers of the file make too much work or text.
func (t *Tokenizer) Encode(text string) ([]int32, error) {
	return t.encode(make([]int32, 0, len(text)/3+1), text, math.MaxInt)
}

// EncodeSpecial is Encode with the tokens of the post-processor around the text, such as
// Llama 3's <|begin_of_text|>.
func (t *Tokenizer) EncodeSpecial(text string) ([]int32, error) {
	return t.EncodeAtMost(text, true, math.MaxInt)
}

// EncodeAtMost is EncodeSpecial or, without special, Encode, for a text that may have so many tokens. The error of one that has more
// matches ErrLength, and comes as soon as that is known.
func (t *Tokenizer) EncodeAtMost(text string, special bool, most int) ([]int32, error) {
	if !special {
		return t.encode(nil, text, most)
	}
	ids, err := t.encode(slices.Clone(t.prefix), text, most-len(t.suffix))
	if err != nil {
		return nil, err
	}
	return append(ids, t.suffix...), nil
}

// Bounds of the work for a text: steps (see package budget) for each byte, and for the shortest. A pattern that is found
// in one go takes one or two.
const stepsPerByte, leastSteps = 14, 100_000

// slowestByte is the processor time for each byte beyond the first mebibyte, for which longestSearch is enough.
const slowestByte = 10 * time.Microsecond

// mergeSteps are the steps for each byte of a word.
const mergeSteps = 4

// longestWord is the number of bytes between which pairs are merged. Each takes some 100 bytes of memory meanwhile.
const longestWord = 2 << 20

// encode adds the ids of a text to ids, up to most.
func (t *Tokenizer) encode(ids []int32, text string, most int) ([]int32, error) {
	steps := stepsPerByte
	if t.spelling != nil {
		steps *= 3 // a space becomes a character of three bytes
	}
	b := budget.New(context.Background(), "encoding the text", leastSteps+steps*len(text))
	defer b.Time(longestSearch + time.Duration(max(0, len(text)-1<<20))*slowestByte)()
	begin := true // of the text
	text = strings.ToValidUTF8(text, "\uFFFD")
	add := func(more ...int32) error {
		if ids = append(ids, more...); len(ids) > most {
			return fmt.Errorf("%w: it has more than %d tokens", ErrLength, most)
		}
		return nil
	}
	word := func(word string) error {
		err := budget.Size("a word", len(word), longestWord, "bytes")
		if err != nil {
			return err
		}
		if ids, err = t.model.append(ids, word, b); err != nil {
			return err
		}
		return add()
	}
	normal := func(part string, id int32) error {
		first := begin
		begin = false
		if id >= 0 {
			return add(id)
		}
		if t.pieces != nil {
			part, err := t.pieces.normalize(part, first, b)
			if err != nil || part == "" {
				return err
			}
			return word(part)
		}
		return t.split(t.metaspace.apply(part, first), b, word)
	}
	if err := add(); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	err := t.raw.split(text, b, func(part string, id int32) error {
		if id >= 0 {
			begin = false
			return add(id)
		}
		if t.metaspace != nil && t.metaspace.scheme == "first" && begin {
			// A text whose first character is taken away does not begin where the text began.
			_, n := utf8.DecodeRuneInString(part)
			head, err := t.normalize(part[:n], b)
			if err != nil {
				return err
			}
			begin = head != ""
		}
		part, err := t.normalize(part, b)
		if err != nil {
			return err
		}
		return t.normal.split(part, b, normal)
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
	run := 0 // where the bytes begin that tokens of one byte have added last
	flush := func() {
		if !utf8.Valid(out[run:]) { // as tokenizers, which takes all or none of them
			out = append(out[:run], strings.Repeat("\uFFFD", len(out)-run)...)
		}
	}
	first := true
	for _, id := range ids {
		if plain && t.special[id] {
			continue
		}
		one := t.Bytes(id)
		if t.spelling == nil {
			out = append(out, one...)
			continue
		}
		if first && t.heads != nil && one != nil {
			one = t.heads[id]
		}
		first = false
		if !t.single[id] {
			flush()
		}
		if out = append(out, one...); !t.single[id] {
			run = len(out)
		}
	}
	if t.spelling == nil {
		return replaceInvalid(out)
	}
	flush()
	text := string(out)
	spaces := len(text) - len(strings.TrimLeft(text, " "))
	return text[min(spaces, t.spelling.strip):]
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
