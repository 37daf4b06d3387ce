package api

import (
	_ "embed"
	"net/http"
)

// page lets people chat with the model, and watch the load of the server.
//
//go:embed page.html
var page []byte

// policy lets the page reach nothing but its own server.
const policy = "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'none'"

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(page) // the client may have left
}
