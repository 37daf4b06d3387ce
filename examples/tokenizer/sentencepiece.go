package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/hub"
)

// modelFile is the name of a model of SentencePiece, from which a folder without a tokenizer.json is read.
const modelFile = "tokenizer.model"

// Kinds of pieces, and of models, in SentencePiece's file.
const (
	normalPiece = iota + 1
	unknownPiece
	controlPiece
	userPiece
	unusedPiece
	bytePiece
)

const (
	unigramModel = iota + 1
	bpeModel
	wordModel
	characterModel
)

// pieces holds the fields of a SentencePiece model that this package reads: sentencepiece_model.proto. The zero values are not the defaults.
type pieces struct {
	tokens       []pieceToken
	kind         uint64
	suffix       bool // treat_whitespace_as_suffix
	fallback     bool // byte_fallback
	table        []byte
	prefix       bool // add_dummy_prefix
	removeSpaces bool // remove_extra_whitespaces
	escape       bool // escape_whitespaces
}

type pieceToken struct {
	text  string
	score float32
	kind  uint64
}

// options are the keys of a folder's configuration that a model of SentencePiece does not have itself.
type options struct {
	First   bool                     `json:"add_bos_token"`
	Last    bool                     `json:"add_eos_token"`
	Legacy  bool                     `json:"legacy"`
	Prefix  *bool                    `json:"add_prefix_space"`
	Begin   tokenName                `json:"bos_token"`
	End     tokenName                `json:"eos_token"`
	Added   map[string]*addedWithout `json:"added_tokens_decoder"`
	Wrapper map[string]any           `json:"sp_model_kwargs"`
}

// addedWithout is an added token whose id is its key.
type addedWithout struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// tokenName is a token as a text, or as an object with its content.
type tokenName string

// UnmarshalJSON implements json.Unmarshaler.
func (n *tokenName) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, (*string)(n)) == nil {
		return nil
	}
	var one struct{ Content string }
	err := json.Unmarshal(text, &one)
	*n = tokenName(one.Content)
	return err
}

// loadPieces reads the model of SentencePiece in a folder, with the keys of tokenizer_config.json, and the tokens of added_tokens.json, that go with it.
func loadPieces(folder string) (*Tokenizer, error) {
	file, err := budget.ReadFile(filepath.Join(folder, modelFile), mostBytes)
	if err != nil {
		return nil, err
	}
	var o options
	if _, err := hub.Decode(folder, "tokenizer_config.json", hub.PiecesConfig, &o); err != nil {
		return nil, err
	}
	text, err := budget.ReadFile(filepath.Join(folder, "added_tokens.json"), budget.Config)
	if err == nil {
		var more map[string]int32
		if err := json.Unmarshal(text, &more); err != nil {
			return nil, fmt.Errorf("added_tokens.json: %w", err)
		}
		for content, id := range more {
			if _, ok := o.Added[fmt.Sprint(id)]; !ok {
				if o.Added == nil {
					o.Added = map[string]*addedWithout{}
				}
				o.Added[fmt.Sprint(id)] = &addedWithout{Content: content}
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return parsePieces(file, o)
}

func parsePieces(file []byte, o options) (*Tokenizer, error) {
	if len(o.Wrapper) > 0 {
		return nil, fmt.Errorf("tokenizer_config.json: sp_model_kwargs is %v: pieces are not sampled", o.Wrapper)
	}
	p := pieces{kind: unigramModel, prefix: true, removeSpaces: true, escape: true}
	if err := p.read(file); err != nil {
		return nil, fmt.Errorf("%s: %w", modelFile, err)
	}
	if o.Prefix != nil {
		p.prefix = *o.Prefix
	}
	t := &Tokenizer{special: map[int32]bool{}, ids: map[string]int32{}, split: whole}
	t.spelling = &spelling{replace: [][2]string{{"▁", " "}}, bytes: true, fused: true}
	if p.prefix || p.removeSpaces {
		t.spelling.strip = 1
	}
	table, err := p.build(t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", modelFile, err)
	}
	first := !o.Legacy // the prefix stands before the first part only
	t.pieces = &pieceNormalizer{pieces: &p, table: table, users: newLexicon(p.of(userPiece)), first: first}
	t.normalize = func(text string, _ *budget.Budget) (string, error) { return text, nil }
	var all []added
	for id, one := range p.tokens {
		if one.kind == controlPiece || one.kind == unknownPiece {
			all = append(all, added{ID: int32(id), Content: one.text, Special: true})
		}
	}
	for id, one := range o.Added {
		var a added
		if _, err := fmt.Sscan(id, &a.ID); err != nil || one == nil {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder has the id %.40q", id)
		}
		a.Content, a.SingleWord, a.LStrip, a.RStrip, a.Special = one.Content, one.SingleWord, one.LStrip, one.RStrip, one.Special
		if int(a.ID) < len(p.tokens) && p.tokens[a.ID].text != a.Content {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder has %.100q as token %d, and %s has %.100q", a.Content, a.ID, modelFile, p.tokens[a.ID].text)
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b added) int { return cmp.Compare(a.ID, b.ID) })
	if err := t.add(all); err != nil {
		return nil, err
	}
	for _, end := range []struct {
		asked bool
		name  tokenName
		to    *[]int32
	}{{o.First, cmp.Or(o.Begin, "<s>"), &t.prefix}, {o.Last, cmp.Or(o.End, "</s>"), &t.suffix}} {
		if !end.asked {
			continue
		}
		id, ok := t.ids[string(end.name)]
		if !ok {
			return nil, fmt.Errorf("tokenizer_config.json: the token %.100q is asked for around a text, and %s lacks it", end.name, modelFile)
		}
		*end.to = []int32{id}
	}
	return t, nil
}

// of gives the pieces of some kinds.
func (p *pieces) of(kinds ...uint64) (all []entry) {
	for id, one := range p.tokens {
		if slices.Contains(kinds, one.kind) {
			all = append(all, entry{one.text, int32(id)})
		}
	}
	return all
}

// build makes the model.
func (p *pieces) build(t *Tokenizer) (*charsMap, error) {
	c := &characters{unknown: -1, fuse: true}
	vocab := map[string]int32{}
	for id, one := range p.tokens {
		if _, twice := vocab[one.text]; twice {
			return nil, fmt.Errorf("the piece %.100q is there twice", one.text)
		}
		if one.text == "" || !utf8.ValidString(one.text) {
			return nil, fmt.Errorf("piece %d is %.100q", id, one.text)
		}
		if one.kind == unknownPiece {
			c.unknown = int32(id)
		}
		vocab[one.text] = int32(id)
	}
	if c.unknown < 0 {
		return nil, errors.New("no piece is the unknown one")
	}
	t.ids = vocab
	c.fill(vocab, p.fallback)
	for b, id := range c.bytes {
		if p.fallback && (id < 0 || p.tokens[id].kind != bytePiece) {
			return nil, fmt.Errorf("byte_fallback without a piece for the byte %d", b)
		}
	}
	switch p.kind {
	case unigramModel:
		u := &unigram{ids: vocab, characters: c, narrow: true, single: true, least: math.Inf(1), most: math.Inf(-1), always: map[int32]bool{}, tokens: newLexicon(p.of(normalPiece, userPiece))}
		for id, one := range p.tokens {
			u.scores = append(u.scores, float64(one.score))
			switch one.kind {
			case normalPiece:
				u.least, u.most = min(u.least, float64(one.score)), max(u.most, float64(one.score))
			case userPiece:
				u.always[int32(id)] = true
			}
		}
		u.least = u.round(u.least - unknownPenalty)
		t.model = u
	case bpeModel, characterModel:
		m, err := p.merger(c)
		if err != nil {
			return nil, err
		}
		t.model = m
	default:
		return nil, unsupportedPieces(fmt.Errorf("a model of type %d (unigram, bpe and char are supported, word is not)", p.kind))
	}
	if len(p.table) == 0 {
		return nil, nil
	}
	return newCharsMap(p.table)
}

func unsupportedPieces(err error) error { return fmt.Errorf("%w: %w", ErrUnsupported, err) }

// merger makes the pairs of BPE: SentencePiece joins two neighbours if that is a piece, those with the largest score first.
func (p *pieces) merger(c *characters) (*merger, error) {
	m := &merger{words: map[string]int32{}, merges: map[[2]int32]merged{}, characters: c, known: map[string][]int32{}}
	var scores []float32
	for id, one := range p.tokens {
		if one.kind == unusedPiece {
			return nil, unsupportedPieces(fmt.Errorf("the unused piece %.100q", one.text))
		}
		if one.kind == normalPiece || one.kind == userPiece {
			m.words[one.text] = int32(id)
			scores = append(scores, one.score)
		}
	}
	m.users = newLexicon(p.of(userPiece))
	if p.kind == characterModel {
		return m, nil
	}
	slices.Sort(scores)
	scores = slices.Compact(scores)
	for token, id := range m.words {
		rank, _ := slices.BinarySearch(scores, p.tokens[id].score)
		for at, r := range token {
			if _, ok := m.words[string(r)]; !ok && p.tokens[id].kind == normalPiece {
				return nil, unsupportedPieces(fmt.Errorf("the piece %.100q has the character %q, which is no piece", token, r))
			}
			left, leftOK := m.words[token[:at]]
			right, rightOK := m.words[token[at:]]
			if leftOK && rightOK {
				m.merges[[2]int32{left, right}] = merged{int32(len(scores) - rank), id}
			}
		}
	}
	return m, nil
}

// read takes the fields of a ModelProto. Fields of the training have no effect, others that are not known are refused.
func (p *pieces) read(file []byte) error {
	return fields(file, func(n protowire.Number, number uint64, bytes []byte) error {
		switch n {
		case 1:
			one := pieceToken{kind: normalPiece}
			if err := one.read(bytes); err != nil {
				return fmt.Errorf("piece %d: %w", len(p.tokens), err)
			}
			p.tokens = append(p.tokens, one)
			return budget.Size("the model", len(p.tokens), maxID, "pieces")
		case 2:
			return fields(bytes, func(n protowire.Number, number uint64, _ []byte) error {
				switch n { // the rest says how it was trained
				case 3:
					p.kind = number
				case 24:
					p.suffix = number != 0
				case 35:
					p.fallback = number != 0
				}
				return nil
			})
		case 3:
			return fields(bytes, p.normalizer)
		case 4: // texts to test it with
			return nil
		case 5:
			return fields(bytes, func(n protowire.Number, _ uint64, bytes []byte) error {
				if n == 2 && len(bytes) > 0 {
					return unsupportedPieces(errors.New("a table of characters for decoding"))
				}
				return nil
			})
		}
		return fmt.Errorf("field %d is not known", n)
	})
}

func (p *pieces) normalizer(n protowire.Number, number uint64, bytes []byte) error {
	switch n {
	case 1, 6: // name and rules of which the table was made
	case 2:
		p.table = bytes
	case 3:
		p.prefix = number != 0
	case 4:
		p.removeSpaces = number != 0
	case 5:
		p.escape = number != 0
		if !p.escape {
			return unsupportedPieces(errors.New("escape_whitespaces false"))
		}
	default:
		return fmt.Errorf("field %d of the normaliser is not known", n)
	}
	return nil
}

func (one *pieceToken) read(bytes []byte) error {
	return fields(bytes, func(n protowire.Number, number uint64, bytes []byte) error {
		switch n {
		case 1:
			one.text = string(bytes)
		case 2:
			one.score = math.Float32frombits(uint32(number))
			if f := float64(one.score); math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("the score is %v", f)
			}
		case 3:
			one.kind = number
			if number < normalPiece || number > bytePiece {
				return fmt.Errorf("type %d is not known", number)
			}
		default:
			return fmt.Errorf("field %d is not known", n)
		}
		return nil
	})
}

// fields gives those of a message: a number, or bytes.
func fields(message []byte, each func(n protowire.Number, number uint64, bytes []byte) error) error {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return fmt.Errorf("it is no model of SentencePiece: %w", protowire.ParseError(size))
		}
		message = message[size:]
		var number uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var short uint32
			short, size = protowire.ConsumeFixed32(message)
			number = uint64(short)
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(message)
		default:
			size = protowire.ConsumeFieldValue(n, kind, message)
		}
		if size < 0 {
			return fmt.Errorf("it is no model of SentencePiece: %w", protowire.ParseError(size))
		}
		if err := each(n, number, bytes); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}

// pieceNormalizer is SentencePiece's own normaliser: the table, of which the longest sequence counts, pieces of the user as they are, spaces that are removed,
// and ▁ for those that stay, and before a text.
type pieceNormalizer struct {
	*pieces
	table *charsMap
	users *lexicon
	first bool // the prefix stands before the first part of a text only
}

// next gives what the begin of a text becomes, and the number of its bytes.
func (p *pieceNormalizer) next(text string, b *budget.Budget) (to string, n int, err error) {
	if err := p.users.prefixes(text, b, func(e entry) { n = len(e.text) }); err != nil || n > 0 {
		return text[:n], n, err
	}
	if p.table != nil {
		if to, n := p.table.find(text, true); n > 0 {
			return to, n, nil
		}
	}
	_, n = utf8.DecodeRuneInString(text)
	return text[:n], n, nil
}

func (p *pieceNormalizer) normalize(text string, first bool, b *budget.Budget) (string, error) {
	const mark = "▁"
	var out strings.Builder
	began, space, length := false, p.removeSpaces, len(text)
	for text != "" {
		to, n, err := p.next(text, b)
		if err != nil {
			return "", err
		}
		text = text[n:]
		if p.removeSpaces && !began && to == " " {
			continue
		}
		if !began && p.prefix && !p.suffix && (first || !p.first) {
			out.WriteString(mark)
		}
		began = true
		for space && strings.HasPrefix(to, " ") {
			to = to[1:]
		}
		if to != "" {
			out.WriteString(strings.ReplaceAll(to, " ", mark))
			space = p.removeSpaces && strings.HasSuffix(to, " ")
		}
		if err := budget.Size("the text that a table of characters makes", out.Len(), mostGrowth*mostGrowth*length+longestContent, "bytes"); err != nil {
			return "", err
		}
	}
	whole := out.String()
	if p.removeSpaces {
		for strings.HasSuffix(whole, mark) {
			whole = strings.TrimSuffix(whole, mark)
		}
	}
	if began && p.suffix && p.prefix {
		whole += mark
	}
	return whole, b.Step((length + len(whole)) / 8)
}
