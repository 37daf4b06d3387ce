package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
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

// patience is the time that a client has to take an event.
const patience = 30 * time.Second

// send writes an event.
func (s *stream) send(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.write(text)
}

func (s *stream) write(text []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(patience)) // not every ResponseWriter has one
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
