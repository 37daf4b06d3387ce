package api

import (
	"context"
	"encoding/json"
	"net/http"
)

// stream writes server-sent events.
type stream struct {
	ctx     context.Context
	w       http.ResponseWriter
	control *http.ResponseController
}

func newStream(ctx context.Context, w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no") // proxies pass each event on
	return &stream{ctx, w, http.NewResponseController(w)}
}

// send writes an event.
func (s *stream) send(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.write(text)
}

func (s *stream) write(text []byte) error {
	event := append(append([]byte("data: "), text...), "\n\n"...)
	if _, err := s.w.Write(event); err != nil {
		return err
	}
	return s.control.Flush()
}

// done ends the stream, after an error with that.
func (s *stream) done(err error) {
	if err != nil {
		_ = s.send(map[string]*Error{"error": errorOf(err)}) // the client may have left
		return
	}
	_ = s.write([]byte("[DONE]"))
}
