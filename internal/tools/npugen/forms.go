package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/binding"
)

// form is the conversion of a word to a Go value: a format string with one place for the word.
type form struct {
	decode   string
	required bool // a null word is refused
}

// pointee returns the type that a C pointer points to, without const.
func pointee(ctype string) string {
	element, _ := strings.CutSuffix(ctype, "*")
	element = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(element), "const"))
	if strings.HasSuffix(element, "*") {
		return element
	}
	return strings.TrimPrefix(element, "const ")
}

// basic follows the typedefs of a C type to its underlying type.
func basic(t *abi.Table, ctype string) string {
	for range len(t.Typedefs) {
		i := slices.IndexFunc(t.Typedefs, func(d abi.Typedef) bool { return d.Name == ctype && d.Target != ctype })
		if i < 0 {
			break
		}
		ctype = t.Typedefs[i].Target
	}
	return ctype
}

// formOf returns the conversion of a parameter to a Go type, or an error if that type does not fit
// the C type.
func (p *emulator) formOf(t *abi.Table, c abi.Param, typ string) (form, error) {
	plain := bare(typ)
	unfit := fmt.Errorf("type %s does not fit %s", typ, c.Type)
	if plain == "_" {
		return form{}, unfit
	}
	switch c.Class {
	case abi.Int, abi.Uint, abi.Enum, abi.DType, abi.Bool, abi.Float, abi.Double:
		if !slices.Contains(scalars(t, c.Type), plain) {
			return form{}, fmt.Errorf("%w; use %s", unfit, strings.Join(scalars(t, c.Type), " or "))
		}
		return form{decode: scalarForm(typ)}, nil
	case abi.ByValue:
		if !isName(plain) || isBasic(plain) {
			return form{}, fmt.Errorf("%w; use a struct", unfit)
		}
		return form{decode: "*(*" + typ + ")(" + p.runtime + "Pointer(%s))"}, nil
	}
	switch {
	case plain == "Address":
		return form{typ + "(%s)", true}, nil
	case plain == "uintptr", plain == "Handle" && isHandle(t, c.Type):
		return form{typ + "(%s)", false}, nil
	case c.Class == abi.FuncPtr:
		return form{}, fmt.Errorf("%w; use Address, or uintptr where null is fine", unfit)
	case c.Class == abi.String && plain == "string":
		return form{p.runtime + "CString(%s)", true}, nil
	case c.Class == abi.String && plain == "*string":
		return form{p.runtime + "OptionalCString(%s)", false}, nil
	}
	element, required := strings.CutPrefix(plain, "Out[")
	if required && strings.HasPrefix(c.Type, "const ") && !strings.HasSuffix(c.Type, "**") {
		return form{}, fmt.Errorf("%w, which is const", unfit)
	}
	if !required {
		element, required = strings.CutPrefix(plain, "In[")
	}
	if required {
		element = strings.TrimSuffix(element, "]")
	} else if element, _ = strings.CutPrefix(plain, "*"); element == plain {
		return form{}, unfit
	}
	if !fitsElement(t, c.Type, element) {
		return form{}, unfit
	}
	if required {
		return form{typ + "(%s)", true}, nil
	}
	return form{"(" + typ + ")(" + p.runtime + "Pointer(%s))", false}, nil
}

// scalars returns the Go types that fit a C number.
func scalars(t *abi.Table, ctype string) []string {
	class, err := t.Class(ctype)
	if err != nil {
		return nil
	}
	switch class {
	case abi.Enum:
		if ctype == "aclFormat" {
			return []string{"dtype.Format", "int32"}
		}
		return []string{"int32"}
	case abi.DType:
		return []string{"dtype.Type", "int32"}
	case abi.Bool:
		return []string{"bool"}
	case abi.Float:
		return []string{"float32"}
	case abi.Double:
		return []string{"float64"}
	case abi.Int, abi.Uint:
		return []string{binding.Integers[basic(t, ctype)]}
	}
	return nil
}

func scalarForm(typ string) string {
	switch typ {
	case "uint64":
		return "%s"
	case "bool":
		return "%s != 0"
	case "float32":
		return "math.Float32frombits(uint32(%s))"
	case "float64":
		return "math.Float64frombits(%s)"
	case "dtype.Type", "dtype.Format":
		return typ + "(int32(%s))"
	}
	return typ + "(%s)"
}

// isHandle reports whether a C type can stand for an object: void *, or a pointer to a struct.
func isHandle(t *abi.Table, ctype string) bool {
	ctype = basic(t, ctype)
	if !strings.HasSuffix(ctype, "*") {
		return false
	}
	class, err := t.Class(pointee(ctype))
	return err != nil || class == abi.ByValue // structs that are opaque in CANN have no class
}

// fitsElement reports whether the target of a C pointer can have a Go type. The handler decides for
// a pointer to void, and defines its own structs for records.
func fitsElement(t *abi.Table, ctype, element string) bool {
	if strings.HasSuffix(ctype, ")[2]") {
		return element == "[2]int64"
	}
	c := pointee(ctype)
	class, err := t.Class(c)
	switch {
	case c == "void":
		return true
	case c == "char":
		return element == "byte"
	case err != nil, class == abi.ByValue:
		return isName(element) && !isBasic(element)
	case class == abi.Bool:
		return element == "bool" || element == "byte"
	case class == abi.FuncPtr, class == abi.String:
		return element == "Address"
	case isPointer(class):
		return element == "Address" || element == "Handle" && isHandle(t, c)
	}
	return slices.Contains(scalars(t, c), element)
}

// isBasic reports whether a Go type is predeclared or one of the emulator's words.
func isBasic(typ string) bool {
	return slices.Contains([]string{
		"bool", "byte", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
		"uintptr", "string", "Address", "Handle", "Code",
	}, typ)
}

// refusal is the result with which a call ends before its handler: a code or an error.
type refusal struct {
	value, none string // value equal to none means no refusal
	err         bool
}

// result is the conversion of a handler's result to a word.
type result struct {
	give string // statement with a place for the call
	code bool   // the function returns a code
}

// refuse returns the statement that ends a call with a refusal.
func (r result) refuse(why refusal) string {
	value := why.value
	if why.err {
		value = "answer(t, " + value + ")"
	}
	if r.code {
		return "return " + value
	}
	return "_ = " + value + "\n\t\treturn 0"
}

// resultOf returns the conversion of a handler's result, or an error if its type does not fit the C
// type.
func (p *emulator) resultOf(t *abi.Table, h handler) (result, error) {
	plain := bare(h.result)
	unfit := fmt.Errorf("result %q does not fit %s", h.result, h.c.Ret)
	switch {
	case slices.Contains(codes, h.c.Ret):
		switch plain {
		case "Code":
			return result{"\treturn %s", true}, nil
		case "error":
			return result{"\treturn answer(t, %s)", true}, nil
		}
		return result{}, unfit
	case h.c.Ret == "void":
		if plain != "" {
			return result{}, unfit
		}
		return result{"\t%s\n\treturn 0", false}, nil
	}
	class, err := t.Class(h.c.Ret)
	if err != nil {
		return result{}, err
	}
	switch {
	case class == abi.Float && plain == "float32":
		return result{"\treturn uint64(math.Float32bits(%s))", false}, nil
	case isPointer(class) && slices.Contains([]string{"uintptr", "Address", "Handle"}, plain):
		return result{"\treturn uint64(%s)", false}, nil
	case !isPointer(class) && slices.Contains(scalars(t, h.c.Ret), plain):
		if strings.HasPrefix(plain, "int") || strings.HasPrefix(plain, "dtype.") {
			return result{"\treturn uint64(int64(%s))", false}, nil
		}
		return result{"\treturn uint64(%s)", false}, nil
	}
	return result{}, unfit
}

// isName reports whether a C type begins as a name does.
func isName(ctype string) bool { return ctype[0] == '_' || unicode.IsLetter(rune(ctype[0])) }
