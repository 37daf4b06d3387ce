package api_test

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	screenshot = flag.String("screenshot", "", "`file` for a picture of the page of a server that runs (PNG)")
	pictured   = flag.String("page", "", "`address` for -screenshot, with what to say after /#")
)

// TestScreenshot takes the picture of the README, while the server answers others as well:
//
//	go run -tags emu ./examples/serve -train-steps 1200
//	go test -tags emu ./examples/serve/api -run Screenshot -screenshot ../page.png -page 'http://127.0.0.1:8080/#func%20main'
func TestScreenshot(t *testing.T) {
	if *screenshot == "" {
		t.Skip("a picture is taken with -screenshot only")
	}
	root, said, _ := strings.Cut(*pictured, "#")
	for range 4 {
		go func() {
			body := strings.NewReader(`{"model":"small","prompt":"func ","max_tokens":4000}`)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, root+"v1/completions", body)
			if err == nil {
				_, _ = http.DefaultClient.Do(r) // the test ends before it does
			}
		}()
	}
	// A browser takes a picture when a page and all that belongs to it have come. To this page belongs an image
	// that does not come before the server has generated some tokens.
	begun := generated(t, root)
	server, err := url.Parse(root)
	require.NoError(t, err)
	page, err := os.ReadFile("page.html")
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", httputil.NewSingleHostReverseProxy(server))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(append(page, `<img hidden src="later">`...))
	})
	mux.HandleFunc("GET /later", func(http.ResponseWriter, *http.Request) {
		for generated(t, root) < begun+3000 {
			time.Sleep(50 * time.Millisecond)
		}
	})
	web := httptest.NewServer(mux)
	defer web.Close()
	file, err := filepath.Abs(*screenshot)
	require.NoError(t, err)
	browse(t, web.URL+"/#"+said, "--window-size=640,640", "--screenshot="+file)
}

// generated returns how many tokens a server has generated.
func generated(t *testing.T, root string) int {
	answer, err := http.Get(root + "metrics")
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	found := regexp.MustCompile(`(?m)^vllm:generation_tokens_total\{.*\} (.*)$`).FindSubmatch(text)
	require.NotNil(t, found)
	n, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return int(n)
}
