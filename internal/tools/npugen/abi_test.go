package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// facts is one version of the interface as plain C text that a compiler can check.
type facts struct {
	functions map[string]string // name → function type
	constants map[string]string // name → decimal value
	sizes     map[string]int
	fields    []fieldFact
}

type fieldFact struct {
	record, name, ctype string
	offset              int
}

// factsOf returns the facts of one version of the table.
func factsOf(t *abi.Table, version string) facts {
	f := facts{functions: map[string]string{}, constants: map[string]string{}, sizes: map[string]int{}}
	for _, fn := range t.AllFunctions() {
		if params, ok := fn.At(version); ok {
			f.functions[fn.Name] = functionType(fn.Ret, params, fn.Variadic)
		}
	}
	for _, c := range t.Constants {
		value, ok := c.At(version)
		if !ok {
			value = c.Value
		}
		f.constants[c.Name] = value
	}
	byName, unnamed := map[string]abi.Record{}, map[string]bool{}
	for _, r := range recordsAt(t, version) {
		byName[r.Name] = r
		for _, m := range r.Fields {
			if m.Name == "" {
				unnamed[m.Type] = true
			}
		}
	}
	for name, r := range byName {
		if !unnamed[name] {
			f.sizes[name] = r.Size
			f.fields = appendFields(f.fields, byName, name, r, 0)
		}
	}
	return f
}

// appendFields appends the fields of a record, with those of its unnamed members.
func appendFields(fields []fieldFact, records map[string]abi.Record, of string, r abi.Record, at int) []fieldFact {
	for _, m := range r.Fields {
		if m.Name == "" {
			fields = appendFields(fields, records, of, records[m.Type], at+m.Offset)
			continue
		}
		fields = append(fields, fieldFact{of, m.Name, m.Type, at + m.Offset})
	}
	return fields
}

// dump is the JSON form of a table that a C parser made from CANN's headers; tests compare the
// table with them.
type dump struct {
	Version   string
	Functions map[string]struct {
		Ret    string
		Params []struct{ Name, Type string }
		Header string
	}
	Constants map[string]json.Number
	Enums     map[string]map[string]json.Number
	Typedefs  map[string]string
	Records   map[string]struct {
		Kind   string
		Fields []struct {
			Name, Type string
			Offset     *int
		}
		Header string
		Size   int
	}
}

// factsIn returns the facts of a dump of CANN's own headers, independent of the table.
func factsIn(t *testing.T, path string) facts {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var d dump
	require.NoError(t, json.Unmarshal(b, &d))
	f := facts{functions: map[string]string{}, constants: map[string]string{}, sizes: map[string]int{}}
	for name, fn := range d.Functions {
		params := make([]abi.Param, len(fn.Params))
		for i, p := range fn.Params {
			params[i] = abi.Param{Type: p.Type}
		}
		f.functions[name] = functionType(fn.Ret, params, name == "aclAppLog") // dumps lack the ellipsis
	}
	for name, value := range d.Constants {
		if !strings.HasPrefix(name, "_") {
			f.constants[name] = value.String()
		}
	}
	for name, r := range d.Records {
		f.sizes[name] = r.Size
		for _, m := range r.Fields {
			if m.Offset != nil {
				f.fields = append(f.fields, fieldFact{name, m.Name, strings.Replace(m.Type, "union Message", "aclprofMessage", 1), *m.Offset})
			}
		}
	}
	return f
}

func functionType(ret string, params []abi.Param, variadic bool) string {
	var list []string
	for _, p := range params {
		list = append(list, p.Type)
	}
	if variadic {
		list = append(list, "...")
	}
	if len(list) == 0 {
		list = append(list, "void")
	}
	return ret + "(" + strings.Join(list, ", ") + ")"
}

// typeAssertion compares types in C, and in C++, which has no __builtin_types_compatible_p.
const typeAssertion = `
#ifdef __cplusplus
#include <type_traits>
#define _Static_assert static_assert
#define TYPE_IS(message, expression, ...) static_assert(std::is_same<decltype(expression), __VA_ARGS__>::value, message)
#else
#define TYPE_IS(message, expression, ...) _Static_assert(__builtin_types_compatible_p(__typeof__(expression), __VA_ARGS__), message)
#endif
`

// assertions returns a file in C and C++ that compiles only if the header agrees with the facts.
func (f facts) assertions() []byte {
	var b bytes.Buffer
	b.WriteString("#include \"cann.h\"\n" + typeAssertion)
	for name, typ := range f.functions {
		fmt.Fprintf(&b, "TYPE_IS(\"type of %[1]s\", %[1]s, %[2]s);\n", name, typ)
	}
	for name, value := range f.constants {
		fmt.Fprintf(&b, "_Static_assert(%s == %s, \"value of %[1]s\");\n", name, literal(value))
	}
	for name, size := range f.sizes {
		fmt.Fprintf(&b, "_Static_assert(sizeof(%s) == %d, \"size of %[1]s\");\n", name, size)
	}
	for _, m := range f.fields {
		if m.name == "" {
			continue
		}
		fmt.Fprintf(&b, "_Static_assert(offsetof(%s, %s) == %d, \"offset of %[1]s.%[2]s\");\n", m.record, m.name, m.offset)
		fmt.Fprintf(&b, "TYPE_IS(\"type of %[1]s.%[2]s\", ((%[1]s *)0)->%[2]s, %[3]s);\n", m.record, m.name, m.ctype)
	}
	return b.Bytes()
}

// declarations returns everything in the table as a header.
func declarations(t *abi.Table, version string) ([]byte, error) {
	var b bytes.Buffer
	enums := enumerators(t, version)
	b.WriteString(standardTypes)
	declareEnums(&b, enums)
	err := declareTypes(&b, t, version)
	declareMacros(&b, enums)
	declareFunctions(&b, t, version)
	return b.Bytes(), err
}

// compile runs a compiler on source with a header in its folder and returns its output.
func compile(t *testing.T, header, source []byte, compiler ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cann.h"), header, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "source"), source, 0o644))
	cmd := exec.Command(compiler[0], append(compiler[1:], "-Wall", "-Wextra", "-Werror", "-fsyntax-only", filepath.Join(dir, "source"))...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestDeclarationsAgreeWithTheTable(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	for _, version := range append(abi.Releases(), abi.Custom) {
		t.Run(version, func(t *testing.T) {
			header, err := declarations(table, version)
			require.NoError(t, err)
			out, err := compile(t, header, factsOf(table, version).assertions(), "gcc", "-x", "c", "-std=c11")
			require.NoError(t, err, out)
		})
	}
}

// dumps maps the files of CANN_ABI_DIR to the versions that they contain.
var dumps = map[string]string{"cann-8.1.RC1.json": abi.V81RC1, "custom-ops.json": abi.Custom}

// TestDeclarationsAgreeWithDumps checks the headers, and with them the table, against dumps
// of CANN's own headers when CANN_ABI_DIR names a folder that has them.
func TestDeclarationsAgreeWithDumps(t *testing.T) {
	dir := os.Getenv("CANN_ABI_DIR")
	if dir == "" {
		t.Skip("CANN_ABI_DIR is not set")
	}
	table, err := abi.Load()
	require.NoError(t, err)
	for file, version := range dumps {
		t.Run(file, func(t *testing.T) {
			header, err := declarations(table, version)
			require.NoError(t, err)
			f := factsIn(t, filepath.Join(dir, file))
			require.NotEmpty(t, f.functions)
			out, err := compile(t, header, f.assertions(), "gcc", "-x", "c", "-std=c11")
			require.NoError(t, err, out)
		})
	}
}

func TestDeclarationsAreCAndCxx(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	header, err := declarations(table, "")
	require.NoError(t, err)
	source := []byte("#include \"cann.h\"\n")
	for _, compiler := range [][]string{{"gcc", "-x", "c", "-std=gnu99"}, {"gcc", "-x", "c", "-std=c11"}, {"g++", "-x", "c++", "-std=c++11"}, {"g++", "-x", "c++", "-std=c++20"}} {
		if _, err := exec.LookPath(compiler[0]); err != nil {
			continue // a machine may lack a C++ compiler; CI has one
		}
		out, err := compile(t, header, source, compiler...)
		assert.NoError(t, err, out)
	}
}

// The assertions must be able to fail: every kind of wrong fact must be found.
func TestAssertionsCatchLies(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	header, err := declarations(table, abi.Unreleased)
	require.NoError(t, err)
	for name, lie := range map[string]facts{
		"type of aclnnAbs":                {functions: map[string]string{"aclnnAbs": "aclnnStatus(void *, uint32_t, aclOpExecutor *, aclrtStream)"}},
		"value of ACL_BF16":               {constants: map[string]string{"ACL_BF16": "28"}},
		"size of aclrtMemLocation":        {sizes: map[string]int{"aclrtMemLocation": 4}},
		"offset of aclrtMemLocation.type": {fields: []fieldFact{{"aclrtMemLocation", "type", "aclrtMemLocationType", 0}}},
		"type of aclrtMemLocation.id":     {fields: []fieldFact{{"aclrtMemLocation", "id", "int32_t", 0}}},
	} {
		out, err := compile(t, header, lie.assertions(), "gcc", "-x", "c", "-std=c11")
		assert.Error(t, err, name)
		assert.Contains(t, out, name)
	}
}
