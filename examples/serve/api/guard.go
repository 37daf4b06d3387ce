package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
)

// clients counts the open requests of each client.
type clients struct {
	most int // 0 is no limit
	mu   sync.Mutex
	open map[string]int
}

// enter counts a request, unless the client has too many.
func (c *clients) enter(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most > 0 && c.open[name] >= c.most {
		return false
	}
	c.open[name]++
	return true
}

func (c *clients) leave(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[name]--; c.open[name] == 0 {
		delete(c.open, name)
	}
}

func hash(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// admitted reports whether a request has one of the keys. It compares hashes, and all of them, so that
// its time says nothing about the keys.
func (s *Server) admitted(r *http.Request) bool {
	if s.keys == nil {
		return true
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	given, found := hash(token), 0
	for _, k := range s.keys {
		found |= subtle.ConstantTimeCompare(k, given)
	}
	return ok && found == 1
}

// client names who sent a request: its key, or its address.
func (s *Server) client(r *http.Request) string {
	if s.keys != nil {
		return r.Header.Get("Authorization")
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// guarded lets requests with a key reach a handler, within the limits.
func (s *Server) guarded(f func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.admitted(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(w, &Error{Status: http.StatusUnauthorized, Message: "the request has no valid API key; send it as Authorization: Bearer KEY", Type: invalid, Code: "invalid_api_key"})
			return
		}
		name := s.client(r)
		if !s.clients.enter(name) {
			fail(w, &Error{Status: http.StatusTooManyRequests, Message: "this client has too many open requests", Type: overloaded, Code: "rate_limit_exceeded"})
			return
		}
		defer s.clients.leave(name)
		if s.Deadline > 0 {
			ctx, cancel := context.WithTimeoutCause(r.Context(), s.Deadline, errDeadline)
			defer cancel()
			r = r.WithContext(ctx)
		}
		if err := f(w, r); err != nil {
			fail(w, err)
		}
	}
}

// read reads the JSON body of a request.
func (s *Server) read(w http.ResponseWriter, r *http.Request, to any) error {
	if s.MaxBody > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, s.MaxBody)
	}
	text, err := io.ReadAll(r.Body)
	if err == nil {
		if err = json.Unmarshal(text, to); err == nil {
			err = known(text, to)
		}
	}
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	var own *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.As(err, &large):
		return &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the body has more than %d bytes", large.Limit), Type: invalid}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{Status: http.StatusRequestTimeout, Message: "the body has not come in time", Type: invalid}
	case errors.As(err, &kind) && kind.Field == "":
		return &Error{Status: http.StatusBadRequest, Message: "the body is a " + kind.Value + ", not an object", Type: invalid}
	case errors.As(err, &kind):
		return badParameter(kind.Field, "it is a "+kind.Value)
	}
	return &Error{Status: http.StatusBadRequest, Message: "the body is no valid JSON: " + err.Error(), Type: invalid}
}
