package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// rerankRequest is the body of /v1/rerank, in the form of Jina and Cohere.
type rerankRequest struct {
	Model     string     `json:"model"`
	Query     *string    `json:"query"`
	Documents []document `json:"documents"`
	Top       *whole     `json:"top_n"`
	Return    bool       `json:"return_documents"`
}

// document is a text, or an object with one.
type document struct {
	Text string `json:"text"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *document) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &d.Text) == nil && string(text) != "null" {
		return nil
	}
	var members map[string]*string
	if json.Unmarshal(text, &members) != nil || len(members) != 1 || members["text"] == nil {
		return badParameter("documents", fmt.Sprintf("%.80s is neither a text nor an object whose only member is a text", text))
	}
	d.Text = *members["text"]
	return nil
}

// rerankAnswer is the body of the answer.
type rerankAnswer struct {
	Model   string         `json:"model"`
	Results []rerankResult `json:"results"`
	Usage   struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

type rerankResult struct {
	Index    int       `json:"index"`
	Score    float64   `json:"relevance_score"`
	Document *document `json:"document,omitempty"`
}

// rerank gives documents scores for a query, the best first.
func (s *Server) rerank(w http.ResponseWriter, r *http.Request) error {
	var q rerankRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	switch {
	case q.Model != s.Model: // adapters give no scores
		return s.unknown(q.Model)
	case q.Query == nil:
		return badParameter("query", "it is missing")
	case len(q.Documents) == 0:
		return badParameter("documents", "it is missing or empty")
	case s.MaxChoices > 0 && len(q.Documents) > s.MaxChoices:
		return badParameter("documents", fmt.Sprintf("%d documents; at most %d are possible", len(q.Documents), s.MaxChoices))
	case q.Top != nil && *q.Top < 1:
		return badParameter("top_n", "it must be positive")
	}
	a := rerankAnswer{Model: s.Model}
	type pair struct{ ids, types []int32 }
	var pairs []pair
	for i, d := range q.Documents { // all of them before the first is computed
		ids, types, err := s.Language.EncodePair(*q.Query, d.Text, s.Engine.MaxLength())
		if err != nil {
			return badText("documents", fmt.Errorf("document %d with the query: %w", i, err))
		}
		pairs = append(pairs, pair{ids, types})
		a.Usage.Prompt += len(ids)
	}
	for i, p := range pairs {
		score, err := s.Engine.Score(r.Context(), p.ids, p.types)
		if err != nil {
			return err
		}
		one := rerankResult{Index: i, Score: score}
		if q.Return {
			one.Document = &q.Documents[i]
		}
		a.Results = append(a.Results, one)
	}
	slices.SortStableFunc(a.Results, func(x, y rerankResult) int { return cmp.Compare(y.Score, x.Score) })
	if q.Top != nil && int(*q.Top) < len(a.Results) {
		a.Results = a.Results[:*q.Top]
	}
	a.Usage.Total = a.Usage.Prompt
	*recordOf(r.Context()) = record{model: q.Model, usage: usage{Prompt: a.Usage.Prompt}}
	answer(w, http.StatusOK, a)
	return nil
}
