//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/examples/job"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/freeport"
)

// roleVariable makes the test binary run as a rank.
const roleVariable = "LAUNCH_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// roles are the programs that the tests launch.
var roles = map[string]func() error{
	"gather": func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		g, err := joined(ctx)
		if err != nil {
			return err
		}
		defer g.Close()
		all, err := world.AllGather(ctx, g, os.Getenv("LOCAL_RANK"))
		if err != nil {
			return err
		}
		fmt.Printf("rank %d of %d: %v\n", g.Rank(), g.Size(), all)
		return nil
	},
	// Rank 1 fails when all ranks are connected; the others wait for it, as in a collective.
	"fail": func() error { return lose(func() { os.Exit(3) }) },
	"die":  func() error { return lose(func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }) },
	// Rank 1 ends before it has met the others, which look for it.
	"early": func() error {
		if os.Getenv("RANK") == "1" {
			fmt.Println("printed")
			for i := range 7 {
				fmt.Fprintf(os.Stderr, "trouble %d\n", i)
			}
			os.Stderr.WriteString("no device")
			os.Exit(7)
		}
		_, err := joined(context.Background())
		return err
	},
	// Rank 1 fails in the first two of the job's runs, and rank 0 counts them.
	"flaky": func() error {
		runs := os.Getenv("LAUNCH_TEST_RUNS")
		all, err := os.ReadDir(runs)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		g, err := joined(ctx)
		if err != nil {
			return err
		}
		defer g.Close()
		if g.Rank() == 1 && len(all) < 2 {
			os.Exit(6)
		}
		if g.Rank() == 0 {
			err = os.WriteFile(filepath.Join(runs, fmt.Sprint(len(all))), nil, 0o600)
		}
		return errors.Join(err, g.Barrier(ctx))
	},
	"mute": func() error {
		fmt.Println("printed")
		os.Exit(8)
		return nil
	},
	// Rank 1 hangs. The others give up in time and name the missing rank, the second of them even
	// after the launcher has asked it to end.
	"stall": func() error {
		signal.Ignore(syscall.SIGTERM)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		g, err := joined(ctx)
		if err != nil {
			return err
		}
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		if g.Rank() == 1 {
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			select {} // the signal may come a little later
		}
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return g.Barrier(short)
	},
	// Rank 1 fails, and the others a little later because of it.
	"report": func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		g, err := joined(ctx)
		if err != nil {
			return err
		}
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		if g.Rank() == 1 {
			os.Exit(5)
		}
		err = g.Barrier(ctx)
		if dir := os.Getenv(job.EnvFlight); g.Rank() == 2 {
			if _, failed := job.Record(dir, 2, 3, nil, err.Error(), nil); failed != nil {
				return failed
			}
		}
		return err
	},
	// Rank 0 ends on the request to end, and rank 1 would be disturbed by another request.
	"terminate": func() error {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
		if os.Getenv("RANK") == "0" {
			os.Exit(1)
		}
		select {
		case <-signals:
			fmt.Println("requested twice")
		case <-time.After(500 * time.Millisecond):
			fmt.Println("requested once")
		}
		return nil
	},
	// The other ranks ignore requests to end.
	"stubborn": func() error {
		signal.Ignore(syscall.SIGTERM)
		ctx := context.Background()
		g, err := joined(ctx)
		if err != nil {
			return err
		}
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		if g.Rank() == 1 {
			os.Exit(4)
		}
		select {}
	},
	"signal": func() error {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGUSR1)
		fmt.Println("ready")
		fmt.Println("got", <-signals)
		return nil
	},
	"interrupt": func() error {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt)
		fmt.Println("ready")
		<-signals
		fmt.Println("interrupted")
		select {}
	},
	"partial": func() error {
		_, err := os.Stdout.WriteString("no end")
		return err
	},
}

func joined(ctx context.Context) (*world.Group, error) {
	place, err := world.Detect()
	if err != nil {
		return nil, err
	}
	return world.Join(ctx, place, world.GroupConfig{})
}

// lose runs end on rank 1; the others report the error that they get, then wait to be ended.
func lose(end func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	g, err := joined(ctx)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if err := g.Barrier(ctx); err != nil {
		return err
	}
	if g.Rank() == 1 {
		end()
	}
	err = g.Barrier(ctx)
	fmt.Println("rank 1 lost:", errors.Is(err, world.ErrRankLost) && strings.Contains(err.Error(), "rank 1"))
	fmt.Println("ended by", <-signals)
	return nil
}

// output is a writer that tests read while the job runs.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan string
}

func newOutput() *output { return &output{lines: make(chan string, 1000)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	o.lines <- strings.TrimSuffix(string(p), "\n") // launch writes line by line
	return len(p), nil
}

func (o *output) sorted() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(o.text.String(), "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// launch runs the test binary in a role.
func launch(t *testing.T, role string, o options, signals <-chan os.Signal, out, errs io.Writer) int {
	t.Helper()
	if o.nodes == 0 {
		o.nodes = 1
	}
	if o.grace == 0 {
		o.grace = 20 * time.Second
	}
	t.Setenv("TMPDIR", t.TempDir()) // of flight records
	program, err := os.Executable()
	require.NoError(t, err)
	o.command = []string{program}
	t.Setenv(roleVariable, role)
	status, err := run(o, os.LookupEnv, signals, out, errs)
	require.NoError(t, err)
	return status
}

func TestGather(t *testing.T) {
	out, errs := newOutput(), newOutput()
	status := launch(t, "gather", options{perNode: 4}, nil, out, errs)
	require.Zero(t, status, errs.text.String())
	var want []string
	for rank := range 4 {
		want = append(want, fmt.Sprintf("[%d] rank %d of 4: [0 1 2 3]", rank, rank))
	}
	assert.Equal(t, want, out.sorted())
	assert.Empty(t, errs.text.String())
}

// Two launches with one address form one job.
func TestNodes(t *testing.T) {
	master := freeport.Free(t)
	program, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(roleVariable, "gather")
	t.Setenv(world.EnvSecret, "of both hosts")
	out := newOutput()
	var wg sync.WaitGroup
	for node := range 2 {
		o := options{perNode: 2, nodes: 2, node: node, master: master, grace: time.Second, command: []string{program}}
		wg.Go(func() {
			status, err := run(o, os.LookupEnv, nil, out, out)
			assert.NoError(t, err)
			assert.Zero(t, status)
		})
	}
	wg.Wait()
	assert.Equal(t, []string{"[0] rank 0 of 4: [0 1 0 1]", "[1] rank 1 of 4: [0 1 0 1]", "[2] rank 2 of 4: [0 1 0 1]", "[3] rank 3 of 4: [0 1 0 1]"}, out.sorted())
}

func TestRankFails(t *testing.T) {
	for role, c := range map[string]struct {
		status int
		text   string
	}{"fail": {3, "launch: rank 1 exited with status 3; ending the others"}, "die": {128 + 9, "launch: rank 1 was killed (signal: killed); ending the others"}} {
		out, errs := newOutput(), newOutput()
		assert.Equal(t, c.status, launch(t, role, options{perNode: 3}, nil, out, errs))
		assert.Equal(t, []string{"[0] ended by terminated", "[0] rank 1 lost: true", "[2] ended by terminated", "[2] rank 1 lost: true"}, out.sorted())
		assert.Contains(t, errs.text.String(), c.text)
	}
}

// TestEarlyEnd: a rank that ends before the ranks have met is named with its last lines, and the others,
// which would look for it for long, are ended.
func TestEarlyEnd(t *testing.T) {
	out, errs := newOutput(), newOutput()
	require.Equal(t, 7, launch(t, "early", options{perNode: 3, settle: time.Millisecond}, nil, out, errs))
	require.NotContains(t, errs.text.String(), "killing ")
	require.Contains(t, errs.text.String(), "launch: rank 1 exited with status 7; ending the others. Its last lines:\n"+
		"  trouble 3\n  trouble 4\n  trouble 5\n  trouble 6\n  no device\n")
	out, errs = newOutput(), newOutput()
	require.Equal(t, 8, launch(t, "mute", options{perNode: 1}, nil, out, errs))
	require.Equal(t, "launch: rank 0 exited with status 8. Its last lines:\n  printed\n", errs.text.String())
}

// TestRestarts: a job whose ranks fail starts again, with growing pauses, until it succeeds or -restarts is used up.
func TestRestarts(t *testing.T) {
	t.Setenv("LAUNCH_TEST_RUNS", t.TempDir())
	out, errs := newOutput(), newOutput()
	require.Zero(t, launch(t, "flaky", options{perNode: 2, restarts: 3, pause: time.Millisecond, settle: time.Minute}, nil, out, errs), errs.text.String())
	text := errs.text.String()
	require.Contains(t, text, "launch: restart 1 of 3 in 1ms\n")
	require.Contains(t, text, "launch: restart 2 of 3 in 2ms\n")
	require.NotContains(t, text, "restart 3")
	runs, err := os.ReadDir(os.Getenv("LAUNCH_TEST_RUNS"))
	require.NoError(t, err)
	require.Len(t, runs, 3)

	out, errs = newOutput(), newOutput()
	require.Equal(t, 8, launch(t, "mute", options{perNode: 1, restarts: 2, pause: time.Millisecond}, nil, out, errs))
	require.Equal(t, "[0] printed\n[0] printed\n[0] printed\n", out.text.String())
}

// TestNoRestart: ranks that were asked to end are not started again, nor is a job that is interrupted in a pause.
func TestNoRestart(t *testing.T) {
	out, errs, signals := newOutput(), newOutput(), make(chan os.Signal, 2)
	ended := make(chan int)
	go func() {
		ended <- launch(t, "terminate", options{perNode: 2, restarts: 2, pause: time.Hour}, signals, out, errs)
	}()
	<-out.lines
	<-out.lines // both are ready
	signals <- syscall.SIGTERM
	require.Equal(t, 1, <-ended)
	require.NotContains(t, errs.text.String(), "restart")

	out, errs = newOutput(), newOutput()
	go func() {
		ended <- launch(t, "mute", options{perNode: 1, restarts: 2, pause: time.Hour}, signals, out, errs)
	}()
	for line := ""; line != "launch: restart 1 of 2 in 1h0m0s"; {
		line = <-errs.lines
	}
	signals <- os.Interrupt
	require.Equal(t, 8, <-ended)
}

// TestSurvivorsTell: the errors of the other ranks are shown, without a request to end, and where
// their flight records are.
func TestSurvivorsTell(t *testing.T) {
	out, errs := newOutput(), newOutput()
	const settle = 10 * time.Minute
	began := time.Now()
	require.NotZero(t, launch(t, "report", options{perNode: 3, settle: settle}, nil, out, errs))
	require.Less(t, time.Since(began), settle/2, "they ended by themselves")
	for _, rank := range []string{"[0] ", "[2] "} {
		assert.True(t, slices.ContainsFunc(errs.sorted(), func(line string) bool {
			return strings.HasPrefix(line, rank) && strings.Contains(line, "a rank was lost: rank 1")
		}), errs.text.String())
	}
	assert.Regexp(t, `launch: 1 flight records: npuinfo -flight \S+/cann-flight-\d+\n`, errs.text.String())
}

func TestStalledRank(t *testing.T) {
	out, errs := newOutput(), newOutput()
	assert.Equal(t, 1, launch(t, "stall", options{perNode: 3, grace: 4 * time.Second}, nil, out, errs))
	for _, rank := range []string{"[0] ", "[2] "} {
		assert.True(t, slices.ContainsFunc(errs.sorted(), func(line string) bool {
			return strings.HasPrefix(line, rank) && strings.HasSuffix(line, "not all ranks came in time: rank 1: context deadline exceeded")
		}), errs.text.String())
	}
	assert.Contains(t, errs.text.String(), "killing 1 of 3 ranks")
}

func TestStubbornRanks(t *testing.T) {
	out, errs := newOutput(), newOutput()
	assert.Equal(t, 4, launch(t, "stubborn", options{perNode: 3, grace: 100 * time.Millisecond}, nil, out, errs))
	assert.Equal(t, []string{"launch: killing 2 of 3 ranks that did not end within 100ms", "launch: rank 1 exited with status 4; ending the others"}, errs.sorted())
}

func TestSignals(t *testing.T) {
	out, errs := newOutput(), newOutput()
	signals := make(chan os.Signal)
	go func() {
		for range 2 {
			<-out.lines
		}
		signals <- syscall.SIGUSR1
	}()
	assert.Zero(t, launch(t, "signal", options{perNode: 2}, signals, out, errs))
	assert.Equal(t, []string{"[0] got user defined signal 1", "[0] ready", "[1] got user defined signal 1", "[1] ready"}, out.sorted())
}

// TestTerminate: a request to end reaches the ranks once, even if one of them ends before the others.
func TestTerminate(t *testing.T) {
	out, errs := newOutput(), newOutput()
	signals := make(chan os.Signal)
	go func() {
		for range 2 {
			<-out.lines
		}
		signals <- syscall.SIGTERM
	}()
	require.Equal(t, 1, launch(t, "terminate", options{perNode: 2, settle: time.Millisecond}, signals, out, errs))
	require.Contains(t, out.text.String(), "[1] requested once")
}

func TestSecondInterrupt(t *testing.T) {
	out, errs := newOutput(), newOutput()
	signals := make(chan os.Signal)
	go func() {
		for range 2 { // once when all are ready, once when all have taken the first
			<-out.lines
			<-out.lines
			signals <- os.Interrupt
		}
	}()
	assert.Equal(t, 128+9, launch(t, "interrupt", options{perNode: 2}, signals, out, errs))
	assert.Contains(t, errs.text.String(), "second interrupt")
}

func TestPartialLine(t *testing.T) {
	out := newOutput()
	assert.Zero(t, launch(t, "partial", options{perNode: 1}, nil, out, out))
	assert.Equal(t, "[0] no end\n", out.text.String())
}

func TestProgramMissing(t *testing.T) {
	o := options{perNode: 2, nodes: 1, grace: time.Second, command: []string{"./no such program"}}
	status, err := run(o, os.LookupEnv, nil, io.Discard, io.Discard)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, 127, status)
}

func TestLineWriter(t *testing.T) {
	var out bytes.Buffer
	w := &lineWriter{to: &out, lock: new(sync.Mutex), prefix: "> "}
	for _, s := range []string{"a", "b\nc\n", "", "\n", "d"} {
		n, err := w.Write([]byte(s))
		require.NoError(t, err)
		require.Equal(t, len(s), n)
	}
	assert.Equal(t, "> ab\n> c\n> \n", out.String())
	w.flush()
	w.flush()
	assert.Equal(t, "> ab\n> c\n> \n> d\n", out.String())
	out.Reset()
	w.Write(bytes.Repeat([]byte("x"), maxLine+1))
	w.flush()
	assert.Equal(t, "> "+strings.Repeat("x", maxLine)+"\n> x\n", out.String())
}

func TestFlags(t *testing.T) {
	pod := map[string]string{"RANK": "1", "WORLD_SIZE": "16", "LOCAL_RANK": "0,1,2,3,4,5,6,7", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "svc", "MASTER_PORT": "2222"}
	lookup := func(vars map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			s, ok := vars[name]
			return s, ok
		}
	}
	o, err := parseFlags([]string{"--", "prog", "-x"}, lookup(pod), io.Discard)
	require.NoError(t, err)
	assert.Equal(t, options{perNode: 8, nodes: 2, node: 1, master: "svc:2222", grace: 30 * time.Second, settle: 3 * time.Second, pause: time.Second, watchdog: 10 * time.Minute, command: []string{"prog", "-x"}}, o)
	o, err = parseFlags([]string{"-n", "2", "prog"}, lookup(nil), io.Discard)
	require.NoError(t, err)
	vars, err := o.variables(lookup(nil))
	require.NoError(t, err)
	assert.Contains(t, vars, "WORLD_SIZE=2")
	assert.Contains(t, vars, "MASTER_ADDR=127.0.0.1")
	assert.True(t, slices.ContainsFunc(vars, func(s string) bool { return strings.HasPrefix(s, world.EnvSecret+"=") }))
	for _, args := range [][]string{{}, {"-n", "2"}, {"prog"}, {"-n", "-1", "prog"}, {"-n", "1", "-restarts", "-1", "prog"}, {"-n", "1", "-nodes", "2", "prog"}, {"-n", "1", "-nodes", "2", "-node", "2", "-master", "h:1", "prog"}, {"-n", "1", "-master", "h", "prog"}, {"-n", "1", "-master", "127.0.0.1:0", "prog"}, {"-n", "1", "-master", ":29500", "prog"}, {"-n", "1", "-master", "h:65536", "prog"}, {"-n", "1", "-master", "h:http", "prog"}, {"-x"}} {
		_, err := parseFlags(args, lookup(nil), io.Discard)
		require.Error(t, err, args)
	}
	_, err = parseFlags([]string{"prog"}, lookup(map[string]string{"MS_NODE_RANK": "0"}), io.Discard)
	require.ErrorIs(t, err, world.ErrEnvironment)
}

// TestSamples checks the commands in the help text; the last one is for a pod of the
// ascend-operator.
func TestSamples(t *testing.T) {
	pod := map[string]string{"RANK": "0", "WORLD_SIZE": "8", "LOCAL_RANK": "0,1,2,3,4,5,6,7", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "svc", "MASTER_PORT": "2222"}
	for _, s := range samples {
		_, flags, _ := strings.Cut(s, "/launch")
		o, err := parseFlags(strings.Fields(flags), func(name string) (string, bool) { return pod[name], true }, t.Output())
		require.NoError(t, err, s)
		require.Equal(t, 8, o.perNode, s)
		require.Equal(t, "./trainstep", o.command[0], s)
	}
}
