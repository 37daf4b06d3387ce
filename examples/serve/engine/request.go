package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/examples/sampling"
)

// Errors of Submit and of generations.
var (
	// ErrRequest is the error of a request that no engine of these limits can serve.
	ErrRequest = errors.New("engine: bad request")
	// ErrLength is that of a request that is longer than Options.MaxLength; it matches ErrRequest.
	ErrLength = fmt.Errorf("%w: too long", ErrRequest)
	// ErrBusy is the error of a request for which the queue has no room.
	ErrBusy = errors.New("engine: too many requests wait")
	// ErrClosed is the error of requests to an engine that drains or is closed.
	ErrClosed = errors.New("engine: closed")
	// ErrDevice is the error of requests that the device failed, or that come while it is opened again.
	ErrDevice = errors.New("engine: the device has failed")
)

// Request asks for the continuation of a prompt.
type Request struct {
	Prompt    []int32
	MaxTokens int // to generate; 0 means as many as fit
	// ReadOnly reads the prompt and generates nothing.
	ReadOnly bool
	Sampling sampling.Options
	Adapter  string  // the name of an adapter, or empty for the model alone
	Ends     []int32 // tokens that end the text; they are not part of it
	// LogProbs asks for the logarithm of each token's probability, and for those of the Top likeliest
	// tokens. The token that ends the text is then the last of the generation, with Token.End. PromptLogProbs asks
	// for those of the prompt's tokens, see Generation.Prompt; then all of the prompt is read anew.
	LogProbs, PromptLogProbs bool
	Top                      int
	// Done is the start of the text, if another engine has generated it and could not go on. The text goes on
	// after it as it would have there.
	Done []int32
	// Grammar says which tokens may come next; nil allows all.
	Grammar Grammar
}

// Grammar describes the texts that a request accepts, such as JSON of a schema.
type Grammar interface{ Begin() Text }

// Text is a text of a grammar so far. It does not change. The engine calls its methods outside of its steps, since they may take long;
// an error ends the request, and no other.
type Text interface {
	// Next returns how the text can go on.
	Next() (Next, error)
	// Add returns the text with another token, which Next has allowed.
	Add(id int32) (Text, error)
}

// Next is how a text of a grammar can go on.
type Next struct {
	Tokens []uint64 // a bit for each token that may come next; nil if nothing can follow
	End    bool     // the text may end
}

// Has reports whether a token may come next.
func (n Next) Has(id int32) bool {
	return id >= 0 && int(id/64) < len(n.Tokens) && n.Tokens[id/64]>>(id%64)&1 == 1
}

// apply sets the logits of tokens that may not come next to −∞. Ends, which end a text, may come when it may end. It
// reports whether a token is left.
func (n Next) apply(logits []float32, ends []int32) (some bool) {
	keep := map[int32]float32{}
	for _, id := range ends {
		if n.End && id >= 0 && int(id) < len(logits) { // a folder may name others
			keep[id] = logits[id]
		}
	}
	for id := range logits {
		if n.Has(int32(id)) {
			some = true
		} else {
			logits[id] = float32(math.Inf(-1))
		}
	}
	for id, l := range keep {
		logits[id], some = l, true
	}
	return some
}

// anySampling is that of a request that generates nothing.
var anySampling = sampling.Options{TopP: 1}

// Token is a generated token, or one of a prompt.
type Token struct {
	ID      int32
	End     bool               // it is of Request.Ends, and not part of the text
	LogProb float64            // with Request.LogProbs
	Top     []sampling.LogProb // the likeliest first
}

// Reason says why a text has ended.
type Reason string

// Reasons, as OpenAI's interface names them.
const (
	Stopped  Reason = "stop"   // by a token of Request.Ends
	TooLong  Reason = "length" // it has Request.MaxTokens, or the engine's MaxLength
	noReason Reason = ""
)

// check refuses requests that do not fit, and limits the number of tokens.
func (r *Request) check(o *Options, vocab int) error {
	switch {
	case r.ReadOnly && (r.MaxTokens > 0 || len(r.Done) > 0 || r.Grammar != nil):
		return fmt.Errorf("%w: ReadOnly generates nothing, and there are MaxTokens, Done or a Grammar", ErrRequest)
	case len(r.Prompt) == 0:
		return fmt.Errorf("%w: the prompt is empty", ErrRequest)
	}
	if r.ReadOnly && len(r.Prompt) > o.MaxLength {
		return fmt.Errorf("%w: the prompt has %d tokens; it must have at most %d", ErrLength, len(r.Prompt), o.MaxLength)
	}
	if !r.ReadOnly && len(r.Prompt)+len(r.Done) >= o.MaxLength {
		return fmt.Errorf("%w: the prompt has %d tokens; with the first of the answer it must have at most %d", ErrLength, len(r.Prompt)+len(r.Done), o.MaxLength)
	}
	for i, id := range slices.Concat(r.Prompt, r.Done) {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("%w: token %d of the prompt is %d; the vocabulary has %d tokens", ErrRequest, i, id, vocab)
		}
	}
	if r.MaxTokens < 0 || r.Top < 0 {
		return fmt.Errorf("%w: %d tokens and %d likeliest tokens; neither must be negative", ErrRequest, r.MaxTokens, r.Top)
	}
	if err := r.Sampling.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if r.ReadOnly {
		return nil
	}
	if room := o.MaxLength - len(r.Prompt); r.MaxTokens == 0 || r.MaxTokens > room {
		r.MaxTokens = room
	}
	if len(r.Done) >= r.MaxTokens {
		return fmt.Errorf("%w: %d tokens are done of %d", ErrRequest, len(r.Done), r.MaxTokens)
	}
	return nil
}
