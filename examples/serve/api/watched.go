package api

import (
	"crypto/rand"
	"net/http"
)

// watched notes what was answered.
type watched struct {
	http.ResponseWriter
	status, bytes int
}

func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController flush.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
