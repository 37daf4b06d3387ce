package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goascend/cann/internal/abi"
)

var repositories = []string{"ops-math", "ops-nn", "ops-transformer", "ops-cv"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run() error {
	sources := flag.String("sources", "", "`folder` with checkouts of ops-math, ops-nn, ops-transformer and ops-cv; nothing is tried without it")
	sdk := flag.String("sdk", "build/sdk", "`folder` of the emulator's SDK")
	commit := flag.String("commit", "", "`commit` of the emulator in the SDK (that of the current folder)")
	work := flag.String("work", "build/conformance", "`folder` for what is compiled")
	file := flag.String("results", "build/conformance/results.json", "`file` of the results, which are added to those that it has")
	only := flag.String("only", "", "`expression` of the paths to try; results of others are kept")
	kind := flag.String("kind", "", "try only cases or programs")
	jobs := flag.Int("j", runtime.NumCPU(), "how many to try at a time")
	limit := flag.Duration("limit", 2*time.Minute, "time limit of a program or a suite")
	fresh := flag.Bool("new", false, "try only what has no result yet")
	span := flag.Duration("for", 0, "start nothing more after this time")
	report := flag.String("report", "", "`file` for a report of the results")
	flag.Parse()
	re, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	table, err := abi.Load()
	if err != nil {
		return err
	}
	r, err := openResults(*file)
	if err != nil {
		return err
	}
	if *sources != "" {
		g := &group{jobs: *jobs}
		if *span > 0 {
			g.end = time.Now().Add(*span)
		}
		k, err := openToolkit(*sdk, *work, cmp.Or(*commit, commitOf(".")))
		if err != nil {
			return err
		}
		wanted := func(name string) bool {
			_, program := r.Programs[name]
			_, suite := r.Suites[name]
			return re.MatchString(name) && !(*fresh && (program || suite))
		}
		for _, name := range repositories {
			suites, programs, err := r.look(table, *sources, name)
			if err != nil {
				return err
			}
			if *kind != "cases" {
				r.programs(g, k, *sources, slices.DeleteFunc(programs, func(p program) bool { return !wanted(p.name()) }), *limit)
			}
			if *kind == "programs" {
				continue
			}
			if err := r.suites(g, k, *sources, slices.DeleteFunc(suites, func(s suite) bool { return !wanted(s.name()) }), *limit); err != nil {
				return err
			}
		}
		if err := errors.Join(g.run(), r.save()); err != nil {
			return err
		}
	}
	if *report == "" {
		return nil
	}
	if len(r.Suites)+len(r.Programs) == 0 {
		return fmt.Errorf("%s has no results; -sources makes some", *file)
	}
	return r.write(*report, table)
}

// commitOf is the commit of a checkout, with a mark if its files differ from it.
func commitOf(folder string) string {
	out, err := exec.Command("git", "-C", folder, "--git-dir=.git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// find lists the files below a folder that are wanted, by their slash-separated paths, in order.
func find(folder string, wanted func(path string) bool) ([]string, error) {
	var paths []string
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(folder, path)
		if rel = filepath.ToSlash(rel); err == nil && wanted("/"+rel) {
			paths = append(paths, rel)
		}
		return err
	})
	slices.SortFunc(paths, strings.Compare)
	return paths, err
}
