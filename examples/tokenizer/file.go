package tokenizer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goascend/cann/examples/budget"
)

// ErrUnsupported marks tokenizers that this package does not do.
var ErrUnsupported = errors.New("unsupported tokenizer")

// Load reads the tokenizer.json of a hub folder.
func Load(folder string) (*Tokenizer, error) {
	text, err := budget.ReadFile(filepath.Join(folder, "tokenizer.json"), mostBytes)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return t, nil
}

// file is a tokenizer.json.
type file struct {
	Added         addedList       `json:"added_tokens"`
	Normalizer    *normalizerFile `json:"normalizer"`
	PreTokenizer  *preTokenizer   `json:"pre_tokenizer"`
	PostProcessor *processor      `json:"post_processor"`
	Decoder       *decoderFile    `json:"decoder"`
	Model         model           `json:"model"`
}

type model struct {
	Type         string           `json:"type"`
	Dropout      *float64         `json:"dropout"`
	Unknown      *string          `json:"unk_token"`
	Prefix       string           `json:"continuing_subword_prefix"`
	Suffix       string           `json:"end_of_word_suffix"`
	ByteFallback bool             `json:"byte_fallback"`
	FuseUnknown  bool             `json:"fuse_unk"`
	IgnoreMerges bool             `json:"ignore_merges"`
	Vocab        map[string]int32 `json:"vocab"`
	Merges       rules            `json:"merges"`
}

// rules are the merges in their order.
type rules []rule

// mostRules is the number of merges. The largest of public models have half a million.
const mostRules = 600_000

func (r *rules) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return fmt.Errorf("merges is not a list")
	}
	for d.More() {
		var one rule
		if err := d.Decode(&one); err != nil {
			return err
		}
		*r = append(*r, one)
		if err := budget.Size("merges", len(*r), mostRules, "pairs"); err != nil {
			return err
		}
	}
	return nil
}

// rule is a merge, written as "a b" by older files and as ["a", "b"] by newer ones.
type rule [2]string

func (r *rule) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[2]string)(r))
	}
	var line string
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	left, right, ok := strings.Cut(line, " ")
	if !ok {
		return fmt.Errorf("merge %q has no space", line)
	}
	*r = rule{left, right}
	return nil
}

// processor is the entry "post_processor": what is put around a text.
type processor struct {
	Type          string      `json:"type"`
	Processors    []processor `json:"processors"`
	Single        []template  `json:"single"`
	SpecialTokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
}

type template struct {
	Special *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

// mostBytes is the size of a tokenizer.json. The largest of public models have a third of it.
const mostBytes = 100 << 20

// Parse reads the text of a tokenizer.json; Table says what becomes of each key. The error matches budget.ErrLimit if something
// in it is larger than in that of any model.
func Parse(text []byte) (*Tokenizer, error) {
	if err := budget.Size("the file", len(text), mostBytes, "bytes"); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	var f file
	if _, err := Table.Decode(text, &f); err != nil {
		return nil, err
	}
	t := &Tokenizer{special: map[int32]bool{}, ids: f.Model.Vocab}
	var err error
	if t.spelling, err = f.Decoder.spelling(); err != nil {
		return nil, unsupported(err)
	}
	if t.model, err = f.Model.merger(t.spelling != nil); err != nil {
		return nil, err
	}
	if t.normalize, err = f.Normalizer.build(); err != nil {
		return nil, unsupported(err)
	}
	t.split = whole
	if f.PreTokenizer != nil {
		if t.split, err = f.PreTokenizer.splitter(); err == nil {
			t.metaspace, err = f.PreTokenizer.metaspace(t.spelling != nil)
		}
		if err != nil {
			return nil, unsupported(err)
		}
	}
	if t.prefix, t.suffix, err = f.PostProcessor.around(); err != nil {
		return nil, unsupported(err)
	}
	return t, t.add(f.Added)
}

func unsupported(err error) error { return fmt.Errorf("tokenizer.json: %w: %w", ErrUnsupported, err) }

// add takes in the added tokens and fills the table of bytes.
func (t *Tokenizer) add(tokens []added) error {
	var raw, normal []added
	b := budget.New(context.Background(), "normalising the added tokens", normalSteps)
	for _, a := range tokens {
		if err := budget.Size("an added token", len(a.Content), longestContent, "bytes"); err != nil {
			return fmt.Errorf("tokenizer.json: %w", err)
		}
		t.ids[a.Content] = a.ID
		if a.Special {
			t.special[a.ID] = true
		}
		if a.Normalized {
			var err error
			if a.Content, err = t.normalize(a.Content, b); err != nil {
				return fmt.Errorf("tokenizer.json: added token %.100q: %w", a.Content, err)
			}
			normal = append(normal, a)
		} else {
			raw = append(raw, a)
		}
	}
	t.raw, t.normal = newMatcher(raw), newMatcher(normal)
	size := int32(0)
	for content, id := range t.ids {
		if id < 0 || id > maxID {
			return fmt.Errorf("tokenizer.json: token %q has id %d, outside of 0 to %d", content, id, maxID)
		}
		size = max(size, id+1)
	}
	t.bytes, t.single = make([][]byte, size), map[int32]bool{}
	for content, id := range t.ids {
		if t.spelling == nil {
			t.bytes[id] = tokenBytes(content)
		} else if t.bytes[id], t.single[id] = t.spelling.token(content); t.spelling.bytes && t.special[id] {
			t.single[id] = false
		}
	}
	return nil
}

const (
	// maxID bounds the table of tokens, which a made-up file could otherwise blow up to gigabytes.
	maxID = 1<<21 - 1
	// mostAround is how many tokens a post-processor puts around a text.
	mostAround = 1024
	// normalSteps is how many steps the normalisers may take for the contents of added tokens.
	normalSteps = 4_000_000
)

// merger makes the model, over the characters of a text or over its bytes.
func (m *model) merger(characters bool) (*merger, error) {
	switch {
	case m.Type != "BPE" && m.Type != "":
		return nil, unsupported(fmt.Errorf("model %q (BPE is supported)", m.Type))
	case m.ByteFallback && !characters:
		return nil, unsupported(fmt.Errorf("byte_fallback with the decoder ByteLevel: every byte is known"))
	case m.Prefix != "" || m.Suffix != "":
		return nil, unsupported(fmt.Errorf("continuing_subword_prefix %q, end_of_word_suffix %q", m.Prefix, m.Suffix))
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, unsupported(fmt.Errorf("dropout %v: encoding would be random", *m.Dropout))
	case m.Unknown != nil && *m.Unknown != "" && !characters:
		return nil, unsupported(fmt.Errorf("unk_token %q: byte-level BPE knows every byte", *m.Unknown))
	case len(m.Vocab) == 0:
		return nil, fmt.Errorf("tokenizer.json: the vocabulary is empty")
	}
	out := &merger{words: make(map[string]int32, len(m.Vocab)), merges: make(map[[2]int32]merged, len(m.Merges)), whole: m.IgnoreMerges, known: map[string][]int32{}}
	for token, id := range m.Vocab {
		if !characters {
			token = string(tokenBytes(token))
		}
		out.words[token] = id
	}
	if characters {
		var err error
		if out.characters, err = m.characters(); err != nil {
			return nil, err
		}
	}
	for b := range out.single {
		id, ok := m.Vocab[string(byteRunes[b])]
		if !ok {
			id = -1
		}
		out.single[b] = id
	}
	for i, r := range m.Merges {
		left, leftOK := m.Vocab[r[0]]
		right, rightOK := m.Vocab[r[1]]
		id, ok := m.Vocab[r[0]+r[1]]
		if !leftOK || !rightOK || !ok {
			return nil, fmt.Errorf("tokenizer.json: merge %d, %q and %q, names a token that the vocabulary lacks", i, r[0], r[1])
		}
		out.merges[[2]int32{left, right}] = merged{int32(i), id}
	}
	return out, nil
}

// around gives the tokens before and behind a single text.
func (p *processor) around() (prefix, suffix []int32, err error) {
	if p == nil {
		return nil, nil, nil
	}
	switch p.Type {
	case "ByteLevel": // changes offsets only
		return nil, nil, nil
	case "Sequence":
		if err := budget.Size("a Sequence", len(p.Processors), mostStages, "processors"); err != nil {
			return nil, nil, err
		}
		for i := range p.Processors {
			before, behind, err := p.Processors[i].around()
			if err != nil {
				return nil, nil, err
			}
			prefix, suffix = append(before, prefix...), append(suffix, behind...)
			if err := budget.Size("a post-processor", len(prefix)+len(suffix), mostAround, "tokens"); err != nil {
				return nil, nil, err
			}
		}
		return prefix, suffix, nil
	case "TemplateProcessing":
		to := &prefix
		for _, part := range p.Single {
			if part.Sequence != nil {
				to = &suffix
			} else if part.Special != nil {
				special, ok := p.SpecialTokens[part.Special.ID]
				if !ok {
					return nil, nil, fmt.Errorf("the template names token %q, which special_tokens lacks", part.Special.ID)
				}
				*to = append(*to, special.IDs...)
			}
			if err := budget.Size("a post-processor", len(prefix)+len(suffix), mostAround, "tokens"); err != nil {
				return nil, nil, err
			}
		}
		return prefix, suffix, nil
	}
	return nil, nil, fmt.Errorf("post-processor %q (ByteLevel, TemplateProcessing and Sequence are supported)", p.Type)
}
