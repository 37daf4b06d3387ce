package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun checks that every mask runs with the decision in its title and frees everything.
func TestRun(t *testing.T) {
	acltest.Need(t)
	for _, args := range [][]string{{"-seq", "40", "-dtype", "fp32"}, {"-seq", "16", "-heads", "2", "-kv-heads", "1", "-batch", "3", "-backward=false"}} {
		o, err := parseFlags(args, t.Output())
		require.NoError(t, err)
		o.runs = 1
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), o, &out))
		t.Log(out.String())
		sections := strings.Split(out.String(), "\n\n")[1:]
		require.Len(t, sections, 14)
		for i, want := range []string{
			"sparseMode 0", "sparseMode 2", "sparseMode 3", "sparseMode 4", "sparseMode", "sparseMode 2", "sparseMode 1", "sparseMode 1",
			"sparseMode 1", "sparseMode 2", "sparseMode 3", "refused", "refused", "refused",
		} {
			require.Contains(t, sections[i], want, sections[i])
			if want != "refused" {
				require.Contains(t, sections[i], "kernel    attention: Flash")
				require.Equal(t, o.backward, strings.Contains(sections[i], "gradient"))
			}
		}
		require.Empty(t, acl.Live())
	}
}

func TestFlags(t *testing.T) {
	for text, args := range map[string][]string{
		"-dtype is":        {"-dtype", "int8"},
		"must be positive": {"-heads", "0"},
		"at least 8":       {"-seq", "4"},
		"not defined":      {"-what"},
		"unknown argument": {"512"},
	} {
		_, err := parseFlags(args, t.Output())
		require.ErrorContains(t, err, text)
	}
}

// TestSamples checks the commands in the help text.
func TestSamples(t *testing.T) {
	for _, s := range samples {
		_, flags, _ := strings.Cut(s, "/attention")
		_, err := parseFlags(strings.Fields(flags), t.Output())
		require.NoError(t, err, s)
	}
}
