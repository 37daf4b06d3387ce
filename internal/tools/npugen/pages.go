package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// pagesFile lists the public page of each operator.
const pagesFile = "internal/tools/npugen/docs/pages.txt"

// runPages finds the vendor's page of each operator in checkouts of public repositories, given as
// owner/repository=folder, and what the pages say of chips and element types. If several have a page, the first one
// given is used.
func runPages(args []string) error {
	if len(args) == 0 {
		return errors.New("pages: name the checkouts, as owner/repository=folder")
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	t, err := abi.Load()
	if err != nil {
		return err
	}
	var from []checkout
	for _, arg := range args {
		name, dir, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("pages: %q is not owner/repository=folder", arg)
		}
		c, err := readCheckout(name, dir, ":(glob)**/*.md", ":(glob)**/*_def.cpp")
		if err != nil {
			return err
		}
		from = append(from, c)
	}
	sites := sitesOf(t, from)
	made := files{pagesFile: pagesText(t, from, sites), productsFile: productsText(t, sites), documentedFile: documentedText(t, sites)}
	for path, text := range made {
		if err := os.WriteFile(filepath.Join(root, path), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// checkout holds files of a repository at one commit, by path.
type checkout struct {
	name, commit string
	files        map[string]string
}

// git returns the output of a git command in a checkout.
func git(dir string, args ...string) ([]byte, error) {
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("git %s in %s: %w", args[0], dir, err)
	}
	return out, nil
}

// readCheckout returns the files of the newest commit of a checkout, which may be a bare one.
func readCheckout(name, dir string, files ...string) (checkout, error) {
	c, err := readRevision(dir, "HEAD", files...)
	c.name = name
	return c, err
}

// readRevision returns the files of a revision of a checkout.
func readRevision(dir, revision string, files ...string) (checkout, error) {
	commit, err := git(dir, "rev-parse", revision+"^{commit}")
	if err != nil {
		return checkout{}, err
	}
	names, err := git(dir, "ls-tree", "-r", "--name-only", revision)
	if err != nil {
		return checkout{}, err
	}
	files = slices.DeleteFunc(slices.Clone(files), func(pattern string) bool { // git refuses a pattern that nothing matches
		return !slices.ContainsFunc(strings.Split(string(names), "\n"), func(name string) bool {
			ok, _ := path.Match(path.Base(pattern), path.Base(name))
			return ok
		})
	})
	if len(files) == 0 {
		return checkout{commit: strings.TrimSpace(string(commit))}, nil
	}
	archive, err := git(dir, append([]string{"archive", "--format=tar", revision, "--"}, files...)...)
	if err != nil {
		return checkout{}, err
	}
	c := checkout{commit: strings.TrimSpace(string(commit)), files: map[string]string{}}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return c, nil
		} else if err != nil {
			return c, fmt.Errorf("archive of %s: %w", dir, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return c, fmt.Errorf("archive of %s: %w", dir, err)
		}
		c.files[h.Name] = string(text)
	}
}

// pagesText returns the table of pages in the grammar of docs.Load. It contains paths and the
// numbers of dimensions that pages state for tensors, but no text of a page.
func pagesText(t *abi.Table, from []checkout, sites map[string]site) []byte {
	var b bytes.Buffer
	b.WriteString("# The public page of each operator. Made by `npugen pages` from checkouts of the repositories; see docs.go for the grammar.\n\n")
	for _, c := range from {
		fmt.Fprintf(&b, "repository\t%s\t%s\n", c.name, c.commit)
	}
	b.WriteString("\n")
	for i := range t.Operators {
		o := &t.Operators[i]
		at, ok := sites[o.Name]
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "page\t%s\t%s\t%s", o.Symbol, at.name, at.path)
		ranks := pageRanks(at.text(), o)
		for _, p := range o.Params {
			if r := ranks[p.Name]; r != "" {
				fmt.Fprintf(&b, "\t%s:%s", p.Name, r)
			}
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// site is the place of an operator's page.
type site struct {
	checkout
	path string
}

func (s site) text() string { return s.files[s.path] }

// sitesOf finds the pages of all operators, by the operators' names.
func sitesOf(t *abi.Table, from []checkout) map[string]site {
	sites := map[string]site{}
	for _, o := range t.Operators {
		if c, page, ok := findPage(from, o.Symbol); ok {
			sites[o.Name] = site{c, page}
		}
	}
	return sites
}

// findPage searches all checkouts for the file named after the operator, then for a file in an
// operator's folder that names it. Experimental folders are searched last.
func findPage(from []checkout, symbol string) (c checkout, page string, ok bool) {
	word := regexp.MustCompile(`\b` + symbol + `\b`)
	named := func(p, _ string) bool {
		return slices.ContainsFunc(strings.Split(strings.TrimSuffix(path.Base(p), ".md"), "&"), func(s string) bool {
			return strings.EqualFold(s, symbol)
		})
	}
	mentions := func(p, text string) bool {
		base := path.Base(p)
		return (base == "README.md" && strings.Count(p, "/") > 1 || path.Base(path.Dir(p)) == "docs" && base == "api.md") && word.MatchString(text)
	}
	for _, fits := range []func(p, text string) bool{named, mentions} {
		for _, c := range from {
			var found []string
			for p, text := range c.files {
				if path.Ext(p) == ".md" && fits(p, text) {
					found = append(found, p)
				}
			}
			if len(found) > 0 {
				return c, slices.MinFunc(found, comparePages), true
			}
		}
	}
	return checkout{}, "", false
}

func comparePages(a, b string) int {
	rank := func(p string) int {
		if strings.HasPrefix(p, "experimental/") {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
}
