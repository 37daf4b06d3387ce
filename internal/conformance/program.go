package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goascend/cann/internal/abi/acceptance"
)

// program is a published example of one or more operators.
type program struct {
	Repository, Path string
	Operators        []string // that it calls, without prefix
	Emulator         string   // its commit
	Outcome          outcome
	Detail           string // the first message of the compiler, or the last lines of the program
}

// outcome is the last stage that a program reached.
type outcome string

const (
	ran        outcome = "ran"
	failed     outcome = "failed"
	late       outcome = "late"
	uncompiled outcome = "not compiled"
)

var (
	comment  = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	phaseOne = regexp.MustCompile(`\baclnn(\w+)GetWorkspaceSize\s*\(`)
	// complaint is how the examples report an error, whatever they return.
	complaint = regexp.MustCompile(`(?i)\bfailed\b|\berror\b`)
)

// programsOf finds the examples of a repository that call operators, all of them known: the sources
// have some that CANN's headers lack.
func programsOf(folder, repository string, known func(string) bool) ([]program, error) {
	paths, err := find(filepath.Join(folder, repository), func(path string) bool {
		return strings.Contains(path, "/examples/") && strings.HasPrefix(filepath.Base(path), "test_aclnn_") && strings.HasSuffix(path, ".cpp") && !strings.HasPrefix(path, "/experimental/")
	})
	if err != nil {
		return nil, err
	}
	var all []program
	for _, path := range paths {
		b, err := os.ReadFile(filepath.Join(folder, repository, path))
		if err != nil {
			return nil, err
		}
		p, complete := program{Repository: repository, Path: path}, true
		for _, m := range phaseOne.FindAllStringSubmatch(comment.ReplaceAllString(string(b), " "), -1) {
			if !slices.Contains(p.Operators, m[1]) {
				p.Operators = append(p.Operators, m[1])
				complete = complete && known(m[1])
			}
		}
		if len(p.Operators) > 0 && complete {
			all = append(all, p)
		}
	}
	return all, nil
}

func (p *program) name() string { return p.Repository + "/" + p.Path }

// chip is the chip that an example is for, by the folder's name of its architecture. Those that send
// tokens to experts have tensor parallelism there, which an Atlas A2 has not, and the 910B lacks some
// operators.
func (p *program) chip() string {
	switch {
	case strings.Contains(p.Path, "/arch35/"):
		return "Ascend950"
	case strings.Contains(p.Path, "/arch20/"):
		return "Ascend310P3"
	case slices.ContainsFunc(p.Operators, func(o string) bool { return strings.HasPrefix(o, "MoeDistribute") }):
		return "Ascend910_9391"
	}
	for _, o := range p.Operators {
		if chip := home(o); chip != defaultChip {
			return chip
		}
	}
	return defaultChip
}

// defaultChip is the chip of programs and cases that name none.
const defaultChip = "Ascend910B1"

// home names the chip that is tried for an operator: another than the 910B if that lacks it.
func home(operator string) string {
	chip, err := acceptance.Home(operator)
	if err != nil {
		return defaultChip
	}
	return map[acceptance.Chip]string{acceptance.Ascend910B: defaultChip, acceptance.Ascend910_93: "Ascend910_9391", acceptance.Ascend950: "Ascend950",
		acceptance.Ascend310P: "Ascend310P3", acceptance.Ascend910: "Ascend910A"}[chip]
}

// try compiles the program and runs it with a time limit.
func (p *program) try(k *toolkit, folder string, limit time.Duration) error {
	p.Emulator = k.commit
	source := filepath.Join(folder, p.Repository, p.Path)
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	binary := k.binary("program", p.Path+string(text))
	if _, err := os.Stat(binary); err != nil {
		args := append(append([]string{}, flags...), "-include", k.prefix())
		args = append(args, "-idirafter", filepath.Join(folder, p.Repository, "common/include/external")) // of the sources' own headers
		args = append(append(args, k.includes()...), source, "-o", binary, "-L"+filepath.Join(k.sdk, "lib64"), "-lascendcl", "-lnnopbase", "-lopapi", "-lhccl", "-lc_sec", "-lpthread")
		if out, err := command(context.Background(), nil, "g++", args...); err != nil {
			p.Outcome, p.Detail = uncompiled, firstError(out)
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := command(ctx, k.environ(p.chip()), binary)
	switch {
	case errors.Is(err, errTime):
		p.Outcome = late
	case err != nil || complaint.MatchString(out):
		p.Outcome = failed
	default:
		p.Outcome = ran
		return nil
	}
	p.Detail = tail(out, 600)
	if err != nil && p.Outcome == failed {
		p.Detail += fmt.Sprintf(" (%v)", errors.Unwrap(err))
	}
	return nil
}

// tail is the end of a text, of n bytes at most.
func tail(text string, n int) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-n):]
}
