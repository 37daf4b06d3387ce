package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const (
	dirVariable = "CANN_GOLDEN_DIR"
	casesFile   = "ops.json"
)

// Dir is the folder of the golden data: CANN_GOLDEN_DIR when it is set, else testdata/golden
// beside the nearest go.mod above the working directory, where go test starts each package.
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
	for root := start; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			dir := filepath.Join(root, "testdata", "golden")
			if _, err := os.Stat(dir); err == nil {
				return dir, nil
			}
		}
		if root == filepath.Dir(root) {
			return "", fmt.Errorf("golden: no module with testdata/golden above %s; set %s", start, dirVariable)
		}
	}
}

func mustDir(t testing.TB) string {
	t.Helper()
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// none ends a test that found no data of its kind: a fault in the project's own set, where a
// misspelt name would otherwise pass unseen, and a skip in another set, which may be smaller.
func none(t testing.TB, what string) {
	t.Helper()
	if os.Getenv(dirVariable) != "" {
		t.Skipf("golden: %s has %s", dirVariable, what)
	}
	t.Fatalf("golden: the project's set has %s", what)
}
