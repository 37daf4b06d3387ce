package api

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"
)

// watched notes what was answered.
type watched struct {
	http.ResponseWriter
	status, bytes int
	patience      time.Duration
}

func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// patience is the time that a client has to take what is written to it.
const patience = 30 * time.Second

// Write gives the client a time to take what comes before and with it: a client that does not read keeps no request for ever.
func (w *watched) Write(b []byte) (int, error) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.patience)) // not every ResponseWriter has one
	n, err := w.ResponseWriter.Write(b)
	w.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController flush.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A line of the log, or a span, shows at most longestShown bytes of the method, path or model's name that a client has sent.
const longestShown = 200

// brief is a text of a client for the log, without the end of one that is too long.
func brief(text string) string {
	if len(text) <= longestShown {
		return text
	}
	return strings.ToValidUTF8(text[:longestShown], "") + "…"
}

// longestID is the length of the longest request id that is taken from a client.
const longestID = 128

// requestID returns the id that the client gave to its request, or a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > longestID {
		return "req-" + rand.Text()
	}
	return id
}
