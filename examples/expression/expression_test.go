package expression_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/budget/budgettest"
	"github.com/goascend/cann/examples/expression"
)

// TestMatches: the three ways to match agree with Go's expressions, where these have the pattern too.
func TestMatches(t *testing.T) {
	s := expression.New("a test")
	names := []string{"", "model", "model.layers.1.q_proj", "model.layers.10.q_proj", "modelx", "layers.1", "m\ndel", "mödel.layers.1"}
	for _, pattern := range []string{"model", "model.layers.1", "model.layers.1.", "m.del", "q_proj", "layers.1", "(model|layers)", `.*\.\d+\.q_.*`, "l.*1", "$", "model.layers.1.q_proj"} {
		for _, name := range names {
			for _, way := range []struct {
				form  string
				match func(pattern, name string) (bool, error)
			}{{`\A(?:%s)`, s.Begins}, {`\A(?:%s)\z`, s.Whole}, {`\A(?:.*\.)?(?:%s)\z`, s.Ends}} {
				got, err := way.match(pattern, name)
				require.NoError(t, err)
				require.Equal(t, regexp.MustCompile(fmt.Sprintf(way.form, pattern)).MatchString(name), got, "%s of %q in %q", way.form, pattern, name)
			}
		}
	}
	for pattern, want := range map[string]bool{`model(?=\.)`: true, `(?P<a>l)ayers`: false, `(?!model)`: false, `.*proj\Z`: true} {
		got, err := s.Begins(pattern, "model.layers.1.q_proj")
		require.NoError(t, err)
		require.Equal(t, want, got, pattern)
	}
	_, err := s.Begins("(", "model")
	require.Error(t, err)
}

// TestBounds: whatever the expressions of a configuration are, and however many names are compared with them, the work ends.
func TestBounds(t *testing.T) {
	slow := `(?=(.+)+$)(?!x)` + strings.Repeat(`(.*)*`, 30) + "z"
	plain := make([]string, 300)
	for i := range plain {
		plain[i] = fmt.Sprintf("model.layers.%d", i)
	}
	module := "model.layers.1.self_attn.q_proj" + strings.Repeat("y", 30)
	for name, c := range map[string]struct {
		pattern func(i int) string
		ways    int // expressions
	}{
		"one that backtracks":  {func(int) string { return slow }, 1},
		"many that backtrack":  {func(i int) string { return slow + fmt.Sprint(i) }, 500},
		"many expressions":     {func(i int) string { return fmt.Sprintf("(.*)*x%d", i) }, 300_000},
		"many bytes":           {func(i int) string { return strings.Repeat("(a)", 3000) + fmt.Sprint(i) }, 300_000},
		"a long one":           {func(int) string { return strings.Repeat("(", 4_000_000) }, 1},
		"many levels":          {func(int) string { return strings.Repeat("(", 4000) + strings.Repeat(")", 4000) }, 1},
		"repeats":              {func(i int) string { return fmt.Sprintf("((((.{1000}){1000}){1000}){%d})", i+1) }, 1000},
		"searches without end": {func(i int) string { return fmt.Sprintf("(.*)layer%d", i) }, 300},
		"names without end":    {func(i int) string { return plain[i] }, len(plain)},
	} {
		t.Run(name, func(t *testing.T) {
			budgettest.Bounded(t, func() {
				s := expression.New(name)
				for i := 0; ; i++ {
					if _, err := s.Begins(c.pattern(i%c.ways), module); err != nil {
						require.ErrorIs(t, err, budget.ErrLimit)
						require.Less(t, len(err.Error()), 1000)
						return
					}
					if name == "many levels" {
						return
					}
				}
			})
		})
	}
}
