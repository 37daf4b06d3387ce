package public

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// published publishes the module as it is now on a module proxy of its own, and returns the
// variables with which the go command uses it: the user of a release gets the same files in the
// same way. Other modules come from the module cache of this machine.
func published(t testing.TB) []string {
	proxy := t.TempDir()
	dir := filepath.Join(proxy, filepath.FromSlash(modulePath), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	writeZip(t, filepath.Join(dir, version+".zip"), tracked(t))
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	require.NoError(t, err)
	for name, data := range map[string]string{"list": version + "\n", version + ".info": string(info), version + ".mod": text(t, "go.mod")} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	cache := strings.TrimSpace(command(t, ".", nil, "go", "env", "GOMODCACHE"))
	usual := strings.TrimSpace(command(t, ".", nil, "go", "env", "GOPROXY"))
	return []string{
		"GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download," + usual,
		"GOMODCACHE=" + t.TempDir(), "GONOSUMDB=" + modulePath,
		"GOFLAGS=" + os.Getenv("GOFLAGS") + " -modcacherw -trimpath",
	}
}

// copied copies a folder of testdata to where a user's module may be.
func copied(t testing.TB, name string) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	return dir
}
