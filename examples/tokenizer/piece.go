package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/goascend/cann/examples/budget"
)

// segmenter adds the ids of a word: how a model cuts it into tokens.
type segmenter interface {
	append(ids []int32, word string, b *budget.Budget) ([]int32, error)
}

// wordPiece is BERT's model: from the begin of a word always the longest token, of which those behind the first have a prefix such as ##.
// A word with a part that is no token is unknown as a whole. (Schuster and Nakajima, "Japanese and Korean Voice Search", 2012.)
type wordPiece struct {
	first, rest *lexicon // tokens at the begin of a word and behind it, without their prefix
	unknown     int32
	longest     int // characters of a word that is not unknown
}

// longestPieces is the largest max_input_chars_per_word: the longest token is looked for at each character of a word.
const longestPieces = 1000

func (m *model) wordPiece() (*wordPiece, error) {
	w := &wordPiece{longest: 100}
	if m.MostChars != nil {
		w.longest = *m.MostChars
	}
	if err := budget.Size("a word of WordPiece", w.longest, longestPieces, "characters"); err != nil {
		return nil, fmt.Errorf("tokenizer.json: max_input_chars_per_word: %w", err)
	}
	prefix, unknown := "##", "[UNK]"
	if m.Prefix != nil {
		prefix = *m.Prefix
	}
	if m.Unknown != nil {
		unknown = *m.Unknown
	}
	id, ok := m.Vocab.ids[unknown]
	if !ok {
		return nil, fmt.Errorf("tokenizer.json: unk_token is %.100q, which the vocabulary lacks", unknown)
	}
	w.unknown = id
	var first, rest []entry
	for token, id := range m.Vocab.ids {
		first = append(first, entry{token, id})
		if len(token) > len(prefix) && token[:len(prefix)] == prefix {
			rest = append(rest, entry{token[len(prefix):], id})
		}
	}
	w.first, w.rest = newLexicon(first), newLexicon(rest)
	return w, nil
}

func (w *wordPiece) append(ids []int32, word string, b *budget.Budget) ([]int32, error) {
	if len(word) > w.longest && utf8.RuneCountInString(word) > w.longest {
		return append(ids, w.unknown), nil
	}
	start, tokens := len(ids), w.first
	for word != "" {
		var found entry
		if err := tokens.prefixes(word, b, func(e entry) {
			if n := len(e.text); n == len(word) || utf8.RuneStart(word[n]) {
				found = e
			}
		}); err != nil {
			return nil, err
		}
		if found.text == "" {
			return append(ids[:start], w.unknown), nil
		}
		ids, word, tokens = append(ids, found.id), word[len(found.text):], w.rest
	}
	return ids, nil
}

// unigram is SentencePiece's model of tokens with scores: of all ways to cut a text the one with the largest sum.
// (Kudo, "Subword Regularization", 2018.)
type unigram struct {
	tokens     *lexicon
	ids        map[string]int32
	scores     []float64 // by id
	least      float64   // score of an unknown character
	characters *characters
	narrow     bool           // sums are float32, as SentencePiece itself has them
	single     bool           // an unknown text is unknown even if a token has it, as in SentencePiece itself
	always     map[int32]bool // tokens that the user defined, which SentencePiece always takes
	most       float64        // the largest score
}

// unknownPenalty is how much less than the least score that of an unknown character is.
const unknownPenalty = 10

func (m *model) unigram() (*unigram, error) {
	u := &unigram{ids: m.Vocab.ids, scores: m.Vocab.scores, least: math.Inf(1), characters: &characters{unknown: -1, fuse: true}}
	if m.UnknownID != nil {
		if *m.UnknownID < 0 || int(*m.UnknownID) >= len(u.scores) {
			return nil, fmt.Errorf("tokenizer.json: unk_id is %d, and there are %d tokens", *m.UnknownID, len(u.scores))
		}
		u.characters.unknown = *m.UnknownID
	}
	u.characters.fill(m.Vocab.ids, m.ByteFallback)
	var all []entry
	for token, id := range m.Vocab.ids {
		all = append(all, entry{token, id})
	}
	for _, score := range u.scores {
		if math.IsNaN(score) || math.IsInf(score, 0) {
			return nil, fmt.Errorf("tokenizer.json: a token has the score %v", score)
		}
		u.least = min(u.least, score)
	}
	u.least -= unknownPenalty
	u.tokens = newLexicon(all)
	return u, nil
}

// score is that of a token.
func (u *unigram) score(e entry) float64 {
	if u.always[e.id] {
		return u.round(u.round(float64(len(e.text))*u.most) - 0.1)
	}
	return u.scores[e.id]
}

func (u *unigram) round(x float64) float64 {
	if u.narrow {
		return float64(float32(x))
	}
	return x
}

// append finds the best way from the begin to each character, and goes back from the end.
func (u *unigram) append(ids []int32, word string, b *budget.Budget) ([]int32, error) {
	type node struct {
		score float64
		from  int32
		id    int32 // -1 for an unknown character
	}
	best := make([]node, len(word)+1)
	for i := range best {
		best[i].from = -1
	}
	for at, r := range word {
		size, single := utf8.RuneLen(r), false
		offer := func(to int, score float64, id int32) {
			if sum := u.round(score + best[at].score); best[to].from < 0 || sum > best[to].score {
				best[to] = node{sum, int32(at), id}
			}
		}
		if err := u.tokens.prefixes(word[at:], b, func(e entry) {
			if to := at + len(e.text); to == len(word) || utf8.RuneStart(word[to]) {
				id := e.id
				if id == u.characters.unknown { // in the text, it is one of them
					id = -1
				}
				offer(to, u.score(e), id)
				single = single || len(e.text) == size
			}
		}); err != nil {
			return nil, err
		}
		if !single {
			offer(at+size, u.least, -1)
		}
	}
	var parts []entry // from the last to the first; unknown characters side by side are one
	for to := len(word); to > 0; {
		n := best[to]
		part := entry{word[n.from:to], n.id}
		if n.id < 0 {
			for n.from > 0 && best[n.from].id < 0 {
				n = best[n.from]
			}
			part.text = word[n.from:to]
		}
		parts = append(parts, part)
		to = int(n.from)
	}
	unknown := false
	for _, p := range slices.Backward(parts) {
		if p.id < 0 && !u.single {
			if id, ok := u.ids[p.text]; ok {
				p.id = id
			}
		}
		if p.id >= 0 {
			ids, unknown = append(ids, p.id), false
			continue
		}
		if u.characters.known(p.text) || u.characters.unknown >= 0 {
			unknown = u.characters.ids(p.text, unknown, func(id int32) { ids = append(ids, id) })
			continue
		}
		return nil, fmt.Errorf("the vocabulary has no token for %.40q, and no unk_id", p.text)
	}
	return ids, b.Step(len(word) / 4)
}

// vocabulary has the ids of tokens, and with Unigram their scores.
type vocabulary struct {
	ids    map[string]int32
	scores []float64
}

// mostTokens is the number of tokens in it. Public models have a quarter of a million.
const mostTokens = 600_000

// UnmarshalJSON implements json.Unmarshaler: an object of ids, or a list of tokens with scores in the order of their ids.
func (v *vocabulary) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return v.list(text)
	}
	n := bytes.Count(text, []byte(":")) // each token is followed by one, and some have one
	if err := budget.Size("vocab", n, mostTokens, "tokens"); err != nil {
		return err
	}
	v.ids = make(map[string]int32, n)
	if err := json.Unmarshal(text, &v.ids); err != nil || len(v.ids) == n {
		return err
	}
	return v.once(text)
}

// once refuses a token that stands twice: json.Unmarshal takes the last of its ids.
func (v *vocabulary) once(text []byte) error {
	d, keys := json.NewDecoder(bytes.NewReader(text)), 0
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		keys++
	}
	if keys = (keys - 2) / 2; keys > len(v.ids) { // tokens with their ids, between two braces
		return fmt.Errorf("vocab: %d of its tokens stand there twice", keys-len(v.ids))
	}
	return nil
}

func (v *vocabulary) list(text []byte) error {
	if err := budget.Size("vocab", bytes.Count(text, []byte("[")), mostTokens, "tokens"); err != nil {
		return err
	}
	var list [][2]any
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	v.ids = make(map[string]int32, len(list))
	for i, pair := range list {
		token, ok := pair[0].(string)
		score, also := pair[1].(float64)
		if !ok || !also {
			return fmt.Errorf("entry %d of vocab is no token with its score", i)
		}
		if first, twice := v.ids[token]; twice {
			return fmt.Errorf("vocab: the token %.100q has the ids %d and %d", token, first, i)
		}
		v.ids[token], v.scores = int32(i), append(v.scores, score)
	}
	return nil
}
