package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
)

// results holds the results of all runs so far. A file keeps them, so that a part can run alone, and
// elsewhere than the report is written.
type results struct {
	path     string
	mu       sync.Mutex
	Sources  map[string]checkout // by repository
	Programs map[string]program  // by repository and path
	Suites   map[string]suite
}

// checkout lists the tests and programs of a repository.
type checkout struct {
	Commit           string
	Suites, Programs int
}

func openResults(path string) (*results, error) {
	r := &results{path: path, Sources: map[string]checkout{}, Programs: map[string]program{}, Suites: map[string]suite{}}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	return r, json.Unmarshal(b, r)
}

func (r *results) save() error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.path, b, 0o666)
}

// group is work that is done a few pieces at a time.
type group struct {
	jobs  int
	end   time.Time // if set, when to start nothing more
	tasks []func() error
}

func (g *group) run() error {
	var wait sync.WaitGroup
	errs, slots := make([]error, len(g.tasks)), make(chan struct{}, g.jobs)
	for i, task := range g.tasks {
		if i%25 == 24 {
			fmt.Fprintf(os.Stderr, "%d of %d\n", i+1, len(g.tasks))
		}
		slots <- struct{}{}
		if !g.end.IsZero() && time.Now().After(g.end) {
			fmt.Fprintf(os.Stderr, "stopped after %d of %d\n", i, len(g.tasks))
			break
		}
		wait.Go(func() {
			errs[i] = task()
			<-slots
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// look lists what a checkout has to try, and forgets the results of what is gone.
func (r *results) look(table *abi.Table, folder, repository string) ([]suite, []program, error) {
	programs, err := programsOf(folder, repository, func(name string) bool { _, ok := table.Operator(name); return ok })
	if err != nil {
		return nil, nil, err
	}
	suites, err := suitesOf(folder, repository)
	if err != nil {
		return nil, nil, err
	}
	maps.DeleteFunc(r.Programs, func(name string, p program) bool {
		return p.Repository == repository && !slices.ContainsFunc(programs, func(q program) bool { return q.name() == name })
	})
	maps.DeleteFunc(r.Suites, func(name string, s suite) bool {
		return s.Repository == repository && !slices.ContainsFunc(suites, func(q suite) bool { return q.name() == name })
	})
	r.Sources[repository] = checkout{commitOf(filepath.Join(folder, repository)), len(suites), len(programs)}
	return suites, programs, nil
}

// programs adds examples to the work.
func (r *results) programs(g *group, k *toolkit, folder string, list []program, limit time.Duration) {
	for _, p := range list {
		g.tasks = append(g.tasks, func() error {
			err := p.try(k, folder, limit)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.Programs[p.name()] = p
			return err
		})
	}
}

// suites adds test files to the work.
func (r *results) suites(g *group, k *toolkit, folder string, list []suite, limit time.Duration) error {
	if len(list) == 0 {
		return nil
	}
	b, err := openBench(k, folder, list[0].Repository)
	if err != nil {
		return err
	}
	for _, s := range list {
		g.tasks = append(g.tasks, func() error {
			err := s.run(b, limit)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.Suites[s.name()] = s
			return err
		})
	}
	return nil
}
