package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/tools/phaseone"
)

// runPhaseOne reads the sources of CANN's operators and writes the rules of their phase one. An
// argument names a repository, the folder that holds it, and its commit: ops-math=DIR@COMMIT.
func runPhaseOne(args []string) error {
	if len(args) == 0 {
		return errors.New("phaseone: name the repositories as name=folder@commit")
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	t, err := abi.Load()
	if err != nil {
		return err
	}
	for _, a := range args {
		name, rest, ok := strings.Cut(a, "=")
		dir, commit, ok2 := strings.Cut(rest, "@")
		if !ok || !ok2 {
			return fmt.Errorf("phaseone: %q is not name=folder@commit", a)
		}
		r, err := phaseone.Open(name, dir, commit)
		if err != nil {
			return err
		}
		text := phaseone.Text(r, r.Extract(t))
		if err := os.WriteFile(filepath.Join(root, "internal/abi/acceptance", name+".txt"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
