package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/goascend/cann/examples/durable"
)

// folderPattern is of the folders that this package makes: the step and the save's id.
var folderPattern = regexp.MustCompile(`^step-([0-9]{8,})-([0-9a-f]{8})$`)

func folderName(step int, id string) string { return fmt.Sprintf("step-%08d-%s", step, id) }

// listed is a folder of a save.
type listed struct {
	path     string
	step     int
	complete bool // it has a manifest
	written  int64
}

// list returns the folders of saves, the newest first. A missing dir has none.
func list(dir string) (all []listed, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		match := folderPattern.FindStringSubmatch(e.Name())
		if match == nil || !e.IsDir() {
			continue
		}
		one := listed{path: filepath.Join(dir, e.Name())}
		if one.step, err = strconv.Atoi(match[1]); err != nil {
			continue // nobody counts so far
		}
		info, err := os.Stat(filepath.Join(one.path, manifestName))
		switch {
		case err == nil:
			one.complete, one.written = true, info.ModTime().UnixNano()
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b listed) int {
		return cmp.Or(cmp.Compare(b.step, a.step), cmp.Compare(b.written, a.written))
	})
	return all, nil
}

// remove deletes a set. Its manifest goes first: what a kill leaves is no set any more.
func remove(path string) error {
	if err := os.Remove(filepath.Join(path, manifestName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.Sync(path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// reclaim deletes what killed saves have left.
func reclaim(dir string) error {
	all, err := list(dir)
	for _, l := range all {
		if !l.complete {
			err = errors.Join(err, remove(l.path))
		}
	}
	return err
}

// retain deletes all but the newest complete sets, of which there are then at most keep. The set in
// newest is kept in any case.
func retain(dir, newest string, keep int) error {
	all, err := list(dir)
	kept := 1
	for _, l := range all {
		if !l.complete || l.path == newest {
			continue
		}
		if kept++; kept > keep {
			err = errors.Join(err, remove(l.path))
		}
	}
	return err
}
