package public

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// documents lists the repository's Markdown files that people write.
func documents(t testing.TB) []string {
	var names []string
	for _, name := range tracked(t) {
		generated := strings.HasPrefix(filepath.Base(name), "zz_")
		if filepath.Ext(name) == ".md" && !generated && !strings.Contains("/"+name, "/testdata/") {
			names = append(names, name)
		}
	}
	require.Contains(t, names, "README.md")
	return names
}

// block is a fenced block of a document.
type block struct {
	file, language, text string
	line                 int // of its fence
}

// blocksOf lists the fenced blocks of a document in some languages, in order, or all.
func blocksOf(t testing.TB, name string, languages ...string) []block {
	var blocks []block
	var open *block
	for i, line := range strings.Split(text(t, name), "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{file: name, language: language, line: i + 1}
		case fence:
			if len(languages) == 0 || strings.Contains(" "+strings.Join(languages, " ")+" ", " "+open.language+" ") {
				blocks = append(blocks, *open)
			}
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	require.Nil(t, open, "%s: a block has no end", name)
	return blocks
}

// TestBlocks: a block says what it is, so that these tests know how to check it: Go is a whole
// program that runs, sh are commands, yaml is a workflow, text is for eyes only.
func TestBlocks(t *testing.T) {
	for _, name := range documents(t) {
		for _, b := range blocksOf(t, name) {
			assert.Contains(t, []string{"go", "sh", "yaml", "text"}, b.language, "%s:%d", name, b.line)
			if b.language == "yaml" {
				assert.Equal(t, "README.md", name, "a workflow that TestTemplate does not check")
			}
		}
	}
}

// TestPrograms: every Go program of the documents compiles, runs on the emulator, and prints
// what the next block says.
func TestPrograms(t *testing.T) {
	env := published(t)
	programs := 0
	for _, name := range documents(t) {
		blocks := blocksOf(t, name)
		for i, b := range blocks {
			if b.language != "go" {
				continue
			}
			programs++
			dir := t.TempDir()
			write(t, filepath.Join(dir, "main.go"), b.text)
			write(t, filepath.Join(dir, "go.mod"), "module example.com/snippet\n\ngo 1.26.0\n")
			command(t, dir, env, "go", "get", "./...")
			out := command(t, dir, env, "go", "run", "-tags", "emu", ".")
			require.Less(t, i+1, len(blocks), "%s:%d: the output is not shown", name, b.line)
			assert.Equal(t, blocks[i+1].text, out, "%s:%d", name, b.line)
			assert.Equal(t, b.text, command(t, dir, env, "gofmt", "main.go"), "%s:%d", name, b.line)
		}
	}
	assert.Positive(t, programs)
}

var fenced = regexp.MustCompile("(?ms)^```.*?^```$")

var link = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)

// TestLinks: what the documents link to in the repository is there, headings included.
func TestLinks(t *testing.T) {
	files := strings.Join(tracked(t), "\n") + "\n"
	for _, name := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text(t, name), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := name
			if m[1] != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), m[1]))
				assert.True(t, strings.Contains("\n"+files, "\n"+target+"\n") || strings.Contains("\n"+files, "\n"+target+"/"), "%s links to %s", name, m[1])
			}
			if m[2] != "" {
				assert.Contains(t, anchors(text(t, target)), m[2], "%s links to %s", name, m[0])
			}
		}
	}
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors are the names that GitHub gives to the headings of a document.
func anchors(document string) (names []string) {
	for line := range strings.Lines(document) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			name := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			names = append(names, "#"+strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}

var knobName = regexp.MustCompile(`\bCANN_[A-Z0-9_]+`)

// TestKnobs: the tables of knobs list the variables that the code reads, all of them and no others.
func TestKnobs(t *testing.T) {
	listed := make(map[string]bool)
	for _, name := range []string{"COMPATIBILITY.md", "internal/emu/README.md"} {
		_, table, ok := strings.Cut(text(t, name), "\n## Knobs\n")
		require.True(t, ok, name)
		table, _, _ = strings.Cut(table, "\n## ")
		for line := range strings.Lines(table) {
			if cells := strings.Split(line, "|"); len(cells) > 2 {
				if knob := knobName.FindString(cells[1]); knob != "" {
					assert.False(t, listed[knob], "%s is listed twice", knob)
					listed[knob] = true
				}
			}
		}
	}
	read := make(map[string]bool)
	for _, name := range tracked(t) {
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, ".ci/") || strings.HasPrefix(name, "internal/tools/") {
			continue
		}
		for _, literal := range regexp.MustCompile(`"CANN_[A-Z0-9_]+"`).FindAllString(text(t, name), -1) {
			variable := strings.Trim(literal, `"`)
			ofTests := variable == "CANN_GOLDEN_DIR" || strings.HasPrefix(variable, "CANN_TEST_") || strings.HasPrefix(variable, "CANN_EMU_TEST_")
			if prefix := variable == "CANN_" || variable == "CANN_EMU_"; !ofTests && !prefix {
				read[variable] = true
			}
		}
	}
	assert.Equal(t, read, listed)
}

// TestNumbers: the documents count as the code does.
func TestNumbers(t *testing.T) {
	counted := regexp.MustCompile(`(\d+) of (\d+) operators are implemented`).FindStringSubmatch(text(t, "testdata/zz_operators.md"))
	require.Len(t, counted, 3)
	assert.Contains(t, text(t, "README.md"), counted[2]+" can be called from Go")
	assert.Contains(t, text(t, "README.md"), "The emulator has "+counted[1]+",")
	assert.Contains(t, text(t, "CHANGELOG.md"), counted[2]+" operators")
	assert.Contains(t, text(t, "CHANGELOG.md"), "implements "+counted[1]+" operators")

	var report struct {
		Libraries []struct{ Functions int }
	}
	out := command(t, repository(t), nil, "go", "run", "-tags", "emu", "./examples/npuinfo", "-json")
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	functions := 0
	for _, l := range report.Libraries {
		functions += l.Functions
	}
	assert.Contains(t, text(t, "internal/emu/sdk/README.md"), fmt.Sprintf("All %d,%03d functions exist", functions/1000, functions%1000))
}

var (
	inCode    = regexp.MustCompile("`[^`\n]+`")
	qualified = regexp.MustCompile(`(?:^|[^\w./-])([a-z]+)\.([A-Z]\w*)`)
)

// TestNames: the names that the documents take from this module's packages exist; reg is an ops.Registry. The logs of
// changes also name what has left.
func TestNames(t *testing.T) {
	root := repository(t)
	folders := map[string]string{"reg": filepath.Join(root, "ops")}
	for _, name := range tracked(t) {
		dir := filepath.Dir(name)
		if filepath.Base(name) == "doc.go" && !strings.HasPrefix(name, "internal/") && !strings.HasPrefix(name, ".ci/") {
			folders[filepath.Base(dir)] = filepath.Join(root, dir)
		}
	}
	declared := map[string]map[string]bool{}
	checked := 0
	for _, name := range documents(t) {
		if filepath.Base(name) == "CHANGELOG.md" {
			continue
		}
		for _, code := range inCode.FindAllString(fenced.ReplaceAllString(text(t, name), ""), -1) {
			for _, m := range qualified.FindAllStringSubmatch(code, -1) {
				dir, ok := folders[m[1]]
				if !ok {
					continue
				}
				if declared[dir] == nil {
					declared[dir] = exported(t, dir)
				}
				checked++
				assert.Contains(t, declared[dir], m[2], "%s: %s", name, code)
			}
		}
	}
	assert.Greater(t, checked, 100)
}

// exported lists the exported functions, methods, types, variables and constants of a package's files.
func exported(t testing.TB, dir string) map[string]bool {
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						names[spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							names[n.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}
