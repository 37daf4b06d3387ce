package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
)

// results holds the results of all runs so far. A file keeps them, so that a part can run alone.
type results struct {
	path     string
	mu       sync.Mutex
	Programs map[string]program // by repository and path
	Suites   map[string]suite
}

func openResults(path string) (*results, error) {
	r := &results{path: path, Programs: map[string]program{}, Suites: map[string]suite{}}
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

// programs adds the examples of a repository to the work, and forgets those that are gone.
func (r *results) programs(g *group, k *toolkit, table *abi.Table, folder, repository string, wanted func(name string) bool, limit time.Duration) error {
	list, err := programsOf(folder, repository, func(name string) bool { _, ok := table.Operator(name); return ok })
	if err != nil {
		return err
	}
	maps.DeleteFunc(r.Programs, func(name string, p program) bool {
		return p.Repository == repository && !slices.ContainsFunc(list, func(q program) bool { return q.Path == p.Path })
	})
	for _, p := range list {
		name := repository + "/" + p.Path
		if !wanted(name) {
			continue
		}
		g.tasks = append(g.tasks, func() error {
			err := p.try(k, folder, limit)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.Programs[name] = p
			return err
		})
	}
	return nil
}

// suites adds the test files of a repository to the work, and forgets those that are gone.
func (r *results) suites(g *group, k *toolkit, folder, repository string, wanted func(name string) bool, limit time.Duration) error {
	list, err := suitesOf(folder, repository)
	if err != nil {
		return err
	}
	maps.DeleteFunc(r.Suites, func(name string, s suite) bool {
		return s.Repository == repository && !slices.ContainsFunc(list, func(q suite) bool { return q.Path == s.Path })
	})
	list = slices.DeleteFunc(list, func(s suite) bool { return !wanted(repository + "/" + s.Path) })
	if len(list) == 0 {
		return nil
	}
	b, err := openBench(k, folder)
	if err != nil {
		return err
	}
	for _, s := range list {
		g.tasks = append(g.tasks, func() error {
			err := s.run(b, limit)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.Suites[repository+"/"+s.Path] = s
			return err
		})
	}
	return nil
}
