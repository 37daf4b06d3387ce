package emptycann

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

//go:embed src/*.c
var sources embed.FS

// libraries are the names under which the one library is installed.
var libraries = []string{"libascendcl.so", "libnnopbase.so", "libopapi.so", "libhccl.so"}

// Build compiles the library with gcc and installs it in dir/lib64. It returns dir, the
// value for ASCEND_HOME_PATH.
func Build(dir string) (home string, err error) {
	lib := filepath.Join(dir, "lib64")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		return "", err
	}
	var files []string
	for _, name := range []string{"answers.c", "loops.c"} {
		text, err := sources.ReadFile("src/" + name)
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return "", err
		}
		files = append(files, path)
	}
	answers, err := sources.ReadFile("src/answers.c")
	if err != nil {
		return "", err
	}
	empty, err := emptyFunctions(string(answers))
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "empty.c")
	if err := os.WriteFile(path, []byte(empty), 0o644); err != nil {
		return "", err
	}
	include, err := headers()
	if err != nil {
		return "", err
	}
	args := append([]string{"-std=gnu11", "-O2", "-fPIC", "-shared", "-I" + include,
		"-o", filepath.Join(lib, libraries[0]), path}, files...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("emptycann: %w\n%s", err, out)
	}
	for _, name := range libraries[1:] {
		if err := os.Symlink(libraries[0], filepath.Join(lib, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// headers is the folder of the C declarations in the module that holds the working directory:
// a test's is that of its package, also in a binary that was built with -trimpath and has no
// paths of source files.
func headers() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "internal", "emu", "export")
		if _, err := os.Stat(filepath.Join(path, "testdata", "zz_functions.h")); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("emptycann: no internal/emu/export/testdata/zz_functions.h in %s or above it; run inside the module", wd)
		}
	}
}

// emptyFunctions is C source for every function of the table that answers lacks. All are names
// of one function, which takes nothing and returns 0: that compiles in a fraction of the time,
// and callers of any C type can call it.
func emptyFunctions(answers string) (string, error) {
	table, err := abi.Load()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("static long empty(void) { return 0; }\n")
	for _, name := range table.Symbols() {
		if !strings.Contains(answers, " "+name+"(") && !strings.Contains(answers, "*"+name+"(") {
			fmt.Fprintf(&b, "long %s(void) __attribute__((alias(\"empty\")));\n", name)
		}
	}
	return b.String(), nil
}
