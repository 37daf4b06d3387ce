package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/checkpoint"
)

// envKills is how many runs TestKills kills in each layout, 1 by default.
const envKills = "TRAINSTEP_TEST_KILLS"

// TestKills: ranks that are killed at any moment of a training that saves all the time leave a
// complete checkpoint of one step, as an undisturbed run makes it, and the training that goes on
// from it ends with the same weights and moments, bit by bit.
func TestKills(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	acltest.Need(t)
	kills := 1
	if text := os.Getenv(envKills); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	const steps = 25
	rng := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
	samples := questions(t, `{"prompt": "square of %d: ", "response": "%d"}`)
	for layout, flags := range map[string][]string{"tp2": {"-tp", "2"}, "dp2": nil, "fsdp": {"-fsdp"}, "samples": {"-fsdp", "-data", samples}} {
		t.Run(layout, func(t *testing.T) {
			flags := smallFlags(append(flags, "-steps", strconv.Itoa(steps), "-save-every", "1", "-hidden", "128")...)
			reference := t.TempDir()
			trained(t, append(flags, "-ranks", "2", "-save", reference, "-keep", "1000")...)
			want := map[int]string{}
			for step := 1; step <= steps; step++ {
				all, err := filepath.Glob(filepath.Join(reference, fmt.Sprintf("step-%08d-*", step)))
				require.NoError(t, err)
				require.Len(t, all, 1)
				want[step] = sums(t, all[0])
			}
			began := time.Now()
			succeed(t, startRanks(t, 2, append(flags, "-save", t.TempDir())))
			whole := time.Since(began)
			met := 0
			for range kills {
				dir := t.TempDir()
				ranks := startRanks(t, 2, append(flags, "-save", dir, "-keep", "2"))
				time.Sleep(time.Duration(rng.Float64() * float64(whole))) // the moment is what varies
				victim := rng.IntN(3)
				for i, r := range ranks {
					if victim == i || victim == 2 {
						send(t, r.Process, syscall.SIGKILL)
					}
					// A rank that has not found the other yet would look for it for long.
					defer time.AfterFunc(10*time.Second, func() { _ = r.Process.Kill() }).Stop()
				}
				for _, r := range ranks {
					_ = r.Wait()
				}
				again := append(flags, "-ranks", "2", "-save", dir, "-keep", "2")
				set, err := checkpoint.Open(dir)
				if !errors.Is(err, checkpoint.ErrNone) {
					met++
					require.NoError(t, err)
					require.Equal(t, want[set.About().Step], sums(t, set.Path()), "step %d", set.About().Step)
					require.NoError(t, set.Close())
					again = append(again, "-resume", dir)
				}
				if set != nil && set.About().Step == steps {
					continue
				}
				trained(t, again...)
				set, err = checkpoint.Open(dir)
				require.NoError(t, err)
				require.Equal(t, steps, set.About().Step)
				require.Equal(t, want[steps], sums(t, set.Path()))
				require.NoError(t, set.Close())
				left, err := filepath.Glob(filepath.Join(dir, "step-*"))
				require.NoError(t, err)
				require.Len(t, left, 2, "leftovers")
			}
			t.Logf("%d kills, %d after the first checkpoint", kills, met)
		})
	}
}

// sums are the checksums of a checkpoint's tensors.
func sums(t *testing.T, folder string) string {
	content, err := os.ReadFile(filepath.Join(folder, "manifest.json"))
	require.NoError(t, err)
	_, body, _ := bytes.Cut(content, []byte("\n"))
	var manifest struct {
		Files []struct{ Tensors json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(body, &manifest))
	return fmt.Sprintf("%s", manifest.Files)
}
