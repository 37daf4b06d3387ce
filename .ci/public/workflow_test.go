package public

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// lintWorkflow checks a workflow of GitHub Actions.
func lintWorkflow(t testing.TB, name, content string) {
	var out bytes.Buffer
	l, err := actionlint.NewLinter(&out, &actionlint.LinterOptions{Shellcheck: "", Pyflakes: ""})
	require.NoError(t, err)
	problems, err := l.Lint(name, []byte(content), nil)
	require.NoError(t, err)
	assert.Empty(t, problems, out.String())
}

// TestWorkflows: the workflows of this repository are right as far as can be told from here.
func TestWorkflows(t *testing.T) {
	n := 0
	for _, name := range tracked(t) {
		if filepath.Dir(name) == filepath.FromSlash(".github/workflows") {
			lintWorkflow(t, name, text(t, name))
			n++
		}
	}
	assert.Positive(t, n)
	broken := strings.Replace(text(t, ".github/workflows/check.yml"), "runs-on:", "run-on:", 1)
	l, err := actionlint.NewLinter(new(bytes.Buffer), &actionlint.LinterOptions{})
	require.NoError(t, err)
	problems, err := l.Lint("broken.yml", []byte(broken), nil)
	require.NoError(t, err)
	assert.NotEmpty(t, problems)
}

// template is the README's workflow for projects that use the module.
func template(t testing.TB) string {
	blocks := blocksOf(t, "README.md", "yaml")
	require.Len(t, blocks, 1, "the README has one workflow")
	return blocks[0].text
}

// TestTemplate: the README's workflow is a right one, and short. TestOutside runs its commands.
func TestTemplate(t *testing.T) {
	lintWorkflow(t, ".github/workflows/test.yml", template(t))
	assert.LessOrEqual(t, strings.Count(template(t), "\n"), 10)
	assert.NotEmpty(t, templateCommands(t))
}

// templateCommands are the scripts of the README's workflow.
func templateCommands(t testing.TB) []string {
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Run string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(template(t)), &workflow))
	require.Len(t, workflow.Jobs, 1)
	var scripts []string
	for _, job := range workflow.Jobs {
		for _, step := range job.Steps {
			if step.Run != "" {
				scripts = append(scripts, step.Run)
			}
		}
	}
	return scripts
}

// TestIssueForms: every form of an issue has what GitHub asks of one.
func TestIssueForms(t *testing.T) {
	n := 0
	for _, name := range tracked(t) {
		if filepath.Dir(name) != filepath.FromSlash(".github/ISSUE_TEMPLATE") || filepath.Base(name) == "config.yml" {
			continue
		}
		n++
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label, Value string }
			}
		}
		decoder := yaml.NewDecoder(strings.NewReader(text(t, name)))
		decoder.KnownFields(false)
		require.NoError(t, decoder.Decode(&form), name)
		assert.NotEmpty(t, form.Name, name)
		assert.NotEmpty(t, form.Description, name)
		require.NotEmpty(t, form.Body, name)
		seen := make(map[string]bool)
		for _, field := range form.Body {
			assert.Contains(t, []string{"markdown", "textarea", "input", "dropdown", "checkboxes"}, field.Type, name)
			if field.Type == "markdown" {
				assert.NotEmpty(t, field.Attributes.Value, name)
				continue
			}
			assert.NotEmpty(t, field.Attributes.Label, name)
			assert.False(t, seen[field.ID], "%s: %s is there twice", name, field.ID)
			seen[field.ID] = true
		}
	}
	assert.Positive(t, n)
}
