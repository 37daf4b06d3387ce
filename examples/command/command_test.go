package command_test

import (
	"bytes"
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/command"
)

const help = `Greet says hello.

Usage: greet [flags]

Samples:
  go run ./examples/greet -name Ada

Whom:
  -name who
    	who is greeted (default "you")

How:
  -loud
    	in capitals
  -times int
    	greetings (default 1)
`

func greet(out io.Writer) *command.Flags {
	f := command.New(out, "greet [flags]", "Greet says hello.", "go run ./examples/greet -name Ada")
	f.Group("Whom")
	f.String("name", "you", "`who` is greeted")
	f.Group("How")
	f.Int("times", 1, "greetings")
	f.Bool("loud", false, "in capitals")
	return f
}

// TestHelp checks that the help lists the groups in order, with defaults even after flags were
// parsed.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"--help"}, {"-times", "5", "-name=Ada", "-h", "stray"}} {
		var out bytes.Buffer
		require.ErrorIs(t, greet(&out).Parse(args), flag.ErrHelp)
		require.Equal(t, help, out.String())
	}
}

// TestUngrouped checks that flags without a group come first.
func TestUngrouped(t *testing.T) {
	var out bytes.Buffer
	f := command.New(&out, "greet [flags]", "Greet says hello.")
	f.Bool("loud", false, "in capitals")
	f.Group("Whom")
	f.Bool("all", false, "everybody")
	require.ErrorIs(t, f.Parse([]string{"-h"}), flag.ErrHelp)
	require.Equal(t, "Greet says hello.\n\nUsage: greet [flags]\n\nFlags:\n  -loud\n    \tin capitals\n\nWhom:\n  -all\n    \teverybody\n", out.String())
}

// TestIdle: flags that would do nothing are refused when they are given.
func TestIdle(t *testing.T) {
	f := greet(io.Discard)
	require.NoError(t, f.Parse([]string{"-loud", "-times", "3"}))
	require.NoError(t, f.Idle("-all", "name"))
	require.EqualError(t, f.Idle("-all", "name", "times", "loud"), "-loud needs -all\n-times needs -all")
}

// TestErrors checks that an error is one line that points to the list of flags.
func TestErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"flag provided but not defined: -what (greet -h lists the flags)": {"-what"},
		`unknown argument "Ada" (greet -h lists the flags)`:               {"-loud", "Ada"},
		`invalid value "x" for flag -times`:                               {"-times", "x"},
	} {
		var out bytes.Buffer
		require.ErrorContains(t, greet(&out).Parse(args), want)
		require.Empty(t, out.String())
	}
	f := greet(io.Discard)
	f.Operands = true
	require.NoError(t, f.Parse([]string{"-loud", "--", "Ada", "-x"}))
	require.Equal(t, []string{"Ada", "-x"}, f.Args())
}
