package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
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
	sources := flag.String("sources", "", "`folder` with checkouts of ops-math, ops-nn, ops-transformer and ops-cv")
	sdk := flag.String("sdk", "build/sdk", "`folder` of the emulator's SDK")
	work := flag.String("work", "build/conformance", "`folder` for what is compiled, and for the results")
	only := flag.String("only", "", "`expression` of the paths to try; results of others are kept")
	kind := flag.String("kind", "", "try only cases or programs; none only writes the report")
	jobs := flag.Int("j", runtime.NumCPU(), "how many to try at a time")
	limit := flag.Duration("limit", 2*time.Minute, "time limit of a program or a suite")
	fresh := flag.Bool("new", false, "try only what has no result yet")
	span := flag.Duration("for", 0, "start nothing more after this time")
	report := flag.String("report", "", "`file` for the report")
	flag.Parse()
	re, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	table, err := abi.Load()
	if err != nil {
		return err
	}
	k, err := openToolkit(*sdk, *work)
	if err != nil {
		return err
	}
	r, err := openResults(filepath.Join(*work, "results.json"))
	if err != nil {
		return err
	}
	g := &group{jobs: *jobs}
	if *span > 0 {
		g.end = time.Now().Add(*span)
	}
	wanted := func(name string) bool {
		_, program := r.Programs[name]
		_, suite := r.Suites[name]
		return re.MatchString(name) && !(*fresh && (program || suite))
	}
	for _, name := range repositories {
		if *kind != "cases" && *kind != "none" {
			if err := r.programs(g, k, table, *sources, name, wanted, *limit); err != nil {
				return err
			}
		}
		if *kind != "programs" && *kind != "none" {
			if err := r.suites(g, k, *sources, name, wanted, *limit); err != nil {
				return err
			}
		}
	}
	if err := g.run(); err != nil {
		return err
	}
	if err := r.save(); err != nil || *report == "" {
		return err
	}
	return r.write(*report, table, *sources)
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
