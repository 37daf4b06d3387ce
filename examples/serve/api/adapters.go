package api

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/goascend/cann/examples/serve/engine"
)

// adapterRequest is the body of /v1/load_lora_adapter and /v1/unload_lora_adapter, which vLLM has too.
type adapterRequest struct {
	Name string `json:"lora_name"`
	Path string `json:"lora_path"` // below the server's folder; the name if empty
}

func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) error {
	var q adapterRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	if q.Path == "" {
		q.Path = q.Name
	}
	switch {
	case q.Name == "" || q.Name == s.Model:
		return badParameter("lora_name", "it is empty, or the model's")
	case !filepath.IsLocal(q.Path):
		return badParameter("lora_path", "it leaves the server's folder of adapters")
	case filepath.Clean(q.Path) == ".":
		return badParameter("lora_path", "it is the server's folder of adapters; name one below it")
	}
	folder := filepath.Join(s.Adapters, q.Path)
	if err := s.Engine.LoadAdapter(r.Context(), q.Name, folder); err != nil {
		if errors.Is(err, engine.ErrAdapter) { // where the server keeps its files does not concern clients
			return badParameter("lora_name", strings.ReplaceAll(err.Error(), folder, q.Path))
		}
		return err
	}
	answer(w, http.StatusOK, s.card(q.Name))
	return nil
}

func (s *Server) unloadAdapter(w http.ResponseWriter, r *http.Request) error {
	var q adapterRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	if s.Engine.UnloadAdapter(q.Name) != nil {
		return s.unknown(q.Name)
	}
	answer(w, http.StatusOK, map[string]any{"id": q.Name, "object": "model", "deleted": true})
	return nil
}
