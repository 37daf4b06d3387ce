package main

import (
	"errors"
	"flag"
	"fmt"
	"go/token"
	"io"
	"os"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/binding"
	"github.com/goascend/cann/internal/abi/header"
)

func main() {
	err := run(os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bind:", err)
		os.Exit(1)
	}
}

// run writes the Go file that args describe. A request for help is answered on w.
func run(args []string, w io.Writer) error {
	set := flag.NewFlagSet("bind", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	dir := set.String("headers", "", "`folder` with aclnn_*.h files, which is searched recursively")
	pkg := set.String("package", "", "`name` of the Go package to write")
	out := set.String("out", "", "Go `file` to write")
	library := set.String("library", "libcust_opapi", "`name` of the shared library that exports the operators, without .so")
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(w, "Usage: bind -headers folder -package name -out file [-library name]\n\nWrites the Go functions of the operators that C headers declare.\n\n")
		set.SetOutput(w)
		set.PrintDefaults()
		return err
	} else if err != nil {
		return err
	}
	switch {
	case set.NArg() > 0:
		return fmt.Errorf("%q is no flag; see bind -h", set.Arg(0))
	case *dir == "" || *out == "":
		return errors.New("-headers and -out are required; see bind -h")
	case !token.IsIdentifier(*pkg):
		return fmt.Errorf("-package %q is not a Go package name", *pkg)
	}
	t, err := abi.Load()
	if err != nil {
		return err
	}
	ops, err := header.Operators(t, os.DirFS(*dir), *library)
	if err != nil {
		return err
	}
	src, err := binding.Package{Name: *pkg, Aclnn: "aclnn.", Tool: "aclnn/bind"}.File(ops)
	if err != nil {
		return err
	}
	return os.WriteFile(*out, src, 0o644)
}
