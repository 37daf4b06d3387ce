package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/header"
)

// typesFile has the lines of the table that this command writes.
const typesFile = "internal/abi/table/types.txt"

// runTypes writes the constants, types and records into the table that headers of releases declare and that the rest
// of the table lacks. Arguments are release=folder, with the headers that the command headers wrote.
func runTypes(args []string) error {
	if len(args) == 0 {
		return errors.New("types: name the folders of headers, as release=folder")
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	name := filepath.Join(root, typesFile)
	if err := os.WriteFile(name, nil, 0o644); err != nil { // the lines of an earlier run
		return err
	}
	table, err := loadTable(filepath.Dir(name))
	if err != nil {
		return err
	}
	found := map[string]map[string]string{} // lines without releases, by name and release
	for _, arg := range args {
		release, dir, ok := strings.Cut(arg, "=")
		if !ok || !slices.Contains(abi.Releases(), release) {
			return fmt.Errorf("types: %q is not release=folder", arg)
		}
		lines, err := typeLines(table, release, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		for name, line := range lines {
			if found[name] == nil {
				found[name] = map[string]string{}
			}
			found[name][release] = line
		}
	}
	var b strings.Builder
	b.WriteString("# Constants, types and records that CANN's headers declare and the other files lack. Made by `npugen types`; see parse.go for the grammar.\n")
	for _, kind := range []string{"type", "record", "const"} {
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(found)) {
			forms, err := formsOf(found[name])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			for _, form := range forms {
				if strings.HasPrefix(form, kind+"\t") {
					lines = append(lines, form)
				}
			}
		}
		if kind == "const" {
			slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(strings.Split(a, "\t")[2], strings.Split(b, "\t")[2]) })
		}
		b.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		return err
	}
	_, err = loadTable(filepath.Dir(name))
	return err
}

// loadTable parses the files of the table as they are on the disk.
func loadTable(dir string) (*abi.Table, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var texts []abi.Text
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts = append(texts, abi.Text{Name: filepath.Base(name), Data: string(b)})
	}
	return abi.Parse(texts...)
}

// formsOf returns the lines of a name, one for each form that releases have, the newest last.
func formsOf(lines map[string]string) (forms []string, err error) {
	versions := map[string][]string{}
	var order []string
	for _, release := range abi.Releases() {
		line, ok := lines[release]
		if !ok {
			continue
		}
		if versions[line] == nil {
			order = append(order, line)
		}
		versions[line] = append(versions[line], release)
	}
	slices.SortStableFunc(order, func(a, b string) int {
		return cmp.Compare(slices.Index(abi.Releases(), versions[a][len(versions[a])-1]), slices.Index(abi.Releases(), versions[b][len(versions[b])-1]))
	})
	for _, line := range order {
		kind, rest, _ := strings.Cut(line, "\t")
		if kind == "type" && len(order) > 1 {
			return nil, fmt.Errorf("releases have it as %q", order)
		}
		forms = append(forms, kind+"\t"+abi.VersionText(versions[line])+"\t"+rest)
	}
	return forms, nil
}

// typeLines returns the lines without releases of what the headers of a release declare and the table lacks, by name.
func typeLines(table *abi.Table, release, dir string) (map[string]string, error) {
	c, all, err := header.Lacking(table, release, os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	lines := map[string]string{}
	w := &typeWriter{table: table, all: all, lines: lines, enums: map[string]header.Enum{}, enumOf: map[string]string{}}
	for _, e := range all.Enums {
		if e.Name == "" {
			continue
		}
		w.enums[e.Name] = e
		for _, m := range e.Members {
			w.enumOf[m] = e.Name
		}
	}
	for _, k := range table.Constants {
		w.known(k.Name)
		w.known(k.Enum)
	}
	for _, d := range table.Typedefs {
		if _, record := all.Record(d.Name); !record || d.Target != d.Name {
			w.known(d.Name)
		}
	}
	for _, r := range table.Records {
		w.known(r.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if err := w.add(name, c[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return lines, nil
}

// typeWriter makes lines of the table from declarations.
type typeWriter struct {
	table  *abi.Table
	all    header.Declared
	lines  map[string]string
	enums  map[string]header.Enum
	enumOf map[string]string // the enums of enumerators
	have   map[string]bool   // names that need no line
}

func (w *typeWriter) known(name string) {
	if w.have == nil {
		w.have = map[string]bool{}
	}
	w.have[name] = true
}

// add writes the lines of a name, and of the types that it mentions.
func (w *typeWriter) add(name, at string) error {
	if w.have[name] {
		return nil
	}
	w.known(name)
	if e, ok := w.enums[name]; ok {
		for _, m := range e.Members {
			if err := w.add(m, at); err != nil {
				return err
			}
		}
		return nil
	}
	if r, ok := w.all.Records[name]; ok {
		return w.record(name, at, &r)
	}
	if target, ok := w.all.Typedefs[name]; ok {
		if target != name {
			if err := w.mentioned(target, at); err != nil {
				return err
			}
		}
		w.lines[name] = "type\t" + name + "\t" + strings.ReplaceAll(target, "* ( *)", "*( *)")
		return nil
	}
	if value, ok := w.all.Constants[name]; ok {
		enum := w.enumOf[name]
		w.lines[name] = "const\t" + cmp.Or(enum, "-") + "\t" + name + "\t" + value
		if enum == "" && !strings.HasPrefix(name, "ACL") && !strings.HasPrefix(name, "HCCL") {
			w.lines[name] += "\t" + at
		}
		if enum != "" {
			return w.add(enum, at)
		}
	}
	return nil
}

// mentioned adds the types that a type mentions.
func (w *typeWriter) mentioned(ctype, at string) error {
	for _, word := range strings.FieldsFunc(ctype, func(r rune) bool { return strings.ContainsRune(" *()[],", r) }) {
		if _, record := w.all.Records[word]; !record && w.all.Typedefs[word] == "" {
			continue
		}
		if err := w.add(word, at); err != nil {
			return err
		}
	}
	return nil
}

// record writes the line of a record; records that a field declares get a name of the record and the field.
func (w *typeWriter) record(name, at string, r *header.Record) error {
	l, err := w.all.Layout(r)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("record\t%s\t%s\t%s\t%d", at, r.Kind, name, l.Size)
	for i, f := range r.Fields {
		ctype := f.Type
		if f.Inner != nil {
			inner := fmt.Sprintf("%s_%s", name, cmp.Or(f.Name, fmt.Sprint(i)))
			if err := w.record(inner, at, f.Inner); err != nil {
				return err
			}
			ctype = inner + f.Type
		} else if err := w.mentioned(ctype, at); err != nil {
			return err
		}
		if base, sizes, _ := strings.Cut(ctype, "["); header.OfSystem(base) {
			ctype = strings.TrimSuffix("struct "+base+"["+sizes, "[")
		}
		line += fmt.Sprintf("\t%s:%s@%d", f.Name, ctype, l.Offsets[i])
	}
	w.lines[name] = line
	return nil
}
