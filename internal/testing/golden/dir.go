package golden

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const (
	dirVariable = "CANN_GOLDEN_DIR"
	casesFile   = "ops.json"
)

// ErrNotShipped says that there is no golden data because the module came without it, as it
// does from the module cache. In a clone of the repository missing data is another error.
var ErrNotShipped = errors.New("golden: the module's download has no reference data; clone the repository, or set " + dirVariable)

// Dir is the folder of the golden data: CANN_GOLDEN_DIR when it is set, else testdata/golden
// beside a go.mod above the working directory, where go test starts each package. The programs'
// module has none and finds that of the library.
func Dir() (string, error) {
	if dir := os.Getenv(dirVariable); dir != "" {
		if st, err := os.Stat(dir); err != nil {
			return "", fmt.Errorf("golden: %s: %w", dirVariable, err)
		} else if !st.IsDir() {
			return "", fmt.Errorf("golden: %s: %s is not a folder", dirVariable, dir)
		}
		return dir, nil
	}
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("golden: %w", err)
	}
	var modules []string
	for root := start; ; root = filepath.Dir(root) {
		if exists(root, "go.mod") {
			if exists(root, "testdata/golden") {
				return filepath.Join(root, "testdata", "golden"), nil
			}
			modules = append(modules, root)
		}
		if root == filepath.Dir(root) {
			return "", noData(start, modules)
		}
	}
}

// noData says why none of the modules above start has the data. A module's zip leaves the folder
// testdata out, and has no .git; a clone has both.
func noData(start string, modules []string) error {
	if len(modules) == 0 {
		return fmt.Errorf("golden: no module above %s; set %s", start, dirVariable)
	}
	for _, root := range modules {
		if exists(root, "testdata") || exists(root, ".git") {
			return fmt.Errorf("golden: %s has no testdata/golden; restore it, or set %s", root, dirVariable)
		}
	}
	return ErrNotShipped
}

func exists(root, path string) bool {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path)))
	return err == nil
}

// mustDir is Dir. It skips the test where the module came without data, and fails it where the
// data should be there.
func mustDir(t testing.TB) string {
	t.Helper()
	dir, err := Dir()
	switch {
	case errors.Is(err, ErrNotShipped):
		t.Skipf("%v", err)
	case err != nil:
		t.Fatal(err)
	}
	return dir
}

// none ends a test that found no data. With the project's own set that is a failure, so that a
// misspelt name does not pass unnoticed; a set named by CANN_GOLDEN_DIR may be smaller, and the
// test is skipped.
func none(t testing.TB, what string) {
	t.Helper()
	if os.Getenv(dirVariable) != "" {
		t.Skipf("golden: %s has %s", dirVariable, what)
	}
	t.Fatalf("golden: the project's set has %s", what)
}
