package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/header"
)

// runHeaders writes the C headers that a release installs into a folder, as checkouts of CANN's sources have them or
// generate them, for npuinfo -headers. Arguments are as for releases; a revision of the release may be given.
func runHeaders(args []string) error {
	set := flag.NewFlagSet("headers", flag.ContinueOnError)
	out := set.String("out", "", "the `folder` that gets the headers")
	release := set.String("release", "", "the `release` of CANN")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *out == "" || !slices.Contains(abi.Releases(), *release) || set.NArg() == 0 {
		return fmt.Errorf("headers: give -out, -release (one of %v) and checkouts, as folder[,release=revision…]", abi.Releases())
	}
	for _, arg := range set.Args() {
		dir, revision, err := checkoutArgument(arg, *release)
		if err != nil {
			return err
		}
		if revision == "" {
			fmt.Fprintf(os.Stderr, "%s has no revision of %s\n", dir, *release)
			continue
		}
		c, err := readRevision(dir, revision, headerSources...)
		if err != nil {
			return err
		}
		headers, err := installedHeaders(c.files)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			file := filepath.Join(*out, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(file, []byte(headers[name]), 0o644); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "%s %s (%s): %d headers\n", dir, *release, revision, len(headers))
	}
	return nil
}

// checkoutArgument returns the folder of an argument folder[,release=revision…], and its revision of a release, "" if
// it has none.
func checkoutArgument(arg, release string) (dir, revision string, err error) {
	fields := strings.Split(arg, ",")
	for _, f := range fields[1:] {
		of, is, ok := strings.Cut(f, "=")
		if !ok {
			return "", "", fmt.Errorf("%q is not release=revision", f)
		}
		if of == release {
			revision = is
		}
	}
	if revision == "" {
		revision = revisionOf(fields[0], release)
	}
	if revision == "none" {
		revision = ""
	}
	return fields[0], revision, nil
}

// installedHeaders returns the headers among the files of a checkout by the path below include that CANN's packages
// install them at, and the headers that its build generates.
func installedHeaders(files map[string]string) (map[string]string, error) {
	headers := map[string]string{}
	generated, err := generatedHeaders(files)
	if err != nil {
		return nil, err
	}
	for name, text := range generated {
		headers["aclnnop/"+name] = text
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(p) != ".h" || !installed(p) {
			continue
		}
		at := installedAt(p, files[p])
		if at == "" {
			continue
		}
		if headers[at], err = joined(headers[at], files[p]); err != nil {
			return nil, fmt.Errorf("two headers are installed as %s: %w", at, err)
		}
	}
	return headers, nil
}

// joined returns the text of two headers that are installed under one name. Sources have some twice while they are moved
// from folder to folder. They must not declare a function in two ways.
func joined(a, b string) (string, error) {
	if a == "" || a == b {
		return b, nil
	}
	first, err := header.Declarations(a, nil)
	if err != nil {
		return "", err
	}
	second, err := header.Declarations(b, nil)
	if err != nil {
		return "", err
	}
	for name, f := range first.Functions {
		if g, ok := second.Functions[name]; ok && plain(f.Types()) != plain(g.Types()) {
			return "", fmt.Errorf("%s has the parameters (%s) and (%s)", name, f.Types(), g.Types())
		}
	}
	return a + "\n" + b, nil
}

// installedAt returns the path below include of a header of CANN's sources, or "" for one that is not installed.
func installedAt(p, text string) string {
	name := path.Base(p)
	for _, folder := range []string{"include/external/acl/", "inc/external/acl/"} {
		if acl, ok := strings.CutPrefix(p, folder); ok && !strings.Contains(name, "impl") {
			return "acl/" + acl
		}
	}
	switch {
	case strings.Contains(p, "include/") && strings.Contains(p, "/aclnn/"):
		return "aclnn/" + name
	case strings.HasSuffix(p, "include/nnopbase/opdev/op_errno.h"):
		return "aclnn/opdev/op_errno.h"
	case name == "dcmi_interface_api.h", strings.HasPrefix(p, "include/cann_ops_"):
		return name
	case strings.HasPrefix(p, "include/hccl"):
		return "hccl/" + name
	case strings.HasPrefix(p, "include/hcomm"):
		return "hcomm/" + name
	case strings.HasPrefix(name, "acl") && (phaseOneInText.MatchString(text) || strings.Contains(p, "op_api/") && strings.Contains(text, "aclnnStatus acl")):
		return "aclnnop/" + name
	}
	return ""
}
