package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/testing/freeport"
)

// argumentsVariable makes the test binary run as the program.
const argumentsVariable = "TRAINSTEP_TEST_ARGUMENTS"

func TestMain(m *testing.M) {
	if flags := os.Getenv(argumentsVariable); flags != "" {
		os.Args = append([]string{"trainstep"}, strings.Fields(flags)...)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// rank is a process of a job.
type rank struct {
	*exec.Cmd
	out   output
	ended chan struct{} // closed when err is set
	err   error
}

// Wait waits for the end of the process, which it may do several times.
func (r *rank) Wait() error {
	<-r.ended
	return r.err
}

// output collects the output of a rank.
type output struct {
	mu     sync.Mutex
	text   bytes.Buffer
	trains chan struct{} // closed at the first line of a step
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.text.Len() > 0 && bytes.Contains(o.text.Bytes(), []byte("  loss "))
	n, err := o.text.Write(p)
	if !before && bytes.Contains(o.text.Bytes(), []byte("  loss ")) {
		close(o.trains)
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// send sends a signal to a process, unless it has ended by then.
func send(t *testing.T, p *os.Process, s os.Signal) {
	t.Helper()
	if err := p.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(t, err)
	}
}

// startRanks starts the program as the ranks of a job. RANK in the flags is the rank's number.
func startRanks(t *testing.T, n int, flags []string, variables ...string) (ranks []*rank) {
	t.Helper()
	number := freeport.Number(t, freeport.Free(t))
	for i := range n {
		r := &rank{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
		r.out.trains = make(chan struct{})
		r.Stdout, r.Stderr = &r.out, &r.out
		r.Env = append(os.Environ(), argumentsVariable+"="+strings.ReplaceAll(strings.Join(flags, " "), "RANK", fmt.Sprint(i)), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+number, "CANN_JOB_SECRET="+t.Name(),
			fmt.Sprint("RANK=", i), fmt.Sprint("LOCAL_RANK=", i), fmt.Sprint("WORLD_SIZE=", n), fmt.Sprint("LOCAL_WORLD_SIZE=", n))
		r.Env = append(r.Env, variables...)
		require.NoError(t, r.Start())
		r.ended = make(chan struct{})
		go func() {
			r.err = r.Cmd.Wait()
			close(r.ended)
		}()
		ranks = append(ranks, r)
	}
	return ranks
}

// training waits until a job trains. If a rank ends before, the test ends, which ends the others.
func training(t *testing.T, ranks []*rank) {
	t.Helper()
	select {
	case <-ranks[0].out.trains:
	case i := <-first(ranks, func(*rank) bool { return true }):
		t.Fatalf("rank %d of %d ended early: %v\n%s", i, len(ranks), ranks[i].err, ranks[i].out.String())
	}
}

// succeed waits until all ranks of a job have ended well. If one does not, the test ends, which ends the
// others: they may be waiting for it.
func succeed(t *testing.T, ranks []*rank) {
	t.Helper()
	failed := first(ranks, func(r *rank) bool { return r.err != nil })
	all := make(chan struct{})
	go func() {
		defer close(all)
		for _, r := range ranks {
			<-r.ended
		}
	}()
	select {
	case i := <-failed:
		t.Fatalf("rank %d of %d: %v\n%s", i, len(ranks), ranks[i].err, ranks[i].out.String())
	case <-all:
		for i, r := range ranks {
			require.NoError(t, r.err, "rank %d of %d: %s", i, len(ranks), r.out.String())
		}
	}
}

// first returns a channel that gets the ranks that end in a way, in the order in which they do.
func first(ranks []*rank, how func(r *rank) bool) <-chan int {
	some := make(chan int, len(ranks))
	for i, r := range ranks {
		go func() {
			if <-r.ended; how(r) {
				some <- i
			}
		}()
	}
	return some
}
