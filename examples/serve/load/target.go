package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Target receives the requests.
type Target struct {
	URL  string // of the interface, such as http://127.0.0.1:8080/v1/completions
	Body string // JSON, with "stream":true
	// Vary, if not nil, returns the body of each request in place of Body, by its number from 0.
	Vary   func(request int) string
	Client *http.Client // nil is http.DefaultClient
	// Leave is the number of tokens after which clients leave; 0 lets them stay.
	Leave int
}

// Result is the outcome of a request.
type Result struct {
	Status int // of HTTP, 0 if there was no answer
	Err    error
	Left   bool            // the client did not wait for the end
	First  time.Duration   // to the first token
	Gaps   []time.Duration // between two tokens
}

// Tokens returns the number of tokens that arrived.
func (r *Result) Tokens() int {
	if r.First == 0 {
		return 0
	}
	return 1 + len(r.Gaps)
}

// of returns the target of a request.
func (t Target) of(request int) *Target {
	if t.Vary != nil {
		t.Body = t.Vary(request)
	}
	return &t
}

// Send sends one request and reads its stream.
func (t *Target) Send(ctx context.Context) (r Result) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	client := t.Client
	if client == nil {
		client = http.DefaultClient
	}
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, strings.NewReader(t.Body))
	if err != nil {
		return Result{Err: err}
	}
	answer, err := client.Do(request)
	if err != nil {
		return Result{Err: err}
	}
	defer func() { r.Err = errors.Join(r.Err, answer.Body.Close()) }()
	if r.Status = answer.StatusCode; r.Status != http.StatusOK {
		text, err := io.ReadAll(answer.Body)
		r.Err = errors.Join(fmt.Errorf("status %d: %s", r.Status, text), err)
		return r
	}
	r.Err = t.follow(&r, bufio.NewScanner(answer.Body), began)
	return r
}

// follow notes the times of the tokens.
func (t *Target) follow(r *Result, lines *bufio.Scanner, began time.Time) error {
	last := began
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		switch {
		case !ok:
			continue
		case bytes.HasPrefix(data, []byte("[DONE]")):
			return nil
		case bytes.HasPrefix(data, []byte(`{"error"`)):
			return fmt.Errorf("in the stream: %s", data)
		}
		now := time.Now()
		if last == began {
			r.First = now.Sub(began)
		} else {
			r.Gaps = append(r.Gaps, now.Sub(last))
		}
		if last = now; t.Leave > 0 && r.Tokens() >= t.Leave {
			r.Left = true
			return nil
		}
	}
	return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}
