package tokenizer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/hub"
)

// ErrUnsupported marks tokenizers that this package does not do.
var ErrUnsupported = errors.New("unsupported tokenizer")

// Load reads the tokenizer.json of a hub folder, or without one its tokenizer.model, a model of SentencePiece, with the keys of
// tokenizer_config.json that hub.PiecesConfig lists.
func Load(folder string) (*Tokenizer, error) {
	if hub.HasPieces(folder) {
		t, err := loadPieces(folder)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %s: %w", folder, err)
		}
		return t, nil
	}
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
	Type         string     `json:"type"`
	Dropout      *float64   `json:"dropout"`
	Unknown      *string    `json:"unk_token"`
	Prefix       *string    `json:"continuing_subword_prefix"`
	Suffix       string     `json:"end_of_word_suffix"`
	ByteFallback bool       `json:"byte_fallback"`
	FuseUnknown  bool       `json:"fuse_unk"`
	IgnoreMerges bool       `json:"ignore_merges"`
	MostChars    *int       `json:"max_input_chars_per_word"`
	UnknownID    *int32     `json:"unk_id"`
	Vocab        vocabulary `json:"vocab"`
	Merges       rules      `json:"merges"`
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
		one, err := newRule(d)
		if err != nil {
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

func newRule(d *json.Decoder) (r rule, err error) {
	t, err := d.Token()
	if line, ok := t.(string); ok {
		if r[0], r[1], ok = strings.Cut(line, " "); !ok {
			return r, fmt.Errorf("merge %.100q has no space", line)
		}
		return r, nil
	}
	if err != nil || t != json.Delim('[') {
		return r, errors.Join(errors.New("a merge is neither a text nor a pair of texts"), err)
	}
	for i := range 3 {
		t, err := d.Token()
		text, ok := t.(string)
		switch {
		case err != nil:
			return r, err
		case i < 2 && ok:
			r[i] = text
		case i < 2 || t != json.Delim(']'):
			return r, errors.New("a merge is not a pair of texts")
		}
	}
	return r, nil
}

// few are the parts of a Sequence, or of what stands around a text.
type few[T any] []T

// UnmarshalJSON reads at most mostAround parts: one is in memory before it is known that there are too many.
func (f *few[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t == nil {
		return err // null is none
	} else if t != json.Delim('[') {
		return fmt.Errorf("parts are not a list")
	}
	*f = nil
	for d.More() {
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		*f = append(*f, one)
		if err := budget.Size("a list of parts", len(*f), mostAround, "elements"); err != nil {
			return err
		}
	}
	return nil
}

// processor is the entry "post_processor": what is put around a text.
type processor struct {
	Type          string         `json:"type"`
	Processors    few[processor] `json:"processors"`
	Single        few[template]  `json:"single"`
	Pair          few[template]  `json:"pair"`
	SpecialTokens specialTokens  `json:"special_tokens"`
	Before        numberedToken  `json:"cls"`
	Behind        numberedToken  `json:"sep"`
}

// specialTokens are the tokens of a template.
type specialTokens map[string]specialToken

func (s *specialTokens) UnmarshalJSON(text []byte) error {
	*s = specialTokens{}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("special_tokens is not an object")
	}
	for n := 1; d.More(); n++ {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var one specialToken
		if err := cmp.Or(budget.Size("special_tokens", n, mostAround, "tokens"), d.Decode(&one)); err != nil {
			return err
		}
		(*s)[name.(string)] = one
	}
	return nil
}

// specialToken are the ids of a token of a template.
type specialToken struct {
	IDs few[int32] `json:"ids"`
}

// numberedToken is a token with its id, written as a pair.
type numberedToken struct{ id int32 }

// UnmarshalJSON implements json.Unmarshaler.
func (n *numberedToken) UnmarshalJSON(text []byte) error {
	var content string
	pair := []any{&content, &n.id}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("%.100s is no token with its id", text)
	}
	return nil
}

type template struct {
	Special  *templatePart `json:"SpecialToken"`
	Sequence *templatePart `json:"Sequence"`
}

// templatePart is a token, or a text, of a template.
type templatePart struct {
	ID   string `json:"id"`
	Type int32  `json:"type_id"` // of the tokens of a pair
}

// stages is the number of processors in one, itself included.
func (p *processor) stages() int {
	if p == nil {
		return 0
	}
	all := 1
	for i := range p.Processors {
		all += p.Processors[i].stages()
	}
	return all
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
	for _, part := range []struct {
		name   string
		stages int
	}{
		{"normalizer", f.Normalizer.stages()}, {"pre_tokenizer", f.PreTokenizer.stages()},
		{"post_processor", f.PostProcessor.stages()}, {"decoder", f.Decoder.stages()},
	} {
		if err := budget.Size(part.name, part.stages, mostStages, "stages"); err != nil {
			return nil, fmt.Errorf("tokenizer.json: %w", err)
		}
	}
	t := &Tokenizer{special: map[int32]bool{}, ids: f.Model.Vocab.ids}
	var err error
	if t.spelling, err = f.Decoder.spelling(); err != nil {
		return nil, unsupported(err)
	}
	if t.model, err = f.Model.build(t.spelling != nil); err != nil {
		return nil, err
	}
	if t.normalize, err = f.Normalizer.build(); err != nil {
		return nil, unsupported(err)
	}
	t.split = whole
	if f.PreTokenizer != nil {
		if t.split, err = f.PreTokenizer.splitter(true); err == nil {
			t.metaspace, err = f.PreTokenizer.metaspace(true)
		}
		if err != nil {
			return nil, unsupported(err)
		}
	}
	if t.metaspace != nil && t.metaspace.scheme == "first" && f.Normalizer.replaces() {
		return nil, unsupported(fmt.Errorf("the prepend_scheme first of a Metaspace behind the normalizer Replace, which changes where a text begins"))
	}
	if err := f.PreTokenizer.level(t.spelling == nil); err != nil {
		return nil, unsupported(err)
	}
	if t.prefix, t.suffix, err = f.PostProcessor.around(); err != nil {
		return nil, unsupported(err)
	}
	if t.pair, err = f.PostProcessor.pair(); err != nil { // single texts need none
		t.noPair = fmt.Errorf("tokenizer: %w", unsupported(err))
	}
	return t, t.add(f.Added)
}

func unsupported(err error) error { return fmt.Errorf("tokenizer.json: %w: %w", ErrUnsupported, err) }

// add takes in the added tokens and fills the table of bytes.
func (t *Tokenizer) add(tokens []added) error {
	var raw, normal []added
	b := budget.New(context.Background(), "normalising the added tokens", loadSteps)
	defer b.Time(longestSearch / 2)()
	for _, a := range tokens {
		if err := budget.Size("an added token", len(a.Content), longestContent, "bytes"); err != nil {
			return fmt.Errorf("tokenizer.json: %w", err)
		}
		if id, known := t.ids[a.Content]; known && id != a.ID {
			return fmt.Errorf("tokenizer.json: the added token %.100q has the ids %d and %d; tokenizers would take the first", a.Content, id, a.ID)
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
	size, length := int32(0), 0
	for content, id := range t.ids {
		length += len(content)
		if id < 0 || id > maxID {
			return fmt.Errorf("tokenizer.json: token %.100q has id %d, outside of 0 to %d", content, id, maxID)
		}
		size = max(size, id+1)
	}
	taken := make([]bool, size)
	for content, id := range t.ids {
		if taken[id] {
			return t.twice(content, id)
		}
		taken[id] = true
	}
	t.bytes, t.single = make([][]byte, size), map[int32]bool{}
	if t.spelling == nil {
		for content, id := range t.ids {
			t.bytes[id] = tokenBytes(content)
		}
		return nil
	}
	b = budget.New(context.Background(), "decoding the vocabulary", loadSteps+decodeSteps*len(t.ids))
	defer b.Time(longestSearch / 2)()
	if t.spelling.words || t.spelling.first != "" {
		t.heads = make([][]byte, size)
	}
	decoded := 0
	for content, id := range t.ids {
		text, single, err := t.spelling.token(content, b)
		if err == nil {
			decoded += len(text)
			err = budget.Size("the decoded vocabulary", decoded, mostGrowth*length+longestContent, "bytes")
		}
		if err != nil {
			return fmt.Errorf("tokenizer.json: token %.100q: %w", content, err)
		}
		t.bytes[id] = text
		if t.heads != nil {
			if t.heads[id], err = t.spelling.head(content, b); err != nil {
				return fmt.Errorf("tokenizer.json: token %.100q: %w", content, err)
			}
		}
		if single && !t.special[id] {
			t.single[id] = true
		}
	}
	return nil
}

// twice is the error of an id that another token has too.
func (t *Tokenizer) twice(content string, id int32) error {
	for other, same := range t.ids {
		if same == id && other != content {
			return fmt.Errorf("tokenizer.json: the id %d is that of two tokens, %.100q and %.100q", id, min(content, other), max(content, other))
		}
	}
	return nil
}

const (
	// maxID bounds the table of tokens, which a made-up file could otherwise blow up to gigabytes.
	maxID = 1<<21 - 1
	// mostAround is how many tokens a post-processor puts around a text.
	mostAround = 1024
	// loadSteps is how many steps the normalisers may take for the contents of added tokens, and the decoders for the vocabulary beside
	// decodeSteps for each token.
	loadSteps   = 4_000_000
	decodeSteps = 8
)

// build makes the model, over the characters of a text or over its bytes.
func (m *model) build(characters bool) (segmenter, error) {
	var foreign []string // keys that another model has
	for key, set := range map[string]bool{
		"merges": len(m.Merges) > 0 && m.kind() != "BPE", "dropout": m.Dropout != nil && m.kind() != "BPE", "fuse_unk": m.FuseUnknown && m.kind() != "BPE", "ignore_merges": m.IgnoreMerges && m.kind() != "BPE",
		"end_of_word_suffix": m.Suffix != "" && m.kind() != "BPE", "continuing_subword_prefix": m.Prefix != nil && m.kind() == "Unigram", "byte_fallback": m.ByteFallback && m.kind() == "WordPiece", "unk_token": m.Unknown != nil && m.kind() == "Unigram",
		"max_input_chars_per_word": m.MostChars != nil && m.kind() != "WordPiece", "unk_id": m.UnknownID != nil && m.kind() != "Unigram",
		"vocab": (m.kind() == "Unigram") != (m.Vocab.scores != nil),
	} {
		if set {
			foreign = append(foreign, key)
		}
	}
	slices.Sort(foreign)
	switch kind := m.kind(); {
	case kind != "BPE" && kind != "WordPiece" && kind != "Unigram":
		return nil, unsupported(fmt.Errorf("model %.100q (BPE, WordPiece and Unigram are supported)", kind))
	case len(m.Vocab.ids) == 0:
		return nil, fmt.Errorf("tokenizer.json: the vocabulary is empty")
	case len(foreign) > 0:
		return nil, fmt.Errorf("tokenizer.json: a model of type %s has %s, in this form of another type", kind, strings.Join(foreign, ", "))
	case kind != "BPE" && !characters:
		return nil, unsupported(fmt.Errorf("model %s with the decoder ByteLevel", kind))
	case kind == "WordPiece":
		return m.wordPiece()
	case kind == "Unigram":
		return m.unigram()
	}
	return m.merger(characters)
}

// kind is the type of the model; the oldest files, which name none, have BPE.
func (m *model) kind() string { return cmp.Or(m.Type, "BPE") }

// merger makes the model of BPE.
func (m *model) merger(characters bool) (*merger, error) {
	switch {
	case m.ByteFallback && !characters:
		return nil, unsupported(fmt.Errorf("byte_fallback with the decoder ByteLevel: every byte is known"))
	case m.Prefix != nil && *m.Prefix != "":
		return nil, unsupported(fmt.Errorf("continuing_subword_prefix %.100q", *m.Prefix))
	case m.Suffix != "":
		return nil, unsupported(fmt.Errorf("end_of_word_suffix %.100q", m.Suffix))
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, unsupported(fmt.Errorf("dropout %v: encoding would be random", *m.Dropout))
	case m.Unknown != nil && *m.Unknown != "" && !characters:
		return nil, unsupported(fmt.Errorf("unk_token %.100q: byte-level BPE knows every byte", *m.Unknown))
	}
	out := &merger{words: make(map[string]int32, len(m.Vocab.ids)), merges: make(map[[2]int32]merged, len(m.Merges)), whole: m.IgnoreMerges, known: map[string][]int32{}}
	for token, id := range m.Vocab.ids {
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
		id, ok := m.Vocab.ids[string(byteRunes[b])]
		if !ok {
			id = -1
		}
		out.single[b] = id
	}
	for i, r := range m.Merges {
		left, leftOK := m.Vocab.ids[r[0]]
		right, rightOK := m.Vocab.ids[r[1]]
		id, ok := m.Vocab.ids[r[0]+r[1]]
		if !leftOK || !rightOK || !ok {
			return nil, fmt.Errorf("tokenizer.json: merge %d, %.100q and %.100q, names a token that the vocabulary lacks", i, r[0], r[1])
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
	case "BertProcessing", "RobertaProcessing":
		return []int32{p.Before.id}, []int32{p.Behind.id}, nil
	case "Sequence":
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
		to, texts := &prefix, 0
		for _, part := range p.Single {
			for _, one := range []*templatePart{part.Special, part.Sequence} {
				if one != nil && one.Type != 0 {
					return nil, nil, fmt.Errorf("the template for a single text gives %.100q the type_id %d; tokens of a single text have type 0", one.ID, one.Type)
				}
			}
			switch {
			case part.Sequence != nil && part.Sequence.ID == "A" && part.Special == nil && texts == 0:
				to, texts = &suffix, 1
			case part.Special == nil || part.Sequence != nil:
				return nil, nil, fmt.Errorf("the template for a single text has something beside tokens and one Sequence A")
			default:
				special, ok := p.SpecialTokens[part.Special.ID]
				if !ok {
					return nil, nil, fmt.Errorf("the template names token %.100q, which special_tokens lacks", part.Special.ID)
				}
				*to = append(*to, special.IDs...)
			}
			if err := budget.Size("a post-processor", len(prefix)+len(suffix), mostAround, "tokens"); err != nil {
				return nil, nil, err
			}
		}
		if texts == 0 {
			return nil, nil, fmt.Errorf("the template for a single text has no Sequence A")
		}
		return prefix, suffix, nil
	}
	return nil, nil, fmt.Errorf("post-processor %.100q (ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing and Sequence are supported)", p.Type)
}
