package main

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
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
	Cases            []vendorCase
	LeftOut          []string // cases that do not compile
	Error            string   // why nothing ran
}

// vendorCase is a case of a suite.
type vendorCase struct {
	Name     string
	Operator string // the last one that it called, without prefix
	Chip     string // that the last call was for
	Code     int    // of the last call
	Outcome  verdict
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
}

func openBench(k *toolkit, folder string) (*bench, error) {
	b := &bench{toolkit: k, folder: folder}
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
	binary = b.binary("suite", filepath.Base(b.headers)+s.Path+text)
	if list, err := os.ReadFile(binary + ".left"); err == nil {
		s.LeftOut = strings.Fields(string(list))
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
			return binary, os.WriteFile(binary+".left", []byte(strings.Join(s.LeftOut, "\n")), 0o666)
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
		text, s.LeftOut = shorter, append(s.LeftOut, names...)
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
	binary, err := b.compile(s)
	if err != nil {
		s.Error = tail(err.Error(), 200)
		return nil
	}
	done, elsewhere := map[string]bool{}, map[string][]string{}
	if err := s.runOn(b, binary, "Ascend910B1", nil, limit, done, elsewhere); err != nil {
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
			switch {
			case c.Chip == chip || c.Chip == "":
				s.Cases = append(s.Cases, c)
			case elsewhere != nil:
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

// readLog reads what a suite wrote. whole tells whether it came to its end.
func readLog(path string) (cases []vendorCase, whole bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
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
		switch w[0] {
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
		}
	}
	return cases, false, err
}
