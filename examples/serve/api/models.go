package api

import (
	"net/http"
	"slices"
)

// modelCard describes a model.
type modelCard struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Created   int64  `json:"created"`
	OwnedBy   string `json:"owned_by"`
	MaxLength int    `json:"max_model_len"`
	Parent    string `json:"parent,omitempty"` // of an adapter: the model below it
}

func (s *Server) card(name string) modelCard {
	c := modelCard{ID: name, Object: "model", Created: s.started.Unix(), OwnedBy: "user", MaxLength: s.Engine.MaxLength()}
	if name != s.Model {
		c.Parent = s.Model
	}
	return c
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	all := []modelCard{s.card(s.Model)}
	for _, name := range s.Engine.Adapters() {
		all = append(all, s.card(name))
	}
	answer(w, http.StatusOK, map[string]any{"object": "list", "data": all})
	return nil
}

func (s *Server) model(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("id")
	if _, err := s.adapter(name); err != nil {
		return err
	}
	answer(w, http.StatusOK, s.card(name))
	return nil
}

// adapter returns the adapter that a request names as its model, empty for the model itself.
func (s *Server) adapter(name string) (string, error) {
	if name == s.Model {
		return "", nil
	}
	if slices.Contains(s.Engine.Adapters(), name) {
		return name, nil
	}
	return "", s.unknown(name)
}

// unknown is the error of a model that the server does not have.
func (s *Server) unknown(name string) error {
	param := "model"
	if name == "" {
		return badParameter(param, "it is missing; this server has "+s.Model)
	}
	return &Error{Status: http.StatusNotFound, Message: "there is no model " + name + "; this server has " + s.Model, Type: invalid, Param: &param, Code: "model_not_found"}
}
