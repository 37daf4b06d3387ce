package api

import "net/http"

// modelCard describes a model.
type modelCard struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Created   int64  `json:"created"`
	OwnedBy   string `json:"owned_by"`
	MaxLength int    `json:"max_model_len"`
}

func (s *Server) card() modelCard {
	return modelCard{ID: s.Model, Object: "model", Created: s.started.Unix(), OwnedBy: "user", MaxLength: s.Engine.MaxLength()}
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, map[string]any{"object": "list", "data": []modelCard{s.card()}})
	return nil
}

func (s *Server) model(w http.ResponseWriter, r *http.Request) error {
	if err := s.known(r.PathValue("id")); err != nil {
		return err
	}
	answer(w, http.StatusOK, s.card())
	return nil
}

// known refuses the names of other models.
func (s *Server) known(name string) error {
	if name == s.Model {
		return nil
	}
	param := "model"
	return &Error{Status: http.StatusNotFound, Message: "there is no model " + name + "; this server has " + s.Model, Type: invalid, Param: &param, Code: "model_not_found"}
}
