package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/tokenizer"
)

// completionRequest is the body of /v1/completions.
type completionRequest struct {
	parameters
	Prompt   json.RawMessage `json:"prompt"`
	LogProbs *whole          `json:"logprobs"`
	Echo     bool            `json:"echo"`
	BestOf   *whole          `json:"best_of"`
}

// usualTokens is the length of a completion that does not say its own, as OpenAI has it.
const usualTokens = 16

func (s *Server) completions(w http.ResponseWriter, r *http.Request) error {
	var q completionRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	readOnly := q.MaxTokens != nil && *q.MaxTokens == 0
	if q.MaxTokens == nil || readOnly {
		n := whole(usualTokens)
		q.MaxTokens = &n
	}
	job, err := s.work(r.Context(), &q.parameters)
	if err != nil {
		return err
	}
	switch {
	case q.BestOf != nil && int(*q.BestOf) != job.n:
		return badParameter("best_of", "it is not supported; ask for n choices")
	case readOnly && q.Format != nil:
		return badParameter("response_format", "nothing is generated with max_tokens 0")
	}
	longest := s.Engine.MaxLength() - 1
	if readOnly {
		job.request.ReadOnly, job.request.MaxTokens, longest = true, 0, longest+1
	}
	if q.LogProbs != nil {
		if err := job.probabilities("logprobs", int(*q.LogProbs)); err != nil {
			return err
		}
		job.request.PromptLogProbs = q.Echo
	}
	if job.prompts, err = s.texts("prompt", q.Prompt, longest); err != nil {
		return err
	}
	f := &completionShape{language: s.Language, probabilities: q.LogProbs != nil, scored: job.request.PromptLogProbs, said: make([]said, len(job.prompts)*job.n)}
	for i := range f.said {
		if f.said[i].stream = s.Language.Stream(); f.scored {
			f.said[i].stream.FromBegin()
		}
	}
	if q.Echo {
		for _, p := range job.prompts {
			text := s.Language.Stream().FromBegin()
			var b strings.Builder
			for _, id := range p {
				b.WriteString(text.Next(id))
			}
			b.WriteString(text.Flush())
			for range job.n {
				f.prompts = append(f.prompts, b.String())
			}
		}
	}
	return s.perform(w, r, job, q.Stream, newHead("cmpl-", "text_completion", q.Model), f)
}

// texts reads a text, texts, tokens, or lists of tokens. A text that has more tokens than longest is refused.
func (s *Server) texts(name string, text json.RawMessage, longest int) (all [][]int32, err error) {
	var texts oneOrMore[string]
	var tokens oneOrMore[[]int32]
	switch {
	case len(text) == 0 || string(text) == "null":
		return nil, badParameter(name, "it is missing")
	case json.Unmarshal(text, &texts) == nil:
		for _, t := range texts {
			ids, err := s.Language.Encode(t, longest)
			if err != nil {
				return nil, badText(name, err)
			}
			all = append(all, ids)
		}
	case json.Unmarshal(text, &tokens) == nil:
		all = tokens
	default:
		return nil, badParameter(name, "it must be a text, texts, tokens or lists of tokens")
	}
	if len(all) == 0 || slices.ContainsFunc(all, func(ids []int32) bool { return len(ids) == 0 }) {
		return nil, badParameter(name, "it is empty")
	}
	return all, nil
}

// completionShape writes completions.
type completionShape struct {
	language      language.Language
	probabilities bool
	scored        bool     // of the prompt too
	prompts       []string // to repeat before the text of each choice
	said          []said   // of each choice
}

// said is the text of a choice so far, as a stream that decodes it and the number of its characters.
type said struct {
	stream     *tokenizer.Stream
	characters int
}

// completionChoice is a choice of /v1/completions.
type completionChoice struct {
	Index    int                 `json:"index"`
	Text     string              `json:"text"`
	LogProbs *completionLogProbs `json:"logprobs"`
	Reason   *string             `json:"finish_reason"`
}

// completionLogProbs is the older form of probabilities.
type completionLogProbs struct {
	Tokens  []string             `json:"tokens"`
	Values  []*float64           `json:"token_logprobs"` // null for the first token of a prompt
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"`
}

func (f *completionShape) first(choice int) any {
	if f.prompts == nil || f.scored { // then it comes with its probabilities
		return nil
	}
	return completionChoice{Index: choice, Text: f.prompts[choice]}
}

func (f *completionShape) next(p piece) any {
	c := completionChoice{Index: p.choice, Text: p.text, LogProbs: f.logProbs(p), Reason: reasonOf(p)}
	if p.prompt != nil {
		c.Text = f.prompts[p.choice] + c.Text
	}
	return c
}

func (f *completionShape) whole(choice int, pieces []piece) any {
	p := joined(pieces)
	p.choice = choice
	c := completionChoice{Index: choice, Text: p.text, LogProbs: f.logProbs(p), Reason: reasonOf(p)}
	if f.prompts != nil {
		c.Text = f.prompts[choice] + c.Text
	}
	return c
}

// logProbs are the probabilities of the tokens of a piece, after those of the prompt.
func (f *completionShape) logProbs(p piece) *completionLogProbs {
	if !f.probabilities {
		return nil
	}
	l := &completionLogProbs{Tokens: []string{}, Values: []*float64{}, Top: []map[string]float64{}, Offsets: []int{}}
	so := &f.said[p.choice]
	for i, t := range slices.Concat(p.prompt, p.tokens) {
		var value *float64
		var top map[string]float64
		if i > 0 || len(p.prompt) == 0 {
			value, top = new(finite(t.LogProb)), map[string]float64{}
		}
		for _, x := range t.Top {
			top[f.name(x.ID)] = finite(x.Value)
		}
		l.Tokens, l.Values, l.Top = append(l.Tokens, f.name(t.ID)), append(l.Values, value), append(l.Top, top)
		l.Offsets = append(l.Offsets, so.characters)
		if !t.End {
			so.characters += utf8.RuneCountInString(so.stream.Next(t.ID))
		}
	}
	return l
}

// name writes a token as text, or its bytes in hexadecimal if they are no characters, so that such tokens differ.
func (f *completionShape) name(id int32) string {
	b := f.language.Bytes(id)
	if utf8.Valid(b) {
		return string(b)
	}
	name := "bytes:"
	for _, x := range b {
		name += fmt.Sprintf(`\x%02x`, x)
	}
	return name
}

// nameOf writes a token as text; bytes that are no characters become U+FFFD.
func nameOf(l language.Language, id int32) string {
	return strings.ToValidUTF8(string(l.Bytes(id)), "\uFFFD")
}

// finite replaces −∞, which JSON cannot write, as OpenAI does.
func finite(logProb float64) float64 { return max(logProb, -9999) }
