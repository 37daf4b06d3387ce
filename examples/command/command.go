package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Flags is a flag set whose help shows sample commands and groups of flags.
type Flags struct {
	*flag.FlagSet
	// Operands allows arguments after the flags, for programs that start another one. Otherwise
	// Parse refuses them.
	Operands bool

	out                   io.Writer
	name, synopsis, about string
	samples               []string
	groups                []group
}

// group is a title and the flags that were defined before it.
type group struct {
	title  string
	before map[string]bool
}

// New makes a set without flags. The first word of the synopsis is the program's name; about
// says in a sentence or two what the program does. Parse writes the help to out.
func New(out io.Writer, synopsis, about string, samples ...string) *Flags {
	name, _, _ := strings.Cut(synopsis, " ")
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), out: out, name: name, synopsis: synopsis, about: about, samples: samples}
	f.SetOutput(io.Discard) // Parse returns errors, and prints the help when asked
	return f
}

// Group starts a group: flags defined from here on are listed under the title. Flags defined before
// the first group are listed under "Flags".
func (f *Flags) Group(title string) {
	before := make(map[string]bool)
	f.VisitAll(func(one *flag.Flag) { before[one.Name] = true })
	f.groups = append(f.groups, group{title, before})
}

// Parse reads the flags. After -h or -help it writes the help and returns flag.ErrHelp.
func (f *Flags) Parse(args []string) error {
	switch err := f.FlagSet.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return errors.Join(err, f.help())
	case err != nil:
		return fmt.Errorf("%w (%s -h lists the flags)", err, f.name)
	case f.NArg() > 0 && !f.Operands:
		return fmt.Errorf("unknown argument %q (%s -h lists the flags)", f.Arg(0), f.name)
	}
	return nil
}

// Idle refuses those of some flags that were given although they would do nothing, because they need something else.
func (f *Flags) Idle(needs string, names ...string) (err error) {
	f.Visit(func(one *flag.Flag) {
		if slices.Contains(names, one.Name) {
			err = errors.Join(err, fmt.Errorf("-%s needs %s", one.Name, needs))
		}
	})
	return err
}

// help writes what the program does, the samples, and the flags by group.
func (f *Flags) help() error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s\n", f.about, f.synopsis)
	if len(f.samples) > 0 {
		b.WriteString("\nSamples:\n")
	}
	for _, s := range f.samples {
		fmt.Fprintf(&b, "  %s\n", s)
	}
	groups := append([]group{{title: "Flags"}}, f.groups...)
	for i, g := range groups {
		part, some := flag.NewFlagSet("", flag.ContinueOnError), false
		part.SetOutput(&b)
		f.VisitAll(func(one *flag.Flag) {
			if g.before[one.Name] || i+1 < len(groups) && !groups[i+1].before[one.Name] {
				return
			}
			part.Var(one.Value, one.Name, one.Usage)
			part.Lookup(one.Name).DefValue = one.DefValue // the default, not the parsed value
			some = true
		})
		if some {
			fmt.Fprintf(&b, "\n%s:\n", g.title)
			part.PrintDefaults()
		}
	}
	_, err := io.WriteString(f.out, b.String())
	return err
}
