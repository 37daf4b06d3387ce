package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/schema"
)

// format describes the answers that a request accepts.
type format struct {
	Type   string `json:"type"`
	Schema struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// grammar returns the grammar of a format, or nil for any text. It ends with the request that ctx is of.
func (s *Server) grammar(ctx context.Context, f *format) (engine.Grammar, error) {
	if f == nil || f.Type == "text" {
		return nil, nil
	}
	switch f.Type {
	case "json_object":
		return grammarOf(s.vocabulary().Object(ctx))
	case "json_schema":
		return grammarOf(s.vocabulary().Compile(ctx, f.Schema.Schema))
	}
	return nil, fmt.Errorf("%q is not supported; use text, json_object or json_schema", f.Type)
}

// grammarOf returns a nil interface for a nil grammar.
func grammarOf(g *schema.Grammar, err error) (engine.Grammar, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}

// newVocabulary reads what the tokens stand for. Those that end a text, or are no text, cannot be part of it.
func (s *Server) newVocabulary() *schema.Vocabulary {
	l, _ := s.Language.(interface{ Special(id int32) bool })
	return schema.NewVocabulary(s.Engine.Vocab(), func(id int32) []byte {
		if slices.Contains(s.Ends, id) || l != nil && l.Special(id) {
			return nil
		}
		return s.Language.Bytes(id)
	})
}
