package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/internal/testing/freeport"
)

// rank is a process of a server.
type rank struct {
	*exec.Cmd
	log   bytes.Buffer
	ended chan error
}

// startRanks starts the program as two processes, as examples/launch does, and returns what the first one prints.
func startRanks(t *testing.T, flags string) (p program, ranks [2]*rank) {
	if testing.Short() {
		t.Skip("processes")
	}
	acltest.Need(t)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, out.Close()) })
	number := freeport.Number(t, freeport.Free(t))
	for i := range ranks {
		r := &rank{Cmd: exec.CommandContext(t.Context(), os.Args[0]), ended: make(chan error, 1)}
		r.Env = append(os.Environ(), argumentsVariable+"=-tp 2 -listen 127.0.0.1:0 "+flags, "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+number, "CANN_JOB_SECRET="+t.Name(),
			fmt.Sprint("RANK=", i), fmt.Sprint("LOCAL_RANK=", i), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2")
		r.Stdout, r.Stderr = in, io.MultiWriter(&r.log, t.Output())
		require.NoError(t, r.Start())
		go func() { r.ended <- r.Wait() }()
		ranks[i] = r
	}
	require.NoError(t, in.Close())
	return invited(t, out), ranks
}

// wait returns how a process has ended. It gives up after a time in which nobody would wait for an order.
func (r *rank) wait(t *testing.T) error {
	select {
	case err := <-r.ended:
		return err
	case <-time.After(time.Minute):
		require.FailNow(t, "the process does not end")
		return nil
	}
}

// TestProcesses: two processes that share each layer give the tokens of one, and end well.
func TestProcesses(t *testing.T) {
	const flags = "-train-steps 20 -blocks 16"
	chat := func(p program) (tokens []string) {
		status, text := p.ask(t, http.MethodPost, "/v1/chat/completions", `{"model":"small","messages":[{"role":"user","content":"func main"}],"max_tokens":40,"temperature":0,"logprobs":true}`)
		require.Equal(t, 200, status, text)
		var answer struct {
			Choices []struct {
				LogProbs struct{ Content []struct{ Token string } }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		for _, x := range answer.Choices[0].LogProbs.Content {
			tokens = append(tokens, x.Token)
		}
		return tokens
	}
	p, ranks := startRanks(t, flags)
	together := chat(p)
	for _, r := range ranks {
		if err := r.Process.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) { // the first may have ended the other
			require.NoError(t, err)
		}
	}
	for i, r := range ranks {
		require.NoError(t, r.wait(t), "rank %d: %s", i, &r.log)
	}
	alone := chat(begin(t, strings.Fields(flags)...))
	require.Len(t, alone, 40)
	require.Equal(t, alone, together)
}

// TestKilledRank: when a process is killed while no request runs, the other one notices and ends with an error, so
// that their launcher can start both again. No request hangs meanwhile.
func TestKilledRank(t *testing.T) {
	for killed := range 2 {
		t.Run(fmt.Sprint(killed), func(t *testing.T) {
			p, ranks := startRanks(t, "-train-steps 1 -blocks 16")
			status, text := p.ask(t, http.MethodGet, "/readyz", "")
			require.Equal(t, 200, status, text)
			require.NoError(t, ranks[killed].Process.Kill())
			require.Error(t, ranks[killed].wait(t))
			began := time.Now()
			require.Error(t, ranks[1-killed].wait(t))
			require.Contains(t, ranks[1-killed].log.String(), "a rank is lost; start all ranks again")
			t.Logf("the other ends after %v", time.Since(began))
		})
	}
}
