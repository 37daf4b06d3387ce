package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// emitDeclarations generates a header with the types of the interface, in which enums are the integers that
// the compiler takes for them, and one with the constants and the functions, which only tests in C need.
func emitDeclarations(out files, t *abi.Table) error {
	var types, functions bytes.Buffer
	enums := enumerators(t, "")
	types.WriteString(standardTypes)
	functions.WriteString("#include \"../zz_cann.h\"\n\n")
	declareMacros(&functions, enums)
	for _, e := range enums.order {
		if e != "" {
			fmt.Fprintf(&types, "typedef %s %s;\n", enums.integer(e), e)
		}
		fmt.Fprintf(&functions, "enum {\n%s\n};\n", enums.list(e))
	}
	if err := declareTypes(&types, t, ""); err != nil {
		return err
	}
	declareFunctions(&functions, t, "")
	out[exportDir+"zz_cann.h"] = guarded("zz_cann.h", types.String())
	out[exportDir+"testdata/zz_functions.h"] = guarded("zz_functions.h", functions.String())
	return nil
}

// declareFunctions writes the functions. version selects the form where two CANN versions differ; "" is
// the newest.
func declareFunctions(b *bytes.Buffer, t *abi.Table, version string) {
	b.WriteString("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n")
	for _, f := range t.Functions {
		b.WriteString(prototype(f, renamed(paramsAt(f, version), nameless)) + ";\n")
	}
	b.WriteString(operatorMacro)
	for _, o := range t.Operators {
		fmt.Fprintf(b, "CANN_OPERATOR(%s, %s)\n", o.Symbol, declared(renamed(paramsAt(o.Function, version), nameless)))
	}
	b.WriteString("\n#ifdef __cplusplus\n}\n#endif\n")
}

func nameless(int) string { return "" }

// operatorMacro declares both phases of an operator from the parameters before the last two of phase
// one.
const operatorMacro = `
#define CANN_OPERATOR(name, ...) \
	aclnnStatus name##GetWorkspaceSize(__VA_ARGS__, uint64_t *workspaceSize, aclOpExecutor **executor); \
	aclnnStatus name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);
`

// paramsAt returns the parameters of a function in a version.
func paramsAt(f abi.Function, version string) []abi.Param {
	if p, ok := f.At(version); ok {
		return p
	}
	return f.Params
}

// declareMacros writes the constants that belong to no enum.
func declareMacros(b *bytes.Buffer, enums enumSet) {
	for _, c := range enums.macros {
		fmt.Fprintf(b, "#define %s %s\n", c.Name, literal(c.Value))
	}
}

// declareEnums writes the enums.
func declareEnums(b *bytes.Buffer, enums enumSet) {
	for _, e := range enums.order {
		head, tail := "typedef enum "+e, " "+e
		if e == "" {
			head, tail = "enum", ""
		}
		fmt.Fprintf(b, "%s {\n%s\n}%s;\n", head, enums.list(e), tail)
	}
}

// standardTypes includes what the declarations of types need.
const standardTypes = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n"

// declareTypes writes the types besides enums, with the layouts that a release has; "" is the newest.
func declareTypes(b *bytes.Buffer, all *abi.Table, version string) error {
	b.WriteString("\n")
	dated := *all
	dated.Records = recordsAt(all, version)
	t := &dated
	records, err := recordOrder(t)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(t.Records, func(r abi.Record) bool {
		return slices.ContainsFunc(r.Fields, func(f abi.Field) bool { return strings.HasPrefix(f.Type, "struct in") })
	}) {
		b.WriteString("#include <netinet/in.h>\n\n")
	}
	for _, r := range records {
		fmt.Fprintf(b, "typedef %s %s %[2]s;\n", r.Kind, r.Name)
	}
	// Function types come last because they use the others.
	for _, function := range []bool{false, true} {
		for _, d := range t.Typedefs {
			if strings.Contains(d.Target, "( *)(") != function {
				continue
			}
			target := d.Target
			if target == d.Name {
				target = "struct " + target
			}
			fmt.Fprintf(b, "typedef %s;\n", declarator(target, d.Name))
		}
	}
	for _, r := range records {
		fmt.Fprintf(b, "\n%s %s {\n", r.Kind, r.Name)
		writeFields(b, t, r, "\t")
		b.WriteString("};\n")
	}
	return nil
}

type enumSet struct {
	order   []string
	members map[string][]abi.Constant
	macros  []abi.Constant
}

// list returns the members of an enum with their values.
func (s enumSet) list(enum string) string {
	var members []string
	for _, c := range s.members[enum] {
		members = append(members, fmt.Sprintf("\t%s = %s", c.Name, c.Value))
	}
	return strings.Join(members, ",\n")
}

// integer returns the type that gcc and clang take for an enum: int if a member is negative.
func (s enumSet) integer(enum string) string {
	if slices.ContainsFunc(s.members[enum], func(c abi.Constant) bool { return strings.HasPrefix(c.Value, "-") }) {
		return "int"
	}
	return "unsigned int"
}

// enumerators separates constants into enums and macros. The table does not distinguish macros from
// members of unnamed enums, so the spelling of the name decides.
func enumerators(t *abi.Table, version string) enumSet {
	s := enumSet{members: map[string][]abi.Constant{}}
	for _, c := range t.Constants {
		if v, ok := c.At(version); ok {
			c.Value = v
		}
		if c.Enum == "" && c.Name == strings.ToUpper(c.Name) {
			s.macros = append(s.macros, c)
			continue
		}
		if s.members[c.Enum] == nil {
			s.order = append(s.order, c.Enum)
		}
		s.members[c.Enum] = append(s.members[c.Enum], c)
	}
	return s
}

// literal returns the C literal of a decimal value.
func literal(v string) string {
	switch {
	case strings.HasPrefix(v, "-"):
		return "(" + v + ")"
	case len(v) > 10 || len(v) == 10 && v > "4294967295":
		return v + "ULL"
	case len(v) == 10 && v > "2147483647":
		return v + "U"
	}
	return v
}

// recordOrder sorts records so that each comes after those it contains. It omits records that occur
// only as unnamed members of others.
func recordOrder(t *abi.Table) ([]abi.Record, error) {
	byName, inner := map[string]abi.Record{}, map[string]bool{}
	for _, r := range t.Records {
		byName[r.Name] = r
		for _, f := range r.Fields {
			if f.Name == "" {
				inner[f.Type] = true
			}
		}
	}
	var order []abi.Record
	state := map[string]int{} // 1 while its members are placed, 2 when placed
	var place func(name string) error
	place = func(name string) error {
		r, ok := byName[name]
		if !ok || state[name] == 2 {
			return nil
		}
		if state[name] == 1 {
			return fmt.Errorf("record %s contains itself", name)
		}
		state[name] = 1
		for _, f := range r.Fields {
			if err := place(element(f.Type)); err != nil {
				return err
			}
		}
		state[name] = 2
		if !inner[name] {
			order = append(order, r)
		}
		return nil
	}
	for _, r := range t.Records {
		if err := place(r.Name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// element returns the element type of an array type.
func element(ctype string) string {
	e, _, _ := strings.Cut(ctype, "[")
	return e
}

func writeFields(b *bytes.Buffer, t *abi.Table, r abi.Record, indent string) {
	for _, f := range r.Fields {
		if f.Name != "" {
			fmt.Fprintf(b, "%s%s;\n", indent, declarator(f.Type, f.Name))
			continue
		}
		i := slices.IndexFunc(t.Records, func(m abi.Record) bool { return m.Name == f.Type })
		fmt.Fprintf(b, "%s%s {\n", indent, t.Records[i].Kind)
		writeFields(b, t, t.Records[i], indent+"\t")
		fmt.Fprintf(b, "%s};\n", indent)
	}
}

// declarator returns the declaration of name with a C type that does not contain it: "int64_t (
// *)[2]" and "n" give "int64_t (*n)[2]".
func declarator(ctype, name string) string {
	if before, after, ok := strings.Cut(ctype, "( *)"); ok {
		return before + "(*" + name + ")" + after
	}
	if base, dims, ok := strings.Cut(ctype, "["); ok {
		return strings.TrimRight(base+" "+name, " ") + "[" + dims
	}
	if strings.HasSuffix(ctype, "*") || name == "" {
		return ctype + name
	}
	return ctype + " " + name
}

// prototype returns the declaration of a function with the given parameters.
func prototype(f abi.Function, params []abi.Param) string {
	list := declared(params)
	switch {
	case f.Variadic:
		list += ", ..."
	case list == "":
		list = "void"
	}
	return declarator(f.Ret, f.Name) + "(" + list + ")"
}

// declared returns the declarations of parameters.
func declared(params []abi.Param) string {
	list := make([]string, len(params))
	for i, p := range params {
		list[i] = declarator(p.Type, p.Name)
	}
	return strings.Join(list, ", ")
}
