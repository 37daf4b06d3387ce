package api_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
)

// browser returns the path of Chromium, or skips the test.
func browser(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("Chromium is not installed, so the page is not tried in a browser")
	return ""
}

// visit opens the page in a browser until the model has answered, and returns what it shows then.
func (s *server) visit(t *testing.T, at string) string {
	// The page asks for metrics each second of the browser's time, which runs as fast as these are answered.
	return browse(t, s.URL+at, "--virtual-time-budget=100000", "--dump-dom")
}

// browse opens a page in a browser, and returns what the browser prints.
func browse(t *testing.T, address string, options ...string) string {
	args := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir=" + filepath.Join(t.TempDir(), "profile")}, options...)
	out, err := exec.CommandContext(t.Context(), browser(t), append(args, address)...).Output()
	require.NoError(t, err)
	return string(out)
}

// TestPage: the page needs nothing from elsewhere.
func TestPage(t *testing.T) {
	s := start(t, engine.Options{Blocks: 64, BlockSize: 16}, nil)
	status, text := s.get(t, "/")
	require.Equal(t, 200, status)
	require.Contains(t, text, "<title>serve</title>")
	require.NotRegexp(t, `(?i)(src|href)=|https?://|@import|url\(`, text)
	status, _ = s.get(t, "/elsewhere")
	require.Equal(t, 404, status)
}

// TestPageInBrowser: the page chats with the model, and reports what is wrong.
func TestPageInBrowser(t *testing.T) {
	s := start(t, engine.Options{Blocks: 64, BlockSize: 16}, func(c *api.Config) { c.MaxTokens = 20 })
	text := s.visit(t, "/#hello")
	require.Contains(t, text, `<h1 id="model">small</h1>`)
	require.Contains(t, text, `<p class="user">hello</p>`)
	require.Contains(t, text, `data-answers="1"`)
	require.Regexp(t, regexp.MustCompile(`<p class="assistant">[^<]`), text)
	require.NotContains(t, text, `class="error"`)
	require.Equal(t, 20, s.Engine.Stats().GeneratedTokens)
	require.Regexp(t, `id="speeds" points="\d+,[\d.]+ \d+,`, text)

	locked := start(t, engine.Options{Blocks: 4, BlockSize: 16}, func(c *api.Config) { c.Keys = []string{"secret"} })
	text = locked.visit(t, "/#hello")
	require.Contains(t, text, "this server needs a key")
	require.Contains(t, text, `class="error"`)
}
