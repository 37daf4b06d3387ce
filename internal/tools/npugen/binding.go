package main

import (
	"bytes"
	"fmt"
	"go/token"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/tools/npugen/docs"
)

const module = "github.com/goascend/cann"

// binding describes the package of the generated functions: package aclnn, or a package of custom
// operators that imports it.
type binding struct {
	pkg   string
	aclnn string      // qualifier of aclnn's names: "" or "aclnn."
	docs  *docs.Table // documentation of the table's operators

	enums   *abi.Enumerations
	formats *abi.Formats // that operators demand
	types   elementTypes // of the emulator's operators; nil for operators that it does not know
}

// emitBindings generates one file of typed functions per family of operators.
func emitBindings(out files, t *abi.Table) error {
	byFamily := map[abi.Family][]abi.Operator{}
	for _, o := range t.Operators {
		byFamily[o.Family()] = append(byFamily[o.Family()], o)
	}
	formats, err := abi.LoadFormats()
	if err != nil {
		return err
	}
	enums, err := abi.LoadEnumerations(t)
	if err != nil {
		return err
	}
	if err := emitEnumerations(out, enums); err != nil {
		return err
	}
	docs, err := docs.Load(t)
	if err != nil {
		return err
	}
	types, err := loadElementTypes()
	if err != nil {
		return err
	}
	for family, ops := range byFamily {
		src, err := binding{pkg: "aclnn", docs: docs, enums: enums, formats: formats, types: types}.file(ops)
		if err != nil {
			return err
		}
		if err := out.golang("aclnn/zz_"+string(family)+".go", src); err != nil {
			return err
		}
	}
	return nil
}

// file returns the Go source of the bindings of some operators.
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
	if g.aclnn != "" {
		fmt.Fprintf(&b, "\t%q\n", module+"/aclnn")
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
	names, slots := make([]string, len(o.Params)), make([]byte, len(o.Params))
	for i, p := range o.Params {
		names[i], slots[i] = p.Name, slotOf(p)
	}
	fmt.Fprintf(b, "\n// %sParams are the arguments, in C order.\ntype %[1]sParams struct {\n", o.Name)
	for i, a := range args {
		fmt.Fprintf(b, "\t%s %s", a.field, a.gotype)
		if note := g.note(o, o.Params[i]); note != "" {
			b.WriteString(" // " + note)
		}
		b.WriteString("\n")
	}
	// Use only static data, so that the linker drops operators that a program does not use.
	fmt.Fprintf(b, "}\n\nvar op%s = %sOperator{\n\tSymbol: %[3]q, Library: %q, Since: %q,\n", o.Name, g.aclnn, o.Symbol, o.Library, o.Since())
	if g.aclnn != "" { // the table has no operators of custom packages
		fmt.Fprintf(b, "\tParams: %q,\n", strings.Join(names, " "))
	}
	fmt.Fprintf(b, "\tSlots: %q,\n}\n", slots)
	b.WriteString("\n" + g.doc(o))
	fmt.Fprintf(b, "func %s(st *acl.Stream, p %[1]sParams) error {\n\tc := %sNewCall(st, p.Operator())\n\tp.Encode(c)\n\treturn c.Launch()\n}\n",
		o.Name, g.aclnn)
	fmt.Fprintf(b, "\nfunc (p *%sParams) Operator() *%sOperator { return &op%[1]s }\n", o.Name, g.aclnn)
	fmt.Fprintf(b, "\nfunc (p *%sParams) Encode(c *%sCall) {\n", o.Name, g.aclnn)
	rule := g.formats.Of(o.Name)
	for i, a := range args {
		if formats := g.byRank(rule, o.Params[i].Name); formats != "" {
			fmt.Fprintf(b, "\tc.Channels(%s, %s)\n", a.value, formats)
			continue
		}
		fmt.Fprintf(b, "\tc.%s(%s)\n", a.method, a.value)
	}
	b.WriteString("}\n")
	return nil
}

// byRank returns the formats that a tensor gets with three, four and five dimensions, or "" if its
// format is free.
func (g binding) byRank(rule *abi.FormatRule, param string) string {
	var formats [3]string
	fixed := false
	for i := range formats {
		switch f := rule.Format(param, i+3); f {
		case "", "ND":
			formats[i] = "-1"
		default:
			formats[i], fixed = g.aclnn+f, true
		}
	}
	if !fixed {
		return ""
	}
	return strings.Join(formats[:], ", ")
}

// slotOf says what a parameter is to the functions that set addresses; see cshim.Operator.Slots.
func slotOf(p abi.Param) byte {
	switch p.Class {
	case abi.Tensor, abi.TensorList:
		if p.Use == abi.Written {
			return 'o'
		}
		return 'i'
	case abi.Scalar, abi.ScalarList, abi.IntArray, abi.FloatArray, abi.BoolArray:
		return 'h'
	}
	return '-'
}

// argument is one field of a Params struct and the way it is encoded.
type argument struct{ field, gotype, method, value string }

// encodings holds the Go type and the encoder method of the classes that have one Go form.
var encodings = map[abi.Class]struct{ gotype, method string }{
	abi.Tensor: {"*Tensor", "Tensor"}, abi.TensorList: {"[]*Tensor", "Tensors"},
	abi.Scalar: {"Scalar", "Scalar"}, abi.ScalarList: {"[]Scalar", "Scalars"},
	abi.IntArray: {"[]int64", "Ints"}, abi.FloatArray: {"[]float32", "Floats"}, abi.BoolArray: {"[]bool", "Bools"},
	abi.String: {"string", "Str"}, abi.Bool: {"bool", "Bool"},
	abi.Double: {"float64", "Float64"}, abi.Float: {"float32", "Float32"},
	abi.DType: {"DType", "Int64"}, abi.Enum: {"int32", "Int64"}, abi.Pointer: {"unsafe.Pointer", "Pointer"},
}

var goIntegers = map[string]string{
	"int8_t": "int8", "int16_t": "int16", "int32_t": "int32", "int": "int32", "int64_t": "int64", "char": "int8",
	"uint8_t": "uint8", "uint16_t": "uint16", "uint32_t": "uint32", "unsigned int": "uint32", "uint64_t": "uint64", "size_t": "uint64",
	"unsigned char": "uint8", "unsigned long long": "uint64",
}

func (g binding) arguments(o abi.Operator) ([]argument, error) {
	names := fieldNames(o)
	args := make([]argument, 0, len(o.Params))
	for _, p := range o.Params {
		a := argument{field: names[p.Name]}
		e, ok := encodings[p.Class]
		switch {
		case p.Class == abi.Int || p.Class == abi.Uint:
			if a.gotype, ok = goIntegers[strings.TrimPrefix(p.Type, "const ")]; !ok {
				return nil, fmt.Errorf("%s: parameter %s: no Go integer for %s", o.Symbol, p.Name, p.Type)
			}
			a.method = "Int64"
		case !ok:
			return nil, fmt.Errorf("%s: parameter %s: arguments of type %s cannot be bound", o.Symbol, p.Name, p.Type)
		default:
			a.gotype, a.method = e.gotype, e.method
			switch {
			case p.Class == abi.String && strings.HasPrefix(strings.ToLower(p.Name), "group"):
				a.method = "Group"
			case p.Class == abi.String && p.Optional:
				a.method = "OptStr"
			}
		}
		plain := a.gotype
		if enum := g.enums.Of(o.Name, p.Name); enum != nil {
			a.gotype = enum.Name
		}
		a.value = "p." + a.field
		switch {
		case a.method == "Int64" && a.gotype != "int64":
			a.value = "int64(p." + a.field + ")"
		case plain == "string" && a.gotype != "string":
			a.value = "string(p." + a.field + ")"
		}
		if star := strings.LastIndexAny(a.gotype, "*]") + 1; token.IsExported(a.gotype[star:]) {
			a.gotype = a.gotype[:star] + g.aclnn + a.gotype[star:]
		}
		args = append(args, a)
	}
	return args, nil
}

// fieldNames returns the Go fields of an operator's parameters by their C names. The words Optional, Ref and
// OutOut say of a C name what the comment of the field says; they are left out, unless two parameters would
// become one.
func fieldNames(o abi.Operator) map[string]string {
	short := make(map[string]int, len(o.Params))
	for _, p := range o.Params {
		short[shortName(exportedName(p.Name))]++
	}
	names, taken := make(map[string]string, len(o.Params)), make(map[string]bool, len(o.Params))
	for _, p := range o.Params {
		name := exportedName(p.Name)
		if s := shortName(name); short[s] == 1 {
			name = s
		}
		base := name
		for i := 2; taken[name]; i++ {
			name = fmt.Sprintf("%s%d", base, i)
		}
		names[p.Name], taken[name] = name, true
	}
	return names
}

// shortName returns a field name without the words of C's convention.
func shortName(name string) string {
	short := strings.TrimSuffix(strings.ReplaceAll(name, "Optional", ""), "Ref")
	if strings.HasSuffix(short, "OutOut") {
		short = strings.TrimSuffix(short, "Out")
	}
	if !token.IsExported(short) {
		return name
	}
	return short
}

// exportedName returns the exported Go form of a C parameter name: query_rope becomes QueryRope.
func exportedName(c string) string {
	var s strings.Builder
	for part := range strings.SplitSeq(c, "_") {
		if part != "" {
			s.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	name := s.String()
	if !token.IsExported(name) {
		return "Arg" + name
	}
	return name
}
