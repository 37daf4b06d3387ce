package main

import (
	"bufio"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The framework that the vendor's tests include, and the program that runs them.
//
//go:embed cases
var framework embed.FS

// testFile matches the tests of phase one that the vendor's build takes. That of ops-math leaves
// those of op_host out.
var testFile = regexp.MustCompile(`/tests/ut/(op_api|op_host(/op_api)?)/test_aclnn_[^/]*\.cpp$`)

// suite is a file of tests. Its cases need not all be there: what uses CANN's internals is left out.
type suite struct {
	Repository, Path string
	Emulator         string // its commit
	Cases            []vendorCase
	LeftOut          []string // cases that do not compile
	Why              string   // the first error of those
	Error            string   // why nothing ran
}

func (s *suite) name() string { return s.Repository + "/" + s.Path }

// vendorCase is a case of a suite.
type vendorCase struct {
	Name     string
	Operator string // the last one that it called, without prefix
	Chip     string // that the last call was for
	Code     int    // of the last call
	Outcome  verdict
	Said     string `json:",omitempty"` // what the last call that was refused said, if the case did not pass
	Wrong    string `json:",omitempty"` // the first expectation that was not met
}

// verdict is the result of a case.
type verdict string

const (
	passed   verdict = "passed"
	differs  verdict = "failed"
	crashed  verdict = "crashed"
	absent   verdict = "absent" // the operator is not implemented
	noCall   verdict = "no call"
	needless verdict = "skipped"
)

// suitesOf finds the test files of a repository.
func suitesOf(folder, repository string) ([]suite, error) {
	paths, err := find(filepath.Join(folder, repository), func(path string) bool {
		return testFile.MatchString(path) && !strings.Contains(path, "/experimental/") && !strings.HasPrefix(path, "/tests/") &&
			!(repository == "ops-math" && strings.Contains(path, "/tests/ut/op_host/"))
	})
	var all []suite
	for _, p := range paths {
		all = append(all, suite{Repository: repository, Path: p})
	}
	return all, err
}

// bench is a toolkit with the framework of the vendor's tests.
type bench struct {
	*toolkit
	folder, runner, headers string
	programs                string // folder of a repository's compiled tests
}

func openBench(k *toolkit, folder, repository string) (*bench, error) {
	b := &bench{toolkit: k, folder: folder}
	if err := b.stage(repository); err != nil {
		return nil, err
	}
	header, err := framework.ReadFile("cases/standin.h")
	if err != nil {
		return nil, err
	}
	program, err := framework.ReadFile("cases/main.cpp")
	if err != nil {
		return nil, err
	}
	dir := k.binary("framework", string(header)+string(program))
	b.headers, b.runner = dir, filepath.Join(dir, "main.o")
	if _, err := os.Stat(b.runner); err == nil {
		return b, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if err := k.precompile(filepath.Join(dir, "standin.h"), string(header)); err != nil {
		return nil, err
	}
	source := filepath.Join(dir, "main.cpp")
	if err := os.WriteFile(source, program, 0o666); err != nil {
		return nil, err
	}
	args := append(append([]string{}, flags...), k.includes()...)
	_, err = command(context.Background(), nil, "g++", append(args, "-I"+dir, "-c", source, "-o", b.runner)...)
	return b, err
}

// stage makes the folder of a repository's compiled tests. Some read lists of cases, which they look for
// four folders above their own, as in the vendor's build.
func (b *bench) stage(repository string) error {
	source, err := filepath.Abs(filepath.Join(b.folder, repository))
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(source)
	if err != nil {
		return err
	}
	root := filepath.Join(b.work, repository)
	b.programs = filepath.Join(root, "programs", "tests", "ut", "op_api")
	if err := os.MkdirAll(b.programs, 0o777); err != nil {
		return err
	}
	for _, e := range entries {
		link := filepath.Join(root, e.Name())
		if !e.IsDir() || e.Name() == "programs" {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(filepath.Join(source, e.Name()), link); err != nil {
			return err
		}
	}
	return nil
}

var (
	lost     = regexp.MustCompile(`fatal error: (\S+): No such file`)
	testHead = regexp.MustCompile(`(?m)^\s*TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)`)
)

// compile makes the program of a suite. Headers that are in no toolkit come from the framework,
// and cases that need more than that are left out.
func (b *bench) compile(s *suite) (binary string, err error) {
	source := filepath.Join(b.folder, s.Repository, s.Path)
	original, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	text := string(original)
	binary = filepath.Join(b.programs, filepath.Base(b.binary("suite", filepath.Base(b.headers)+s.Path+text)))
	if list, err := os.ReadFile(binary + ".left"); err == nil {
		why, names, _ := strings.Cut(string(list), "\n")
		s.LeftOut, s.Why = strings.Fields(names), why
		return binary, nil
	}
	root := filepath.Join(b.folder, s.Repository)
	given := filepath.Join(b.headers, strings.ReplaceAll(s.Repository+"/"+s.Path, "/", "_"), "1", "2", "3", "4", "5")
	args := append(append([]string{}, flags...), "-include", filepath.Join(b.headers, "standin.h"), "-iquote", filepath.Dir(source), "-I"+given, "-I"+root,
		"-I"+filepath.Join(root, "common/inc"), "-I"+filepath.Join(root, "common/inc/external"), "-I"+filepath.Join(root, "common/inc/op_api"), "-I"+filepath.Join(root, "common/include/external"))
	args = append(append(args, b.includes()...), binary+".cpp", b.runner, "-o", binary, "-L"+filepath.Join(b.sdk, "lib64"), "-lgtest", "-lpthread",
		"-lascendcl", "-lnnopbase", "-lopapi", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,lazy")
	for range 40 {
		if err := os.WriteFile(binary+".cpp", []byte("#line 1 "+strconv.Quote(source)+"\n"+text), 0o666); err != nil {
			return "", err
		}
		out, err := command(context.Background(), nil, "g++", args...)
		if err == nil {
			return binary, os.WriteFile(binary+".left", []byte(s.Why+"\n"+strings.Join(s.LeftOut, "\n")), 0o666)
		}
		if m := lost.FindStringSubmatch(out); m != nil {
			if err := b.provide(given, m[1]); err != nil {
				return "", fmt.Errorf("%s: %w", m[1], err)
			}
			continue
		}
		shorter, names := leaveOut(text, filepath.Base(source), out)
		if len(names) == 0 {
			return "", errors.New(firstError(out))
		}
		text, s.LeftOut, s.Why = shorter, append(s.LeftOut, names...), cmp.Or(s.Why, firstError(out))
	}
	return "", errors.New("does not compile")
}

// provide makes a header that a suite wants: the toolkit's of that name, or the framework's.
func (b *bench) provide(dir, name string) error {
	path, include := filepath.Join(dir, name), filepath.Join(b.headers, "standin.h")
	if _, err := os.Stat(path); err == nil {
		return errors.New("is missing")
	}
	if own := filepath.Join(b.include, "aclnnop", filepath.Base(name)); fileExists(own) {
		include = own
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, []byte("#pragma once\n#include "+strconv.Quote(include)+"\n"), 0o666)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// leaveOut blanks the tests of a text in which a compiler's output has errors.
func leaveOut(text, file, output string) (shorter string, names []string) {
	lines := strings.Split(text, "\n")
	wrong := map[int]bool{}
	for _, m := range regexp.MustCompile(regexp.QuoteMeta(file)+`:(\d+):\d+:\s+(?:error|required from)`).FindAllStringSubmatch(output, -1) {
		n, _ := strconv.Atoi(m[1])
		wrong[n-1] = true
	}
	for i := 0; i < len(lines); i++ {
		head := testHead.FindStringSubmatch(strings.Join(lines[i:min(i+2, len(lines))], " "))
		if head == nil || !strings.Contains(lines[i], "TEST") {
			continue
		}
		end := i
		for end < len(lines)-1 && strings.TrimRight(lines[end], " \r") != "}" {
			end++
		}
		for j := i; j <= end; j++ {
			if wrong[j] {
				names = append(names, head[1]+"."+head[2])
				for k := i; k <= end; k++ {
					lines[k] = ""
				}
				break
			}
		}
		i = end
	}
	return strings.Join(lines, "\n"), names
}

// run compiles a suite and runs its cases, each on the chip that it asks for.
func (s *suite) run(b *bench, limit time.Duration) error {
	s.Emulator = b.commit
	binary, err := b.compile(s)
	if err != nil {
		s.Error = tail(err.Error(), 200)
		return nil
	}
	done, elsewhere := map[string]bool{}, map[string][]string{}
	if err := s.runOn(b, binary, defaultChip, nil, limit, done, elsewhere); err != nil {
		return err
	}
	for _, chip := range []string{"Ascend910_9391", "Ascend910A", "Ascend310P3", "Ascend950"} {
		if names := elsewhere[chip]; len(names) > 0 {
			if err := s.runOn(b, binary, chip, names, limit, done, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// runOn runs cases on a chip, the named ones or all, again after each that ends the program. Cases
// that ask for another chip are added to elsewhere.
func (s *suite) runOn(b *bench, binary, chip string, only []string, limit time.Duration, done map[string]bool, elsewhere map[string][]string) error {
	for range 100 {
		log := binary + ".log"
		_ = os.Remove(log)
		filter := "*"
		if only != nil {
			filter = strings.Join(slices.DeleteFunc(slices.Clone(only), func(n string) bool { return done[n] }), ":")
		} else if len(done) > 0 {
			filter = "*-"
			for n := range done {
				filter += ":" + n
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		out, err := command(ctx, append(b.environ(chip), "CONFORMANCE_LOG="+log, "GTEST_FILTER="+filter), binary)
		cancel()
		cases, whole, readErr := readLog(log)
		if readErr != nil {
			s.Error = tail(out, 200)
			return nil
		}
		for _, c := range cases {
			done[c.Name] = true
			if c.strayed() {
				c.Chip = home(c.Operator)
			}
			switch {
			case c.Chip == chip || c.Chip == "" || elsewhere == nil:
				s.Cases = append(s.Cases, c)
			default:
				elsewhere[c.Chip] = append(elsewhere[c.Chip], c.Name)
			}
		}
		if whole || len(cases) == 0 {
			for _, names := range elsewhere {
				for _, n := range names {
					delete(done, n)
				}
			}
			if err != nil && len(cases) == 0 {
				s.Error = tail(out, 200)
			}
			return nil
		}
	}
	return nil
}

// strayed reports whether a case failed because the 910B lacks its operator. The vendor compiles such a case
// for a chip that has the operator, and so the case names none.
func (c *vendorCase) strayed() bool {
	return c.Chip == defaultChip && c.Outcome == differs && home(c.Operator) != defaultChip
}

// readLog reads what a suite wrote. whole tells whether it came to its end.
func readLog(path string) (cases []vendorCase, whole bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		w := strings.Fields(lines.Text())
		if len(w) == 0 {
			continue
		}
		if w[0] == "start" {
			cases = append(cases, vendorCase{Name: w[1], Outcome: crashed})
			continue
		}
		if w[0] == "done" {
			return cases, true, nil
		}
		if len(cases) == 0 {
			continue
		}
		c := &cases[len(cases)-1]
		rest := strings.TrimPrefix(lines.Text(), w[0]+" ")
		switch w[0] {
		case "said":
			c.Said = rest
		case "wrong":
			c.Wrong = cmp.Or(c.Wrong, rest)
		case "call":
			c.Operator, c.Chip = strings.TrimPrefix(w[1], "aclnn"), w[2]
		case "code":
			c.Code, err = strconv.Atoi(w[1])
			if len(w) > 2 {
				c.Outcome = absent
			}
		case "end":
			switch {
			case w[1] == "skipped":
				c.Outcome = needless
			case c.Outcome == absent:
			case c.Operator == "" && w[1] == "passed":
				c.Outcome = noCall
			case w[1] == "passed":
				c.Outcome = passed
			default:
				c.Outcome = differs
			}
			if c.Outcome != differs {
				c.Said, c.Wrong = "", ""
			}
		}
	}
	return cases, false, errors.Join(err, lines.Err())
}
