package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/serve/engine"
)

// outcomes counts how requests have ended.
type outcomes struct {
	mu             sync.Mutex
	texts          map[string]string // of those that ended well, by prompt
	good, bad, cut int               // cut are streams that ended with an error
}

// ask sends a request, every second time as a stream. Each must end with the text, or say that the device has
// failed.
func (o *outcomes) ask(t *testing.T, s *server, prompt string, streamed bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text, err := "", error(nil)
	if streamed {
		stream := s.client.Completions.NewStreaming(ctx, greedy(prompt, 4))
		for stream.Next() {
			if c := stream.Current(); len(c.Choices) > 0 {
				text += c.Choices[0].Text
			}
		}
		err = stream.Err()
	} else {
		var one *openai.Completion
		if one, err = s.client.Completions.New(ctx, greedy(prompt, 4)); err == nil {
			text = one.Choices[0].Text
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.good++
		if before, ok := o.texts[prompt]; ok && text != before {
			return fmt.Errorf("the text is %q, not %q", text, before)
		}
		o.texts[prompt] = text
	case streamed && strings.Contains(err.Error(), "the device has failed"):
		o.cut++
	default:
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != http.StatusServiceUnavailable || e.Code != "device_failed" {
			return err
		}
		o.bad++
	}
	return nil
}

// TestThousandFaults: a thousand steps fail, of memory that is missing at every so many allocations or of
// operators. Every request ends with its text or an error of the interface, none hangs, and the server
// serves again.
func TestThousandFaults(t *testing.T) {
	part := 1
	if testing.Short() {
		part = 20
	}
	var memory []string
	for at := 60; at < 60+8*2*150; at += 8 { // twice as often as needed, since some do no harm
		for again := range 6 { // the allocator tries as often
			memory = append(memory, fmt.Sprintf("aclrtMallocAlign32:%d=207001", at+again))
		}
	}
	for name, c := range map[string]struct {
		faults int
		rules  string
		prompt string
		empty  bool // the allocator's cache after each request, so that steps allocate
	}{
		// Prompts that need more memory than the weights have left of their segments, and more blocks than
		// there are, so that they are read anew.
		"out of memory": {150 / part, strings.Join(memory, ";"), strings.Repeat("the quick brown fox ", 20), true},
		"operators":     {850 / part, "run/aclnnScatterNdUpdate:6%=507015;run/aclnnIndexSelect:1%=507015;aclnnRmsNormGetWorkspaceSize:0.5%=561000;aclnnMatmul:0.5%=361001", "the", false},
	} {
		t.Run(name, func(t *testing.T) {
			acltest.Faults(t, c.rules, func(t *testing.T) {
				began := time.Now()
				s := start(t, engine.Options{Blocks: 60, BlockSize: 16, Sequences: 4}, nil)
				dev, err := acltest.Open(t).Device(0)
				require.NoError(t, err)
				defer func() { require.NoError(t, dev.Close()) }()
				o := outcomes{texts: map[string]string{}}
				problems := make([]error, 4)
				var open sync.WaitGroup
				for i := range problems {
					open.Go(func() {
						for n := i; problems[i] == nil && n < 40*c.faults && s.Engine.Stats().Faults < c.faults; n++ {
							problems[i] = o.ask(t, s, string(rune('a'+n%7))+c.prompt, n%2 == 0)
							if c.empty && problems[i] == nil {
								problems[i] = dev.Allocator().EmptyCache(t.Context())
							}
						}
					})
				}
				open.Wait()
				for _, err := range problems {
					require.NoError(t, err)
				}
				good := o.good
				require.GreaterOrEqual(t, s.Engine.Stats().Faults, c.faults)
				for n := 0; n < 100 && o.good == good; n++ { // operators go on failing at random
					require.NoError(t, o.ask(t, s, c.prompt, false))
				}
				require.Greater(t, o.good, good, "the server serves again")
				require.Positive(t, min(o.good, o.bad+o.cut))
				require.NoError(t, s.Engine.Ready())
				t.Logf("%d faults in %v: %d requests ended well, %d with status 503, %d with an event of their stream", s.Engine.Stats().Faults, time.Since(began), o.good, o.bad, o.cut)
			})
		})
	}
}
