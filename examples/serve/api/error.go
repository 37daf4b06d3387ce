package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/tokenizer"
)

// Error is an error in OpenAI's form.
type Error struct {
	Status  int     `json:"-"`
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Types of errors.
const (
	invalid    = "invalid_request_error"
	overloaded = "rate_limit_error"
	broken     = "server_error"
)

// badParameter is the error of a parameter that cannot be honoured.
func badParameter(name, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Message: name + ": " + message, Type: invalid, Param: &name}
}

// badText is the error of a parameter with a text that cannot be encoded.
func badText(name string, err error) *Error {
	e := badParameter(name, err.Error())
	if errors.Is(err, tokenizer.ErrLength) {
		e.Code = tooLong
	}
	return e
}

// tooLong is the code of prompts that the model cannot read whole.
const tooLong = "context_length_exceeded"

// errDeadline ends requests that take too long.
var errDeadline = errors.New("api: the request took longer than the server allows")

// errorOf puts an error of the engine into OpenAI's form.
func errorOf(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, engine.ErrLength):
		return &Error{Status: http.StatusBadRequest, Message: err.Error(), Type: invalid, Code: tooLong}
	case errors.Is(err, engine.ErrRequest):
		return &Error{Status: http.StatusBadRequest, Message: err.Error(), Type: invalid}
	case errors.Is(err, engine.ErrBusy):
		return &Error{Status: http.StatusTooManyRequests, Message: "too many requests wait; try again later", Type: overloaded, Code: "rate_limit_exceeded"}
	case errors.Is(err, engine.ErrClosed):
		return &Error{Status: http.StatusServiceUnavailable, Message: "the server is shutting down", Type: broken, Code: "shutting_down"}
	case errors.Is(err, engine.ErrDevice):
		return &Error{Status: http.StatusServiceUnavailable, Message: "the device has failed; try again", Type: broken, Code: "device_failed"}
	case errors.Is(err, errDeadline), errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: http.StatusGatewayTimeout, Message: errDeadline.Error(), Type: broken, Code: "timeout"}
	}
	if errors.Is(err, context.Canceled) {
		return &Error{Status: statusLeft, Message: "the client has left", Type: broken}
	}
	return &Error{Status: http.StatusInternalServerError, Message: err.Error(), Type: broken}
}

// statusLeft is nginx's status for clients that did not wait for the answer. Only logs show it.
const statusLeft = 499

// pause is the number of seconds after which a refused client may try again.
const pause = 1

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	e := errorOf(err)
	if e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(pause))
	}
	answer(w, e.Status, map[string]*Error{"error": e})
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil { // NaN, which logits of a damaged model could have
		status, text = http.StatusInternalServerError, []byte(`{"error":{"message":"the answer cannot be written as JSON","type":"server_error","param":null}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}
