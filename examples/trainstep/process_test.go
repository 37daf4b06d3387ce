package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	out bytes.Buffer // what it wrote, to be read when it has ended
}

// startRanks starts the program as the ranks of a job.
func startRanks(t *testing.T, n int, flags []string, variables ...string) (ranks []*rank) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := ln.Addr().(*net.TCPAddr).Port
	require.NoError(t, ln.Close())
	for i := range n {
		r := &rank{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
		r.Stdout, r.Stderr = &r.out, &r.out
		r.Env = append(os.Environ(), argumentsVariable+"="+strings.Join(flags, " "), "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", port), "CANN_JOB_SECRET="+t.Name(),
			fmt.Sprint("RANK=", i), fmt.Sprint("LOCAL_RANK=", i), fmt.Sprint("WORLD_SIZE=", n), fmt.Sprint("LOCAL_WORLD_SIZE=", n))
		r.Env = append(r.Env, variables...)
		require.NoError(t, r.Start())
		ranks = append(ranks, r)
	}
	return ranks
}
