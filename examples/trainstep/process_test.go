package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/testing/port"
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
	out output
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

// startRanks starts the program as the ranks of a job.
func startRanks(t *testing.T, n int, flags []string, variables ...string) (ranks []*rank) {
	t.Helper()
	number := port.Number(t, port.Free(t))
	for i := range n {
		r := &rank{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
		r.out.trains = make(chan struct{})
		r.Stdout, r.Stderr = &r.out, &r.out
		r.Env = append(os.Environ(), argumentsVariable+"="+strings.Join(flags, " "), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+number, "CANN_JOB_SECRET="+t.Name(),
			fmt.Sprint("RANK=", i), fmt.Sprint("LOCAL_RANK=", i), fmt.Sprint("WORLD_SIZE=", n), fmt.Sprint("LOCAL_WORLD_SIZE=", n))
		r.Env = append(r.Env, variables...)
		require.NoError(t, r.Start())
		ranks = append(ranks, r)
	}
	return ranks
}
