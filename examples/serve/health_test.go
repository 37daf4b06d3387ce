package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
)

// get returns the status and the text of a path.
func (p program) get(t *testing.T, path string) (status int, text string) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
	require.NoError(t, err)
	client := new(http.Client)
	defer client.CloseIdleConnections()
	got, err := client.Do(r)
	require.NoError(t, err)
	b, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	return got.StatusCode, string(b)
}

// shows waits until the text of a path has some text, and returns the status.
func (p program) shows(t *testing.T, path, want string) (status int) {
	text := ""
	require.Eventually(t, func() bool {
		status, text = p.get(t, path)
		return strings.Contains(text, want)
	}, time.Minute, 10*time.Millisecond, "%s shows no %s", path, want)
	return status
}

// TestSickDevices: a device with an alarm gets no requests until the alarm is gone, and the metrics report what the
// driver does.
func TestSickDevices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "health")
	if name := os.Getenv("CANN_EMU_HEALTH"); name != "" {
		file = name
	}
	acltest.Rerun(t, func(t *testing.T) {
		say := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
		p := begin(t, "-device", "0,1", "-health", "5ms")
		p.shows(t, "/metrics", "cann_device_temperature_celsius{device=\"1\"} 40\n")
		_, text := p.get(t, "/metrics")
		require.Regexp(t, fmt.Sprintf(`(?m)^cann_device_process_memory_bytes\{device="0",process="%d"\} [1-9]`, os.Getpid()), text)
		require.Regexp(t, `(?m)^cann_device_memory_used_bytes\{device="0"\} [1-9]`, text)
		require.Contains(t, text, "cann_device_ready{device=\"1\"} 1\n")

		say("1 alarm=3 fault=0x80e01801 fault=0x80e01801 uncorrected=2 celsius=91\n")
		require.Equal(t, 200, p.shows(t, "/readyz", "device 1 has the alarm critical: 0x80e01801 multi-bit ECC error"))
		p.shows(t, "/metrics", "cann_device_fault{code=\"0x80e01801\",device=\"1\"} 1\n")
		_, text = p.get(t, "/metrics")
		for _, line := range []string{`ready{device="1"} 0`, `ready{device="0"} 1`, `alarm{device="1"} 3`, `ecc_uncorrected_total{device="1"} 2`, `temperature_celsius{device="1"} 91`} {
			require.Contains(t, text, "cann_device_"+line+"\n")
		}
		status, text := p.post(t, new(http.Client), "")
		require.Equal(t, 200, status, text)

		say("0 alarm=2\n1 alarm=3\n")
		require.Equal(t, 503, p.shows(t, "/readyz", "device 0 has the alarm major"))
		status, text = p.post(t, new(http.Client), "")
		require.Equal(t, 503, status, text)

		say("0 alarm=1\n")
		require.Equal(t, 200, p.shows(t, "/readyz", "ok\n"))
		p.shows(t, "/metrics", "cann_device_ready{device=\"0\"} 1\n")
		p.shows(t, "/metrics", "cann_device_ready{device=\"1\"} 1\n")
		status, text = p.post(t, new(http.Client), "")
		require.Equal(t, 200, status, text)
		require.NoError(t, p.stop())
	}, "CANN_EMU_HEALTH="+file)
}

// TestNoDriver: where the driver reports nothing there are no metrics of it, and the program serves.
func TestNoDriver(t *testing.T) {
	acltest.Faults(t, "dcmi_init=-8255", func(t *testing.T) {
		p := begin(t, "-health", "1ms")
		status, text := p.post(t, new(http.Client), "")
		require.Equal(t, 200, status, text)
		_, text = p.get(t, "/metrics")
		require.NotContains(t, text, "cann_device_temperature")
		require.Contains(t, text, "cann_device_ready{device=\"0\"} 1\n")
		require.NoError(t, p.stop())
	})
}
