package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

func main() {
	err := run(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "phaseone:", err)
		os.Exit(1)
	}
}

// run writes a table of rules for each repository that args name, and lists on w what it does not follow.
func run(args []string, w io.Writer) error {
	set := flag.NewFlagSet("phaseone", flag.ContinueOnError)
	set.SetOutput(w)
	out := set.String("out", "internal/abi/acceptance", "folder for the tables, `folder`/name.txt")
	set.Usage = func() {
		fmt.Fprintln(w, "usage: phaseone [-out folder] name=folder@commit...\n\nWrites the rules of phase one, and prints what it could not follow: operator, place and text, effect.")
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() == 0 {
		return errors.New("no repositories; name them as name=folder@commit")
	}
	t, err := abi.Load()
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(w)
	for _, a := range set.Args() {
		name, rest, ok := strings.Cut(a, "=")
		dir, commit, ok2 := strings.Cut(rest, "@")
		if !ok || !ok2 {
			return fmt.Errorf("%q is not name=folder@commit", a)
		}
		r, err := Open(name, dir, commit)
		if err != nil {
			return err
		}
		operators := r.Extract(t)
		if err := os.WriteFile(filepath.Join(*out, name+".txt"), []byte(Text(r, operators)), 0o644); err != nil {
			return err
		}
		for _, o := range operators {
			for _, g := range o.Gaps {
				fmt.Fprintf(lines, "%s\t%s\t%s\n", o.Name, g.Place, g.Means)
			}
		}
	}
	return lines.Flush()
}
