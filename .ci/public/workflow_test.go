package public

import (
	"bytes"
	"path/filepath"
	"regexp"
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

// TestWorkflows: the workflows of this repository are right as far as a linter sees.
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

var action = regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.*)$`)

// TestActionsArePinned: a workflow names the actions of others by commit, since a tag may come to mean other code.
func TestActionsArePinned(t *testing.T) {
	n := 0
	for _, name := range tracked(t) {
		if !strings.HasPrefix(name, ".github/workflows/") {
			continue
		}
		for _, m := range action.FindAllStringSubmatch(text(t, name), -1) {
			assert.Regexp(t, `^[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`, m[1], name)
			n++
		}
	}
	assert.Positive(t, n)
}

// TestDependabot: it looks after every module that requires others, and after the workflows.
func TestDependabot(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text(t, ".github/dependabot.yml")), &config))
	var watched, ecosystems, modules []string
	for _, u := range config.Updates {
		ecosystems = append(ecosystems, u.Ecosystem)
		if u.Ecosystem == "gomod" {
			watched = append(watched, u.Directories...)
		}
	}
	for _, name := range tracked(t) {
		if filepath.Base(name) == "go.mod" && strings.Contains(text(t, name), "\nrequire ") {
			modules = append(modules, filepath.Join("/", filepath.Dir(name)))
		}
	}
	assert.ElementsMatch(t, modules, watched)
	assert.ElementsMatch(t, []string{"gomod", "github-actions"}, ecosystems)
}

// template is the README's workflow for projects that use the module.
func template(t testing.TB) string {
	blocks := blocksOf(t, "README.md", "yaml")
	require.Len(t, blocks, 1, "the README has one workflow")
	return blocks[0].text
}

// TestTemplate: the README's workflow is a right one. TestOutside runs its commands.
func TestTemplate(t *testing.T) {
	lintWorkflow(t, ".github/workflows/test.yml", template(t))
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
