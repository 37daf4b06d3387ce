package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
)

// TestRestarts: jobs under launch -restarts, of which a rank is killed in the first steps and again after the restart, make the losses of an undisturbed run, bit by bit.
// TRAINSTEP_TEST_KILLS is how often a rank is killed in each layout, twice at least.
func TestRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	acltest.Need(t)
	kills := 2
	if text := os.Getenv(envKills); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		kills = max(n, kills)
	}
	launcher := filepath.Join(t.TempDir(), "launch")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", launcher, "../launch").CombinedOutput()
	require.NoError(t, err, string(out))
	rng := rand.New(rand.NewPCG(4, uint64(time.Now().UnixNano())))
	for layout, flags := range map[string][]string{"fsdp": {"-fsdp"}, "pp": {"-pp", "2", "-micro", "2", "-distributed-optimizer"}} {
		t.Run(layout, func(t *testing.T) {
			flags := smallFlags(append(flags, "-steps", "40", "-layers", "2", "-save-every", "3")...)
			dir := t.TempDir()
			reference := filepath.Join(dir, "reference.jsonl")
			trained(t, append(flags, "-ranks", "2", "-save", filepath.Join(dir, "reference"), "-log", reference)...)
			want := losses(t, reference)
			require.Len(t, want, 40)
			met := 0
			for job := 0; job < kills; job += 2 {
				own := filepath.Join(dir, fmt.Sprint("job", job))
				log := filepath.Join(own, "log.jsonl")
				c := exec.CommandContext(t.Context(), launcher, "-n", "2", "-restarts", "2", "--", os.Args[0])
				c.Env = append(os.Environ(), argumentsVariable+"="+strings.Join(append(flags, "-save", own, "-auto-resume", "-log", log), " "))
				var text bytes.Buffer
				c.Stdout, c.Stderr = &text, &text
				require.NoError(t, c.Start())
				ended := make(chan struct{})
				go func() {
					_ = c.Wait() // its state is asked for below
					close(ended)
				}()
				for kill := range 2 {
					least := kill*12 + 1 + rng.IntN(10)
					for lines(log) < least && !over(ended) {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond) // the moment is what varies
					if ranks := children(c.Process.Pid); len(ranks) > 0 && !over(ended) {
						if syscall.Kill(ranks[rng.IntN(len(ranks))], syscall.SIGKILL) == nil {
							met++
						}
					}
				}
				<-ended
				require.True(t, c.ProcessState.Success(), text.String())
				require.Equal(t, want, losses(t, log), text.String())
			}
			t.Logf("%d kills", met)
		})
	}
}

// over reports whether a channel is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lines returns the number of lines of a log.
func lines(path string) int {
	content, _ := os.ReadFile(path) // there may be none yet
	return bytes.Count(content, []byte("\n"))
}

// children lists the processes that a process has started.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		content, _ := os.ReadFile(list) // of a thread that may have ended
		for _, text := range strings.Fields(string(content)) {
			if child, err := strconv.Atoi(text); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}
