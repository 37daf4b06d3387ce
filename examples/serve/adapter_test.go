package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/testing/golden"
)

// ask sends a request and returns the status and the answer.
func (p program) ask(t *testing.T, method, path, body string) (status int, answer string) {
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	require.NoError(t, err)
	client := new(http.Client)
	defer client.CloseIdleConnections()
	got, err := client.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, got.Body.Close()) }()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, string(text)
}

// TestAdapters: the adapters of a folder are models, and clients load and unload others.
func TestAdapters(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(folder, "fox"), os.DirFS(filepath.Join(dir, "lora", "qwen3_peft", "a"))))
	p := begin(t, "-model", filepath.Join(dir, "hub", "qwen3"), "-adapters", folder, "-adapter-slots", "2")
	require.NoError(t, os.CopyFS(filepath.Join(folder, "later"), os.DirFS(filepath.Join(folder, "fox"))))
	models := func() (names []string) {
		_, text := p.ask(t, http.MethodGet, "/v1/models", "")
		var list struct{ Data []struct{ ID, Parent string } }
		require.NoError(t, json.Unmarshal([]byte(text), &list))
		for _, m := range list.Data {
			names = append(names, m.ID+"<"+m.Parent)
		}
		return names
	}
	require.Equal(t, []string{"qwen3<", "fox<qwen3"}, models())
	say := func(model string) string {
		status, text := p.ask(t, http.MethodPost, "/v1/completions", `{"model":"`+model+`","prompt":[5,6,7],"max_tokens":12,"temperature":0}`)
		require.Equal(t, 200, status, text)
		var answer struct {
			Model   string
			Choices []struct{ Text string }
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		require.Equal(t, model, answer.Model)
		return answer.Choices[0].Text
	}
	plain, adapted := say("qwen3"), say("fox")
	require.NotEqual(t, plain, adapted)
	for _, c := range []struct {
		path, body string
		status     int
		text       string
	}{
		{"/v1/load_lora_adapter", `{"lora_name":"later"}`, 200, `"parent":"qwen3"`},
		{"/v1/load_lora_adapter", `{"lora_name":"later"}`, 400, "the name is taken"},
		{"/v1/load_lora_adapter", `{"lora_name":"x","lora_path":"../x"}`, 400, "leaves the server's folder"},
		{"/v1/load_lora_adapter", `{"lora_name":"qwen3","lora_path":"fox"}`, 400, "the model's"},
		{"/v1/load_lora_adapter", `{"lora_name":"more","lora_path":"fox"}`, 400, "all 2 slots are taken"},
		{"/v1/embeddings", `{"model":"fox","input":[5,6]}`, 404, "model_not_found"},
		{"/v1/unload_lora_adapter", `{"lora_name":"fox"}`, 200, `"deleted":true`},
		{"/v1/unload_lora_adapter", `{"lora_name":"fox"}`, 404, "model_not_found"},
		{"/v1/load_lora_adapter", `{"lora_name":"none"}`, 400, "adapter: stat none/adapter_config.json: no such file"},
		{"/v1/load_lora_adapter", `{"lora_name":"x","lora_path":"fox/.."}`, 400, "it is the server's folder"},
		{"/v1/completions", `{"model":"fox","prompt":[5]}`, 404, "model_not_found"},
	} {
		status, text := p.ask(t, http.MethodPost, c.path, c.body)
		require.Equal(t, c.status, status, text)
		require.Contains(t, text, c.text)
		require.NotContains(t, text, folder)
	}
	require.Equal(t, []string{"qwen3<", "later<qwen3"}, models())
	require.Equal(t, adapted, say("later"))
	require.Equal(t, plain, say("qwen3"))
	require.NoError(t, p.stop())
}
