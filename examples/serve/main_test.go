package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/weights"
)

// argumentsVariable makes the test binary run as the program.
const argumentsVariable = "SERVE_TEST_ARGUMENTS"

func TestMain(m *testing.M) {
	if flags := os.Getenv(argumentsVariable); flags != "" {
		os.Args = append([]string{"serve"}, strings.Fields(flags)...)
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// program is a server that runs in the test.
type program struct {
	url  string
	curl string // the command that it prints
	stop func() error
}

// begin runs the program until the test stops it, or ends.
func begin(t *testing.T, flags ...string) program {
	acltest.Need(t)
	if !slices.Contains(flags, "-model") && !slices.Contains(flags, "-train-steps") {
		flags = append(flags, "-train-steps", "1")
	}
	o, err := parseFlags(append([]string{"-listen", "127.0.0.1:0", "-blocks", "16"}, flags...), io.Discard)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, o, in, t.Output())
		in.CloseWithError(io.EOF)
		ended <- err
	}()
	stopped, p := false, invited(t, out)
	p.stop = func() error {
		stopped = true
		cancel()
		err := <-ended
		require.Empty(t, acl.Live())
		return err
	}
	t.Cleanup(func() {
		if !stopped {
			require.NoError(t, p.stop())
		}
	})
	return p
}

// invited waits for what the program prints when it serves.
func invited(t *testing.T, out io.Reader) (p program) {
	text := make([]byte, 1<<12)
	n, err := out.Read(text)
	require.NoError(t, err)
	found := regexp.MustCompile(`(http\S+) serves .*\n(curl .*)\n`).FindStringSubmatch(string(text[:n]))
	require.NotNil(t, found, "%s", text[:n])
	p.url, p.curl = found[1], found[2]
	return p
}

// body returns the body of the command that the program prints.
func (p program) body() string {
	_, rest, _ := strings.Cut(p.curl, "-d '")
	return strings.TrimSuffix(rest, "'")
}

// post sends a request as the printed command does.
func (p program) post(t *testing.T, client *http.Client, key string) (status int, answer string) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, regexp.MustCompile(`http[^ ]+`).FindString(p.curl), strings.NewReader(p.body()))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	defer client.CloseIdleConnections()
	got, err := client.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, got.Body.Close()) }()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, string(text)
}

// TestServes: without a model the program trains one, and what it prints works; on two devices, too.
func TestServes(t *testing.T) {
	for kind, flags := range map[string][]string{"qwen3": nil, "qwen3_next": nil, "qwen3_5_text": {"-quant", "w8a8", "-dtype", "bf16", "-cache", "int8", "-graph"}, "qwen3_moe": {"-tp", "2", "-graph"}} {
		t.Run(kind, func(t *testing.T) {
			p := begin(t, append(flags, "-type", kind, "-pprof")...)
			status, text := p.post(t, new(http.Client), "")
			require.Equal(t, 200, status, text)
			var answer struct {
				Model   string
				Choices []struct{ Text string }
				Usage   struct {
					Tokens int `json:"completion_tokens"`
				}
			}
			require.NoError(t, json.Unmarshal([]byte(text), &answer))
			require.Equal(t, "small", answer.Model)
			require.Equal(t, 60, answer.Usage.Tokens)
			require.NoError(t, p.stop())
		})
	}
}

// TestKeys: requests need a key when there are keys; the command says so.
func TestKeys(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("one\ntwo\n"), 0o600))
	t.Setenv("SERVE_KEYS", keys)
	t.Setenv("SERVE_NAME", "mine")
	p := begin(t)
	require.Contains(t, p.curl, `-H "Authorization: Bearer KEY"`)
	require.Contains(t, p.body(), `"model":"mine"`)
	status, text := p.post(t, new(http.Client), "two")
	require.Equal(t, 200, status, text)
	status, _ = p.post(t, new(http.Client), "three")
	require.Equal(t, 401, status)
}

// TestEndsInTime: requests that outlast the drain end with an error, and the program says so.
func TestEndsInTime(t *testing.T) {
	p := begin(t, "-drain", "1ms", "-max-length", "2000")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/completions", strings.NewReader(`{"model":"small","prompt":"a","max_tokens":1900,"stream":true}`))
	require.NoError(t, err)
	client := new(http.Client)
	defer client.CloseIdleConnections()
	got, err := client.Do(r)
	require.NoError(t, err)
	require.Equal(t, 200, got.StatusCode)
	require.ErrorContains(t, p.stop(), "after -drain 1ms some requests had not ended")
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	require.Contains(t, string(text), "the server is shutting down")
}

// TestInvitation: an address for all networks is one that a browser can open.
func TestInvitation(t *testing.T) {
	l, err := language.Load("", weights.Bytes)
	require.NoError(t, err)
	o := options{api: api.Config{Model: "small", Language: l}}
	for address, want := range map[string]string{"[::]:80": "http://127.0.0.1:80 ", "0.0.0.0:80": "http://127.0.0.1:80 ", "10.0.0.7:80": "http://10.0.0.7:80 "} {
		at, err := net.ResolveTCPAddr("tcp", address)
		require.NoError(t, err)
		var out bytes.Buffer
		o.invite(&out, at, model.Config{})
		require.True(t, strings.HasPrefix(out.String(), want), out.String())
	}
}

func TestBadFlags(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for text, flags := range map[string][]string{
		"-train-steps 0": {"-train-steps", "0"}, `-type "gpt2"`: {"-type", "gpt2"}, `"fp8" for flag -dtype`: {"-dtype", "fp8"}, `"w4" for flag -quant`: {"-quant", "w4"}, "needs -dtype bf16": {"-quant", "w8a8"}, "go together": {"-tls-cert", "x"}, "-adapter-rank needs": {"-adapter-rank", "8"}, "-adapter needs": {"-adapter", "x"}, "-adapters needs": {"-adapters", "x"}, "in two replicas": {"-device", "0,1", "-tp", "2"}, "-adapter-slots 0": {"-model", "x", "-adapters", "y", "-adapter-slots", "0"},
		"not defined": {"-nonsense"}, "unknown argument": {"text"}, "has no keys": {"-keys", empty}, "no such file": {"-keys", "none"},
	} {
		_, err := parseFlags(flags, new(bytes.Buffer))
		require.ErrorContains(t, err, text, "%v", flags)
	}
	for text, flags := range map[string][]string{
		"-trace-calls needs": {"-trace-calls", "-train-steps", "1"}, "qwen3_moe, qwen3_next": {"-model", "none"}, "device 99": {"-device", "99"}, "MaxLength is 1": {"-max-length", "1"}, "listen": {"-listen", "nowhere:-1", "-train-steps", "1"},
	} {
		acltest.Need(t)
		o, err := parseFlags(flags, io.Discard)
		require.NoError(t, err)
		require.ErrorContains(t, run(t.Context(), o, io.Discard, io.Discard), text, "%v", flags)
		require.Empty(t, acl.Live())
	}
	t.Setenv("SERVE_QUEUE", "many")
	_, err := parseFlags(nil, io.Discard)
	require.ErrorContains(t, err, `SERVE_QUEUE="many"`)
}

// TestSamples checks the commands in the help text.
func TestSamples(t *testing.T) {
	for _, s := range samples[:2] {
		_, flags, _ := strings.Cut(s, "/serve")
		_, err := parseFlags(strings.Fields(flags), t.Output())
		require.NoError(t, err, s)
	}
}
