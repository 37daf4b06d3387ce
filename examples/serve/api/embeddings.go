package api

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
)

// embeddingRequest is the body of /v1/embeddings.
type embeddingRequest struct {
	Model  string          `json:"model"`
	Input  json.RawMessage `json:"input"`
	Format string          `json:"encoding_format"`
}

// embeddingAnswer is the body of the answer.
type embeddingAnswer struct {
	Object string          `json:"object"`
	Data   []embeddingItem `json:"data"`
	Model  string          `json:"model"`
	Usage  struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

type embeddingItem struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	Values any    `json:"embedding"` // numbers, or little-endian float32 in base64
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) error {
	var q embeddingRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	if q.Model != s.Model { // adapters have no embeddings
		return s.unknown(q.Model)
	}
	if q.Format != "" && q.Format != "float" && q.Format != "base64" {
		return badParameter("encoding_format", "it is neither float nor base64")
	}
	texts, err := s.texts("input", q.Input, s.Engine.MaxLength())
	if err != nil {
		return err
	}
	if s.MaxChoices > 0 && len(texts) > s.MaxChoices {
		return badParameter("input", fmt.Sprintf("%d texts; at most %d are possible", len(texts), s.MaxChoices))
	}
	a := embeddingAnswer{Object: "list", Model: s.Model}
	for i, ids := range texts {
		values, err := s.Engine.Embed(r.Context(), ids)
		if err != nil {
			return err
		}
		item := embeddingItem{Object: "embedding", Index: i, Values: values}
		if q.Format == "base64" {
			item.Values = base64.StdEncoding.EncodeToString(littleEndian(values))
		}
		a.Data = append(a.Data, item)
		a.Usage.Prompt += len(ids)
	}
	a.Usage.Total = a.Usage.Prompt
	*recordOf(r.Context()) = record{model: q.Model, usage: usage{Prompt: a.Usage.Prompt}}
	answer(w, http.StatusOK, a)
	return nil
}

func littleEndian(values []float32) (out []byte) {
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}
