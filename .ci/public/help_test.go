package public

import (
	"bytes"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHelp: every program that users run answers -h with its help on standard output and succeeds.
func TestHelp(t *testing.T) {
	list := command(t, repository(t), nil, "go", "list", "-tags", "emu", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./...", "./examples/...")
	folder := t.TempDir()
	programs := 0
	for p := range strings.FieldsSeq(list) {
		if strings.Contains(p, "/internal/") {
			continue
		}
		programs++
		name := path.Base(p)
		t.Run(name, func(t *testing.T) {
			binary := filepath.Join(folder, name)
			command(t, repository(t), nil, "go", "build", "-tags", "emu", "-o", binary, p)
			for _, flag := range []string{"-h", "--help"} {
				var out, complaints bytes.Buffer
				c := exec.Command(binary, flag)
				c.Stdout, c.Stderr = &out, &complaints
				require.NoError(t, c.Run(), complaints.String())
				assert.Empty(t, complaints.String())
				assert.Regexp(t, `(?m)^Usage: `+name+`\b`, out.String())
			}
			unknown := exec.Command(binary, "-no-such-flag")
			out, err := unknown.Output()
			assert.Error(t, err)
			assert.Empty(t, out, "help that nobody has asked for")
		})
	}
	assert.Greater(t, programs, 9)
}
