package main

import (
	"errors"
	"flag"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// runBind generates bindings for the operators that C headers declare: those of a custom operator
// package or of a CANN version newer than the table.
func runBind(args []string) error {
	set := flag.NewFlagSet("bind", flag.ContinueOnError)
	dir := set.String("headers", "", "folder with aclnn_*.h files, searched recursively")
	pkg := set.String("package", "", "name of the Go package to write")
	out := set.String("out", "", "Go file to write")
	library := set.String("library", "libcust_opapi", "shared library that exports the operators, without .so")
	if err := set.Parse(args); err != nil {
		return err
	}
	switch {
	case *dir == "" || *out == "":
		return errors.New("bind: -headers and -out are required")
	case !token.IsIdentifier(*pkg):
		return fmt.Errorf("bind: -package %q is not a Go package name", *pkg)
	}
	t, err := abi.Load()
	if err != nil {
		return err
	}
	ops, err := headerOperators(t, os.DirFS(*dir), *library)
	if err != nil {
		return err
	}
	src, err := binding{pkg: *pkg, aclnn: "aclnn."}.file(ops)
	if err != nil {
		return err
	}
	made := files{}
	if err := made.golang(filepath.Base(*out), src); err != nil {
		return err
	}
	return os.WriteFile(*out, made[filepath.Base(*out)], 0o644)
}

// headerOperators reads every *.h below fsys and returns its operators, sorted by name.
func headerOperators(t *abi.Table, fsys fs.FS, library string) ([]abi.Operator, error) {
	declared := map[string]declaration{}
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".h") {
			return err
		}
		text, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		found, err := parseHeader(path, string(text))
		for _, f := range found {
			declared[f.name] = f
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var ops []abi.Operator
	for name, one := range declared {
		symbol, ok := strings.CutSuffix(name, abi.PhaseOne)
		if _, two := declared[symbol]; !ok || !two {
			continue
		}
		n := len(one.params) - 2
		if n < 0 || one.params[n].Type != "uint64_t *" || one.params[n+1].Type != "aclOpExecutor **" {
			return nil, fmt.Errorf("%s: %s does not end in (uint64_t *, aclOpExecutor **)", one.at, name)
		}
		f := abi.Function{
			Name: symbol, Ret: "aclnnStatus", Params: one.params[:n], Header: one.at,
			Library: library, Versions: []string{abi.Custom},
		}
		if err := t.Resolve(&f); err != nil {
			return nil, fmt.Errorf("%s: %w", one.at, err)
		}
		ops = append(ops, abi.OperatorOf(f))
	}
	if len(ops) == 0 {
		return nil, errors.New("the headers declare no operator: want aclnnXGetWorkspaceSize and aclnnX in *.h files")
	}
	slices.SortFunc(ops, func(a, b abi.Operator) int { return strings.Compare(a.Name, b.Name) })
	return ops, nil
}
