package job_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/job"
)

// TestWatchingFlags: the variables that launch sets are the defaults of the flags.
func TestWatchingFlags(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 10 * time.Minute, "5s": 5 * time.Second, "0": 0} {
		t.Setenv(job.EnvWatchdog, text)
		t.Setenv(job.EnvFlight, "records")
		var w job.Watching
		f := flag.NewFlagSet("", flag.ContinueOnError)
		require.NoError(t, w.Flags(f))
		require.NoError(t, f.Parse(nil))
		require.Equal(t, job.Watching{Limit: want, Flight: "records"}, w)
		require.NoError(t, f.Parse([]string{"-watchdog", "3m", "-flight", ""}))
		require.Equal(t, job.Watching{Limit: 3 * time.Minute}, w)
	}
	for _, text := range []string{"soon", "-1s", "5"} {
		t.Setenv(job.EnvWatchdog, text)
		require.ErrorContains(t, new(job.Watching).Flags(flag.NewFlagSet("", flag.ContinueOnError)), job.EnvWatchdog)
	}
}
