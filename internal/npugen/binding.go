package main

import (
	"bytes"
	"fmt"
	"go/token"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

const module = "github.com/goascend/cann"

// binding is how generated Go code spells what it uses: inside package aclnn the names are
// unexported, a package of custom operators goes through the exported ones.
type binding struct {
	pkg  string
	path string // import path of aclnn, "" inside it
}

// name spells an identifier of aclnn that both sides have in different case.
func (g binding) name(s string) string {
	if g.path == "" {
		return s
	}
	return "aclnn." + strings.ToUpper(s[:1]) + s[1:]
}

// typ spells an exported type of aclnn.
func (g binding) typ(s string) string {
	if g.path == "" {
		return s
	}
	return "aclnn." + s
}

// method spells a method or field that both sides have in different case.
func (g binding) method(s string) string {
	if g.path == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// emitBindings makes one file of typed functions per family of operators.
func emitBindings(out files, t *abi.Table) error {
	byFamily := map[abi.Family][]abi.Operator{}
	for _, o := range t.Operators {
		byFamily[o.Family] = append(byFamily[o.Family], o)
	}
	for family, ops := range byFamily {
		src, err := binding{pkg: "aclnn"}.file(ops)
		if err != nil {
			return err
		}
		if err := out.golang("aclnn/zz_"+string(family)+".go", src); err != nil {
			return err
		}
	}
	return nil
}

// file is the Go source of the bindings of some operators.
func (g binding) file(ops []abi.Operator) ([]byte, error) {
	var body bytes.Buffer
	for _, o := range ops {
		if err := g.operator(&body, o); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\npackage %s\n\nimport (\n", generatedMark, g.pkg)
	if bytes.Contains(body.Bytes(), []byte("unsafe.Pointer")) {
		b.WriteString("\t\"unsafe\"\n\n")
	}
	fmt.Fprintf(&b, "\t%q\n", module+"/acl")
	if g.path != "" {
		fmt.Fprintf(&b, "\t%q\n", g.path)
	}
	b.WriteString(")\n")
	b.Write(body.Bytes())
	return b.Bytes(), nil
}

func (g binding) operator(b *bytes.Buffer, o abi.Operator) error {
	args, err := g.arguments(o)
	if err != nil {
		return err
	}
	names := make([]string, len(o.Params))
	for i, p := range o.Params {
		names[i] = p.Name
	}
	fmt.Fprintf(b, "\n// %sParams are the arguments of %s, in C order.\ntype %[1]sParams struct {\n", o.Name, o.Symbol)
	for i, a := range args {
		note := ""
		if o.Params[i].Optional {
			note = " // optional"
		}
		fmt.Fprintf(b, "\t%s %s%s\n", a.field, a.gotype, note)
	}
	fmt.Fprintf(b, "}\n\nvar op%s = %s{\n\t%s: %q,\n\t%s: %q,\n\t%s: %q,\n\t%s: %q,\n\t%s: %q,\n}\n",
		o.Name, g.name("operator"),
		g.method("name"), o.Name, g.method("symbol"), o.Symbol, g.method("library"), o.Library,
		g.method("since"), o.Since(), g.method("params"), strings.Join(names, " "))

	fmt.Fprintf(b, "\n// %s launches %s (%s, %s) on st.\n", o.Name, o.Symbol, o.Library, seen(o.Versions))
	fmt.Fprintf(b, "func %s(st *acl.Stream, p %[1]sParams) error {\n\tc := %s(st, &op%[1]s)\n\tp.%s(c)\n\treturn c.%s()\n}\n",
		o.Name, g.name("newCall"), g.method("encode"), g.method("launch"))

	op, call := g.name("operator"), g.name("call")
	if g.path != "" {
		fmt.Fprintf(b, "\n// Operator is the operator the arguments belong to, for aclnn.Prepare.\n")
	}
	fmt.Fprintf(b, "func (p *%sParams) %s() *%s { return &op%[1]s }\n", o.Name, g.method("operator"), op)
	if g.path != "" {
		fmt.Fprintf(b, "\n// Encode adds the arguments to a call, for aclnn.Prepare.\n")
	}
	fmt.Fprintf(b, "\nfunc (p *%sParams) %s(c *%s) {\n", o.Name, g.method("encode"), call)
	for _, a := range args {
		fmt.Fprintf(b, "\tc.%s(%s)\n", g.method(a.method), a.value)
	}
	b.WriteString("}\n")
	return nil
}

// seen says where an operator comes from.
func seen(versions []string) string {
	if slices.Equal(versions, []string{abi.Custom}) {
		return "custom operator package"
	}
	return "CANN " + strings.Join(versions, " and ")
}

// argument is one field of a Params struct and how it is encoded.
type argument struct{ field, gotype, method, value string }

// encodings are the Go type and the encoder method of the classes with one Go form.
var encodings = map[abi.Class]struct{ gotype, method string }{
	abi.Tensor: {"*Tensor", "tensor"}, abi.TensorList: {"[]*Tensor", "tensors"},
	abi.Scalar: {"Scalar", "scalar"}, abi.ScalarList: {"[]Scalar", "scalars"},
	abi.IntArray: {"[]int64", "ints"}, abi.FloatArray: {"[]float32", "floats"}, abi.BoolArray: {"[]bool", "bools"},
	abi.String: {"string", "str"}, abi.Bool: {"bool", "bool"},
	abi.Double: {"float64", "float64"}, abi.Float: {"float32", "float32"},
	abi.DType: {"DType", "int64"}, abi.Enum: {"int32", "int64"}, abi.Pointer: {"unsafe.Pointer", "pointer"},
}

var goIntegers = map[string]string{
	"int8_t": "int8", "int16_t": "int16", "int32_t": "int32", "int": "int32", "int64_t": "int64", "char": "int8",
	"uint8_t": "uint8", "uint16_t": "uint16", "uint32_t": "uint32", "unsigned int": "uint32", "uint64_t": "uint64", "size_t": "uint64",
}

func (g binding) arguments(o abi.Operator) ([]argument, error) {
	taken := map[string]bool{}
	args := make([]argument, 0, len(o.Params))
	for _, p := range o.Params {
		a := argument{field: fieldName(p.Name, taken)}
		e, ok := encodings[p.Class]
		switch {
		case p.Class == abi.Int || p.Class == abi.Uint:
			if a.gotype, ok = goIntegers[strings.TrimPrefix(p.Type, "const ")]; !ok {
				return nil, fmt.Errorf("%s: parameter %s: no Go integer for %s", o.Symbol, p.Name, p.Type)
			}
			a.method = "int64"
		case !ok:
			return nil, fmt.Errorf("%s: parameter %s: arguments of type %s cannot be bound", o.Symbol, p.Name, p.Type)
		default:
			a.gotype, a.method = e.gotype, e.method
			if p.Class == abi.String && p.Optional {
				a.method = "optStr"
			}
		}
		a.value = "p." + a.field
		if a.method == "int64" && a.gotype != "int64" {
			a.value = "int64(p." + a.field + ")"
		}
		if star := strings.LastIndexAny(a.gotype, "*]") + 1; token.IsExported(a.gotype[star:]) {
			a.gotype = a.gotype[:star] + g.typ(a.gotype[star:])
		}
		args = append(args, a)
	}
	return args, nil
}

// fieldName is the exported Go form of a C parameter name: query_rope becomes QueryRope.
// Names that fall together get a number.
func fieldName(c string, taken map[string]bool) string {
	var s strings.Builder
	for part := range strings.SplitSeq(c, "_") {
		if part != "" {
			s.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	name := s.String()
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "Arg" + name
	}
	base := name
	for i := 2; taken[name]; i++ {
		name = fmt.Sprintf("%s%d", base, i)
	}
	taken[name] = true
	return name
}
