package header

import (
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// Comparison is how headers differ from the table's account of a release.
type Comparison struct {
	Equal     int          // functions and constants that agree
	Missing   []string     // that the release has by the table and no header declares
	Different []Difference // that a header declares in another way
	Unknown   []string     // operators and functions of CANN that the table lacks in the release
	Outside   []Outside    // functions that the table leaves out, or that no header declares, on purpose
	Headers   []Count      // the same by header, sorted by path
}

// Count counts the declarations of one header. What no header declares counts at the header of the table.
type Count struct {
	Header                                      string // from the folder acl, aclnn, aclnnop or hccl on
	Equal, Missing, Different, Unknown, Outside int
}

// Outside is a function that is not compared, with the reason.
type Outside struct{ Name, Reason string }

// Difference is a declaration that is not that of the table.
type Difference struct {
	Name, Table, Header string
}

// String returns the difference in words.
func (d Difference) String() string {
	return fmt.Sprintf("%s: the table has (%s), the header (%s)", d.Name, d.Table, d.Header)
}

// Compare compares the C headers below fsys with a release of the table. It compares what folders of CANN's headers
// that exist there declare (acl, aclnn, aclnnop, hccl): parameter types of functions without const, which does not
// change a call, and values of constants. It does not compare the layout of structs.
func Compare(t *abi.Table, release string, fsys fs.FS) (c Comparison, err error) {
	if !slices.Contains(abi.Releases(), release) {
		return c, fmt.Errorf("release %q is unknown; known are %s", release, strings.Join(abi.Releases(), ", "))
	}
	all, folders := NewDeclared(), map[string]bool{}
	var texts []file
	at, counts := map[string]string{}, map[string]*Count{} // headers by name of a declaration, and counts by header
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(p) != ".h" {
			return err
		}
		text, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		name := p
		for _, folder := range []string{"acl", "aclnn", "aclnnop", "hccl"} {
			if i := strings.LastIndex("/"+p, "/"+folder+"/"); i >= 0 {
				folders[folder], name = true, p[i:]
			}
		}
		texts = append(texts, file{name, string(text)})
		return nil
	})
	if err != nil {
		return c, err
	}
	if len(folders) == 0 {
		return c, fmt.Errorf("no folder acl, aclnn, aclnnop or hccl with headers")
	}
	for range 2 { // a constant may refer to one of a header that is read later
		for _, f := range texts {
			d, err := Declarations(f.text, all.Constants)
			if err != nil {
				continue // C++ that no prototype of CANN is in
			}
			for _, names := range []iter.Seq[string]{maps.Keys(d.Functions), maps.Keys(d.Constants)} {
				for name := range names {
					if at[name] == "" {
						at[name] = f.name
					}
				}
			}
			all.Add(d)
		}
	}
	count := func(header string) *Count {
		if counts[header] == nil {
			counts[header] = &Count{Header: header}
		}
		return counts[header]
	}
	known := map[string]bool{}
	for _, f := range t.AllFunctions() {
		known[f.Name] = true
		got, declared := all.Functions[f.Name]
		params, ok := f.Declared(release)
		folder, _, _ := strings.Cut(f.Header, "/")
		switch {
		case !folders[folder]:
			continue
		case !ok && declared:
			c.Unknown = append(c.Unknown, f.Name)
			count(at[f.Name]).Unknown++
			continue
		case !ok:
			continue
		}
		want := Prototype{Params: params}.Types()
		switch {
		case !declared && t.Outside(f.Name, "") != "":
			c.Outside = append(c.Outside, Outside{f.Name, t.Outside(f.Name, "")})
			count(f.Header).Outside++
		case !declared:
			c.Missing = append(c.Missing, f.Name)
			count(f.Header).Missing++
		case got.Unread != "" || called(got.Types()) != called(want) && !f.Variadic:
			c.Different = append(c.Different, Difference{f.Name, want, got.Types() + got.Unread})
			count(at[f.Name]).Different++
		default:
			c.Equal++
			count(at[f.Name]).Equal++
		}
	}
	for i := range t.Constants {
		k := &t.Constants[i]
		value, ok := k.At(release)
		got, declared := all.Constants[k.Name]
		if known[k.Name] = true; !ok || !declared {
			continue // a constant has no header in the table
		}
		if got != value {
			c.Different = append(c.Different, Difference{k.Name, value, got})
			count(at[k.Name]).Different++
			continue
		}
		c.Equal++
		count(at[k.Name]).Equal++
	}
	for name := range all.Functions {
		for _, prefix := range []string{"acl", "Hccl"} {
			if rest, ok := strings.CutPrefix(name, prefix); ok && !known[name] && rest != "" && !strings.HasPrefix(name, "aclnnInner") {
				if reason := t.Outside(name, at[name]); reason != "" {
					c.Outside = append(c.Outside, Outside{name, reason})
					count(at[name]).Outside++
					continue
				}
				c.Unknown = append(c.Unknown, name)
				count(at[name]).Unknown++
			}
		}
	}
	slices.Sort(c.Unknown)
	slices.SortFunc(c.Outside, func(a, b Outside) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		c.Headers = append(c.Headers, *counts[name])
	}
	return c, nil
}

// file is a header that was read.
type file struct{ name, text string }

// called returns types as a call sees them: without const, and with the names that CANN gave one type in turn.
func called(types string) string {
	return strings.NewReplacer("const ", "", "aclrtDim3", "dim3").Replace(types)
}
