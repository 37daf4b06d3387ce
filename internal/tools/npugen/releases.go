package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/header"
)

// history holds the declarations of each release, as checkouts of CANN's sources have them.
type history map[string]header.Declared // by release

// runReleases finds in which releases CANN's sources declare the functions and constants of the table, and writes
// that into the table. It also appends the operators that the table lacks. Arguments are
// folder[,release=revision…]: revisions are the tags of releases unless given.
func runReleases(args []string) error {
	if len(args) == 0 {
		return errors.New("releases: name the checkouts, as folder[,release=revision…]")
	}
	all := history{}
	parts := parts{}
	covered := map[string][]string{} // symbol → releases that a checkout with the symbol has
	for _, arg := range args {
		fields := strings.Split(arg, ",")
		revisions := map[string]string{}
		for _, f := range fields[1:] {
			release, revision, ok := strings.Cut(f, "=")
			if !ok {
				return fmt.Errorf("releases: %q is not release=revision", f)
			}
			revisions[release] = revision
		}
		one := history{}
		var releases []string
		for _, release := range abi.Releases()[1:] { // the table has CANN 8.1 from its headers
			revision, ok := revisions[release]
			if !ok {
				revision = revisionOf(fields[0], release)
			}
			if revision == "" || revision == "none" {
				continue
			}
			d, err := declaredIn(fields[0], revision)
			if err != nil {
				return err
			}
			one[release] = d
			parts.add(fields[0], release, d)
			releases = append(releases, release)
			fmt.Fprintf(os.Stderr, "%s %s (%s): %d functions, %d constants\n", path.Base(path.Dir(fields[0])), release, revision, len(d.Functions), len(d.Constants))
		}
		for release, d := range one {
			for _, names := range []iter.Seq[string]{maps.Keys(d.Functions), maps.Keys(d.Constants), maps.Keys(d.Types)} {
				for name := range names {
					cover(covered, name, releases)
				}
			}
			old, ok := all[release]
			if !ok {
				old = header.NewDeclared()
			}
			old.Add(d)
			all[release] = old
		}
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if err := parts.write(filepath.Join(root, "internal/abi/table/parts.txt")); err != nil {
		return err
	}
	return all.write(filepath.Join(root, "internal/abi/table"), covered)
}

// cover adds the releases of a checkout to those that checkouts with the name have.
func cover(covered map[string][]string, name string, releases []string) {
	for _, r := range releases {
		if !slices.Contains(covered[name], r) {
			covered[name] = append(covered[name], r)
		}
	}
}

// revisionOf returns the revision of a release in a checkout: its tag, else its branch, else what came before it.
func revisionOf(dir, release string) string {
	if release == abi.Unreleased {
		return "HEAD"
	}
	for _, r := range []string{"refs/tags/v" + release, "refs/heads/" + release, "refs/remotes/origin/" + release} {
		if _, err := git(dir, "rev-parse", "--verify", "--quiet", r+"^{commit}"); err == nil {
			return r
		}
	}
	return ""
}

// headerSources lists the files of a checkout that hold its headers, or from which its build generates headers.
var headerSources = []string{":(glob)**/*.h", ":(glob)**/*_def.cpp", ":(glob)**/CMakeLists.txt"}

var phaseOneInText = regexp.MustCompile(`aclnnStatus\s+acl\w+GetWorkspaceSize\s*\(`)

// declaredIn reads the headers of a checkout, those that its build generates, and the pages of operators that have neither.
func declaredIn(dir, revision string) (header.Declared, error) {
	all := header.NewDeclared()
	c, err := readRevision(dir, revision, append([]string{":(glob)**/*.md"}, headerSources...)...)
	if err != nil {
		return all, err
	}
	var pages []string
	for _, p := range slices.Sorted(maps.Keys(c.files)) {
		text := c.files[p]
		switch {
		case !installed(p):
		case path.Ext(p) == ".md":
			pages = append(pages, p)
		case strings.Contains(text, abi.PhaseOne) || strings.Contains(p, "include/") || strings.HasPrefix(p, "inc/external/"):
			d, err := header.Declarations(text, all.Constants)
			if err != nil && strings.Contains(text, "aclnnStatus") {
				return all, fmt.Errorf("%s of %s: %w", p, revision, err)
			}
			for name, f := range d.Functions {
				f.File = path.Base(p)
				d.Functions[name] = f
			}
			all.Add(d)
		}
	}
	generated, err := generatedHeaders(c.files)
	if err != nil {
		return all, fmt.Errorf("%s: %w", revision, err)
	}
	for _, name := range slices.Sorted(maps.Keys(generated)) {
		d, err := header.Declarations(generated[name], nil)
		if err != nil {
			return all, fmt.Errorf("%s, generated for %s: %w", name, revision, err)
		}
		for function, f := range d.Functions {
			f.File = name
			d.Functions[function] = f
		}
		all.Add(d)
	}
	for _, p := range pages {
		for _, at := range phaseOneInText.FindAllStringIndex(c.files[p], -1) {
			text := c.files[p][at[0]:]
			if end := strings.IndexAny(text, ")`"); end > 0 && text[end] == ')' {
				d, err := header.Declarations(strings.NewReplacer("`", "", "\\_", "_", "&nbsp;", " ").Replace(text[:end+1])+";", nil)
				if err != nil {
					continue // no prototype: a page names the function in its text
				}
				for name := range d.Functions {
					d.Functions[strings.TrimSuffix(name, abi.PhaseOne)] = header.Prototype{Ret: "aclnnStatus"}
				}
				all.Add(d)
			}
		}
	}
	return all, nil
}

// installed reports whether a file belongs to what a release installs, or documents that.
func installed(p string) bool {
	for _, part := range []string{"experimental/", "tests/", "test/", "third_party/", "examples/", "op_kernel/", "stub/", "docs/en/"} {
		if strings.HasPrefix(p, part) || strings.Contains(p, "/"+part) {
			return false
		}
	}
	return true
}

// entry holds the lines of the table with one name.
type entry struct {
	forms []*dated // by the text after the versions, oldest first
}

// dated is a line of the table, split at its versions.
type dated struct {
	kind, rest string
	key        string // what a header must declare
	types      string // of a function's parameters, or a constant's value
	versions   []string
}

// write rewrites the versions in the lines of the table's files.
func (all history) write(dir string, covered map[string][]string) error {
	table, err := abi.Load()
	if err != nil {
		return err
	}
	var texts []string
	known := map[string]bool{}
	for _, file := range []string{"cann.txt", "extra.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		texts = append(texts, string(text))
		for line := range strings.Lines(string(text)) {
			if f := strings.Split(line, "\t"); f[0] == "op" {
				known[f[3]] = true
			}
		}
	}
	for n, file := range []string{"cann.txt", "extra.txt"} {
		name := filepath.Join(dir, file)
		lines := strings.Split(strings.TrimSuffix(texts[n], "\n"), "\n")
		entries, at := map[string]*entry{}, make([]*dated, len(lines))
		for i, line := range lines {
			var err error
			if at[i], err = formOf(line); err != nil {
				return fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			if f := at[i]; f != nil && f.kind != "other" {
				if entries[f.key] == nil {
					entries[f.key] = &entry{}
				}
				entries[f.key].forms = append(entries[f.key].forms, f)
			}
		}
		added := map[*dated][]*dated{} // forms that come before another
		for key, e := range entries {
			last := e.forms[len(e.forms)-1]
			added[last] = append(added[last], all.date(key, e, covered[key])...)
		}
		var missing []string
		if file == "cann.txt" {
			missing = all.missing(table, known, covered)
		}
		var b strings.Builder
		for i, line := range lines {
			for len(missing) > 0 && strings.HasPrefix(line, "op\t") && compareOperators(missing[0], line) < 0 {
				b.WriteString(missing[0] + "\n")
				missing = missing[1:]
			}
			switch {
			case at[i] == nil, at[i].kind == "other" && len(covered[at[i].key]) == 0:
				b.WriteString(line + "\n")
				continue
			case at[i].kind == "other": // found anew
				continue
			}
			forms := append(added[at[i]], at[i])
			slices.SortStableFunc(forms, compareNewest)
			for _, f := range forms {
				if len(f.versions) > 0 {
					b.WriteString(f.kind + "\t" + abi.VersionText(f.versions) + "\t" + f.rest + "\n")
				}
			}
		}
		for _, line := range missing {
			b.WriteString(line + "\n")
		}
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	_, err = abi.Load()
	return err
}

// publicOperator reports whether programs are meant to call an operator. CANN calls others within its own; guides
// have a placeholder.
func publicOperator(symbol string) bool {
	return strings.HasPrefix(symbol, "aclnn") && !strings.HasPrefix(symbol, "aclnnInner") && !strings.HasSuffix(symbol, "Base") && symbol != "aclnnXxx"
}

// missing returns the lines of the operators that the table lacks, in its order.
func (all history) missing(table *abi.Table, known map[string]bool, covered map[string][]string) (lines []string) {
	for name := range covered {
		symbol, ok := strings.CutSuffix(name, abi.PhaseOne)
		if !ok || known[symbol] || !publicOperator(symbol) || table.Outside(symbol, "") != "" {
			continue
		}
		newest := &dated{kind: "op"}
		for _, release := range abi.Releases() {
			f, ok := all[release].Functions[name]
			if n := len(f.Params); ok && f.Unread == "" && n > 2 && f.Params[n-1].Type == "aclOpExecutor **" {
				newest.types = f.Types()
				if f.File != "" && "aclnnop/"+f.File != abi.UsualHeader(symbol) {
					newest.rest = "aclnnop/" + f.File + "\t" + symbol
				} else {
					newest.rest = "\t" + symbol
				}
				for _, p := range f.Params[:n-2] {
					newest.rest += "\t" + p.Name + ":" + p.Type
				}
			}
		}
		for _, form := range append(all.date(name, &entry{forms: []*dated{newest}}, covered[name]), newest) {
			if len(form.versions) > 0 {
				lines = append(lines, form.kind+"\t"+abi.VersionText(form.versions)+"\t"+form.rest)
			}
		}
	}
	slices.SortFunc(lines, compareOperators)
	return lines
}

// compareOperators orders lines of operators by the names of their phases one, and the forms of one by release.
func compareOperators(a, b string) int {
	x, y := strings.Split(a, "\t"), strings.Split(b, "\t")
	return cmp.Or(strings.Compare(x[3]+abi.PhaseOne, y[3]+abi.PhaseOne), strings.Compare(x[1], y[1]))
}

// compareNewest orders forms by the newest release that has them, as abi.Parse reads them.
func compareNewest(a, b *dated) int {
	newest := func(d *dated) int {
		if len(d.versions) == 0 {
			return -1
		}
		return slices.Index(abi.Releases(), d.versions[len(d.versions)-1])
	}
	return cmp.Compare(newest(a), newest(b))
}

// formOf splits a line of the table; it returns nil for lines without releases.
func formOf(line string) (*dated, error) {
	f := strings.Split(line, "\t")
	place := map[string]int{"func": 3, "op": 3, "other": 3, "const": 3, "type": 2, "record": 4}[f[0]]
	if place == 0 || f[1] == abi.Custom {
		return nil, nil
	}
	versions, err := abi.ParseVersions(f[1])
	if err != nil {
		return nil, err
	}
	one := &dated{kind: f[0], rest: strings.Join(f[2:], "\t"), key: f[place], versions: versions}
	params := f[place+1:]
	switch f[0] {
	case "const":
		one.types = f[4]
		return one, nil
	case "func":
		params = params[1:] // the result
	case "op", "other":
		one.key += abi.PhaseOne
		params = append(params, "workspaceSize:uint64_t *", "executor:aclOpExecutor **")
	default:
		return one, nil
	}
	var types []string
	for _, p := range params {
		if _, t, ok := strings.Cut(p, ":"); ok {
			types = append(types, t)
		}
	}
	one.types = strings.Join(types, ", ")
	return one, nil
}

// date sets the releases of the forms of an entry, and returns the forms that the table lacks. Where no checkout
// declares the name the table keeps its releases. What a checkout without a release has before and after it, it had then.
// An operator has one form for calls: a release whose header has another one counts as a release without it, and its
// form is returned as a line of kind other.
func (all history) date(key string, e *entry, covered []string) (more []*dated) {
	last := e.forms[len(e.forms)-1]
	releases := abi.Releases()[1:]
	layouts := last.kind == "record" && len(e.forms) > 1                                            // which the headers are not read for
	common := last.kind == "const" && !strings.Contains(key, "_")                                   // such as L1, which internal enums have too
	if len(covered) == 0 || layouts || common || strings.HasPrefix(strings.ToLower(key), "dcmi_") { // the driver has releases of its own
		return nil
	}
	if last.kind == "record" { // a union may have its name in the table alone
		for _, release := range releases {
			if _, _, ok := all.declared(key, release, last.kind); ok && !slices.Contains(last.versions, release) {
				last.versions = append(last.versions, release)
			}
		}
		return nil
	}
	for _, f := range e.forms {
		f.versions = slices.DeleteFunc(f.versions, func(v string) bool { return v != abi.V81RC1 })
	}
	var before *dated
	for i, release := range releases {
		types, params, ok := all.declared(key, release, last.kind)
		switch {
		case ok && last.kind == "op" && all[release].Functions[key].File != "" && types != "" && wide(types) != wide(last.types):
			before = nil
			i := slices.IndexFunc(more, func(f *dated) bool { return f.kind == "other" && f.types == types })
			if i < 0 {
				i = len(more)
				fields := strings.Split(last.rest, "\t")
				more = append(more, &dated{kind: "other", rest: strings.Join(fields[:2], "\t") + withoutTail(params), types: types, key: key})
			}
			more[i].versions = append(more[i].versions, release)
		case ok && last.kind == "type":
			last.versions = append(last.versions, release)
			before = last
		case ok:
			callable := slices.DeleteFunc(slices.Clone(more), func(f *dated) bool { return f.kind == "other" })
			before = formWith(append(slices.Clone(e.forms), callable...), types, last)
			if before == nil {
				before = &dated{kind: last.kind}
				switch fields := strings.Split(last.rest, "\t"); last.kind {
				case "op":
					before.rest = strings.Join(fields[:2], "\t") + withoutTail(params)
				case "func":
					before.rest = strings.Join(fields[:3], "\t") + params
				case "const":
					before.rest = strings.Join(fields[:2], "\t") + "\t" + types
				}
				before.types, before.key = types, key
				more = append(more, before)
			}
			before.versions = append(before.versions, release)
		case slices.Contains(covered, release):
			before = nil // gone; what comes back later may do so in any release
		case before != nil && slices.ContainsFunc(releases[i:], func(r string) bool {
			_, _, later := all.declared(key, r, last.kind)
			return later
		}):
			before.versions = append(before.versions, release)
		}
	}
	return more
}

// withoutTail returns the fields of phase one's parameters without the last two, which all operators have.
func withoutTail(params string) string {
	fields := strings.Split(params, "\t")
	return strings.Join(fields[:max(len(fields)-2, 0)], "\t")
}

// declared returns what a release declares under a name: the types of a function's parameters or the value of a
// constant, and the fields of a line of the table for a function.
func (all history) declared(key, release, kind string) (types, params string, ok bool) {
	d := all[release]
	switch kind {
	case "const":
		v, ok := d.Constants[key]
		return v, "", ok
	case "type":
		return "", "", d.Types[key]
	case "record":
		_, ok := d.Record(key)
		return "", "", ok
	}
	f, ok := d.Functions[key]
	for _, p := range f.Params {
		params += "\t" + p.Name + ":" + p.Type
	}
	if f.Unread != "" {
		return "", "", ok // whatever the table says
	}
	return f.Types(), params, ok
}

// plain returns types as a call sees them, and wide also without the width of integers.
func plain(types string) string {
	return strings.NewReplacer("const ", "", "aclrtDim3", "dim3").Replace(types)
}
func wide(types string) string { return strings.ReplaceAll(plain(types), "int32_t", "int64_t") }

// formWith returns the form with these types, else the newest one whose types differ from them only in const, else
// nil. Of constants only equal ones fit.
func formWith(forms []*dated, types string, last *dated) *dated {
	for _, f := range forms {
		if f.types == types {
			return f
		}
	}
	if last.kind != "const" && (types == "" && strings.Contains(last.types, "aclTensor") || plain(types) == plain(last.types) || strings.HasSuffix(last.rest, "\t...")) {
		return last
	}
	if last.kind == "op" && wide(types) != wide(last.types) { // a page may name fewer: it is no header
		return last
	}
	return nil
}
