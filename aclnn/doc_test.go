package aclnn_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// TestIndexOfFamilies: the index in the package's documentation has every family, with the number of its
// operators and operators that are of it.
func TestIndexOfFamilies(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	want := map[abi.Family]int{}
	for _, o := range table.Operators {
		want[o.Family()]++
	}
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, index, found := strings.Cut(string(text), "# Operators by family")
	require.True(t, found)
	got := map[abi.Family]int{}
	for _, line := range regexp.MustCompile(`(?m)^//\t(\w+) +(\d+)  (.+)$`).FindAllStringSubmatch(index, -1) {
		family := abi.Family(line[1])
		got[family], err = strconv.Atoi(line[2])
		require.NoError(t, err)
		assert.FileExists(t, fmt.Sprintf("zz_%s.go", family))
		for _, name := range regexp.MustCompile(`\b[A-Z]\w+`).FindAllString(line[3], -1) {
			o, known := table.Operator(name)
			if assert.True(t, known, name) {
				assert.Equal(t, family, o.Family(), name)
			}
		}
	}
	require.Equal(t, want, got)
}

// TestCopiesExist: the functions in the table of copies exist.
func TestCopiesExist(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "# Which copy do I want")
	require.True(t, found)
	rows, _, _ := strings.Cut(rest, "// In a scope")
	var code strings.Builder
	for _, name := range []string{"clone.go", "copy.go", "load.go", "slice.go", "scope.go", "view.go", "view_format.go", "view_nz.go", "zz_layout.go"} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		code.Write(source)
	}
	named := regexp.MustCompile(`(?:^//\t.{35}|, |  )(?:Scope\.)?([A-Z]\w+)\b`)
	count := 0
	for line := range strings.Lines(rows) {
		for _, name := range named.FindAllStringSubmatch(line, -1) {
			count++
			assert.Regexp(t, `func (\(\w+ \*(Tensor|Scope)\) )?`+name[1]+`[\[(]`, code.String())
		}
	}
	require.Greater(t, count, 15)
}
