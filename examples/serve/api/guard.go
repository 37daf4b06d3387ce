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
	"slices"
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

// clientName names who sent a request: the number of its key in Config.Keys, from 1, or its address.
func (s *Server) clientName(r *http.Request) string {
	if s.keys != nil {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		given := hash(token)
		return fmt.Sprintf("key %d", 1+slices.IndexFunc(s.keys, func(k []byte) bool { return subtle.ConstantTimeCompare(k, given) == 1 }))
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// unauthorized answers a request without one of the keys.
func (s *Server) unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	fail(w, &Error{Status: http.StatusUnauthorized, Message: "the request has no valid API key; send it as Authorization: Bearer KEY", Type: invalid, Code: "invalid_api_key"})
}

// guarded lets requests with a key reach a handler, within the limits.
func (s *Server) guarded(f func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.admitted(r) {
			s.unauthorized(w)
			return
		}
		name := s.clientName(r)
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

// mostDrained is how many bytes of a body that is too large are read, so that its client sees the answer: one that still sends when the
// connection is closed may see nothing.
const mostDrained = 256 << 20

// body reads the body of a request.
func (s *Server) body(r *http.Request) ([]byte, error) {
	if s.MaxBody <= 0 {
		return io.ReadAll(r.Body)
	}
	large := &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the body has more than %d bytes", s.MaxBody), Type: invalid}
	text, err := io.ReadAll(io.LimitReader(r.Body, s.MaxBody+1))
	if err == nil && int64(len(text)) > s.MaxBody {
		_, _ = io.CopyN(io.Discard, r.Body, mostDrained)
		err = large
	}
	return text, err
}

// read reads the JSON body of a request.
func (s *Server) read(w http.ResponseWriter, r *http.Request, to request) error {
	text, err := s.body(r)
	if err == nil {
		if err = json.Unmarshal(text, to); err == nil {
			err = known(text, to)
		}
	}
	var kind *json.UnmarshalTypeError
	var own *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{Status: http.StatusRequestTimeout, Message: "the body has not come in time", Type: invalid}
	case errors.As(err, &kind) && kind.Field == "":
		return &Error{Status: http.StatusBadRequest, Message: "the body is a " + kind.Value + ", not an object", Type: invalid}
	case errors.As(err, &kind):
		return badParameter(strings.TrimPrefix(kind.Field, "parameters."), "it is a "+kind.Value) // of the structure that holds the common ones
	}
	return &Error{Status: http.StatusBadRequest, Message: "the body is no valid JSON: " + err.Error(), Type: invalid}
}
