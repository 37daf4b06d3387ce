package header

import (
	"fmt"
	"io/fs"
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
	Unknown   []string     // operators and functions of CANN that the table lacks
}

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
	var texts []string
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(p) != ".h" {
			return err
		}
		text, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		for _, folder := range []string{"acl", "aclnn", "aclnnop", "hccl"} {
			if path.Base(path.Dir(p)) == folder || strings.Contains("/"+p, "/"+folder+"/") {
				folders[folder] = true
			}
		}
		texts = append(texts, string(text))
		return nil
	})
	if err != nil {
		return c, err
	}
	if len(folders) == 0 {
		return c, fmt.Errorf("no folder acl, aclnn, aclnnop or hccl with headers")
	}
	for range 2 { // a constant may refer to one of a header that is read later
		for _, text := range texts {
			d, err := Declarations(text, all.Constants)
			if err != nil {
				continue // C++ that no prototype of CANN is in
			}
			all.Add(d)
		}
	}
	known := map[string]bool{}
	for _, f := range t.AllFunctions() {
		known[f.Name] = true
		params, ok := f.At(release)
		folder, _, _ := strings.Cut(f.Header, "/")
		if !ok || !folders[folder] {
			continue
		}
		got, declared := all.Functions[f.Name]
		want := Prototype{Params: params}.Types()
		switch {
		case !declared:
			c.Missing = append(c.Missing, f.Name)
		case got.Unread != "" || called(got.Types()) != called(want) && !f.Variadic:
			c.Different = append(c.Different, Difference{f.Name, want, got.Types() + got.Unread})
		default:
			c.Equal++
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
			continue
		}
		c.Equal++
	}
	for name := range all.Functions {
		for _, prefix := range []string{"acl", "Hccl"} {
			if rest, ok := strings.CutPrefix(name, prefix); ok && !known[name] && rest != "" && !strings.HasPrefix(name, "aclnnInner") {
				c.Unknown = append(c.Unknown, name)
			}
		}
	}
	slices.Sort(c.Unknown)
	return c, nil
}

// called returns types as a call sees them: without const, and with the names that CANN gave one type in turn.
func called(types string) string {
	return strings.NewReplacer("const ", "", "aclrtDim3", "dim3").Replace(types)
}
