package header

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// Declared holds what a C header declares.
type Declared struct {
	Functions map[string]Prototype
	Constants map[string]string // integer macros and enumerators, in decimal
	Types     map[string]bool   // names of typedefs, structs, unions and enums
	Records   map[string]Record // structs and unions by tag, else by the first name of their typedef
	Typedefs  map[string]string // types as the table spells them, by name; enums and opaque structs by their own name
	Enums     []Enum
}

// NewDeclared returns the declarations of no header.
func NewDeclared() Declared {
	return Declared{
		Functions: map[string]Prototype{}, Constants: map[string]string{}, Types: map[string]bool{},
		Records: map[string]Record{}, Typedefs: map[string]string{},
	}
}

// Prototype is the type of a C function.
type Prototype struct {
	Ret      string
	Params   []abi.Param // Name, which may be missing, and Type
	Variadic bool
	File     string // the name of the header without its folder, where a reader of several sets it
	Unread   string // why the parameters could not be read; "" when they were
}

// Add adds what another header declares. Of two declarations with one name the first is kept.
func (d *Declared) Add(other Declared) {
	for name, f := range other.Functions {
		if old, ok := d.Functions[name]; !ok || old.Unread != "" {
			d.Functions[name] = f
		}
	}
	maps.Copy(d.Types, other.Types)
	for name, value := range other.Constants {
		if _, ok := d.Constants[name]; !ok {
			d.Constants[name] = value
		}
	}
	for name, r := range other.Records {
		if old, ok := d.Records[name]; !ok || old.Unread != "" {
			d.Records[name] = r
		}
	}
	for name, target := range other.Typedefs {
		if _, ok := d.Typedefs[name]; !ok {
			d.Typedefs[name] = target
		}
	}
	for _, e := range other.Enums {
		if !slices.ContainsFunc(d.Enums, func(old Enum) bool { return old.Name == e.Name && slices.Equal(old.Members, e.Members) }) {
			d.Enums = append(d.Enums, e)
		}
	}
}

// Declarations reads a header without its includes: prototypes at the top level or in extern "C", enumerators, and
// macros and constants with an integer. Constants of known are those of other headers, which this one may refer to. What is not such
// a declaration is skipped; a prototype with a parameter that is not understood is returned with the reason.
func Declarations(text string, known map[string]string) (Declared, error) {
	d := NewDeclared()
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r", "")
	words, err := lex(text)
	if err != nil {
		return d, err
	}
	r := reader{Declared: d, known: known, packs: packings(text)}
	r.macros(text)
	var statement []lexeme
	var braces *aggregate // of the statement
	trailing := 0         // the words of the statement before them
	for i := 0; i < len(words); i++ {
		switch w := words[i].text; w {
		case "{":
			end := i + 1 + bracket(words[i+1:], "{", "}")
			switch {
			case isTransparent(statement):
				statement = nil
				continue
			case mentions(statement, "(") && !mentions(statement, "__attribute__"):
				statement = nil // the body of a function
			case mentions(statement, "enum"), mentions(statement, "struct"), mentions(statement, "union"):
				braces, trailing = r.open(statement, words[i+1:min(end, len(words))], words[i].line), len(statement)
			default:
				statement = nil
			}
			i = end
		case "}":
		case ";":
			r.types(statement)
			if braces != nil {
				r.close(statement, braces, trailing)
			} else {
				r.typedef(statement)
			}
			r.constant(statement)
			r.function(statement)
			statement, braces = nil, nil
		default:
			statement = append(statement, words[i])
		}
	}
	return r.Declared, nil
}

// bracket returns the index of the closing bracket of words, which follow the opening one.
func bracket(words []lexeme, open, closing string) int {
	depth := 1
	for i, w := range words {
		switch w.text {
		case open:
			depth++
		case closing:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(words)
}

// isTransparent reports whether the declarations in braces after these words are at the top level too.
func isTransparent(words []lexeme) bool {
	return len(words) >= 1 && words[0].text == "namespace" || len(words) == 2 && words[0].text == "extern"
}

func mentions(words []lexeme, text string) bool {
	return slices.ContainsFunc(words, func(w lexeme) bool { return w.text == text })
}

type reader struct {
	Declared
	known map[string]string
	packs []packing
}

var defineLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+([^\n]+)$`)

func (r *reader) macros(text string) {
	for _, m := range defineLine.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
		value, _, _ := strings.Cut(m[2], "//")
		value, _, _ = strings.Cut(value, "/*")
		if v, ok := r.evaluate(value); ok {
			r.Constants[m[1]] = v
		}
	}
}

// enum adds the enumerators with a value that is known, and returns the names of all.
func (r *reader) enum(body []lexeme) (names []string) {
	last, counted := "", true
	for len(body) > 0 {
		n := slices.IndexFunc(body, func(w lexeme) bool { return w.text == "," })
		member := body
		if body = nil; n >= 0 {
			member, body = member[:n], member[n+1:]
		}
		if len(member) == 0 || !isName(member[0].text) {
			continue
		}
		names = append(names, member[0].text)
		value := "0"
		switch eq := slices.IndexFunc(member, func(w lexeme) bool { return w.text == "=" }); {
		case eq >= 0:
			value = spelled(member[eq+1:])
		case last != "":
			value = last + "+1"
		case !counted:
			continue
		}
		v, ok := r.evaluate(value)
		if counted = ok; !ok {
			last = ""
			continue
		}
		r.Constants[member[0].text], last = v, v
	}
	return names
}

// spelled returns words with a space between those that need one.
func spelled(words []lexeme) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 && isWordByte(w.text[0]) && isWordByte(words[i-1].text[len(words[i-1].text)-1]) {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	return b.String()
}

var integerSuffix = regexp.MustCompile(`\b(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]+\b`)

var sizeOfBasic = regexp.MustCompile(`\bsizeof\s*\(\s*(\w+(?: \w+)*)\s*\)`)

// evaluate returns the decimal value of an integer expression of C.
func (r *reader) evaluate(text string) (string, bool) {
	text = sizeOfBasic.ReplaceAllStringFunc(text, func(s string) string {
		if size := basicSizes[sizeOfBasic.FindStringSubmatch(s)[1]]; size > 0 {
			return fmt.Sprint(size)
		}
		return s
	})
	e, err := parser.ParseExpr(integerSuffix.ReplaceAllString(strings.TrimSpace(text), "$1"))
	if err != nil {
		return "", false
	}
	v, ok := r.value(e)
	return v.ExactString(), ok
}

func (r *reader) value(e ast.Expr) (constant.Value, bool) {
	unknown := constant.MakeUnknown()
	switch e := e.(type) {
	case *ast.BasicLit:
		v := constant.MakeFromLiteral(e.Value, e.Kind, 0)
		if e.Kind == token.CHAR {
			v = constant.ToInt(v)
		}
		return v, v.Kind() == constant.Int
	case *ast.ParenExpr:
		return r.value(e.X)
	case *ast.Ident:
		text, ok := r.Constants[e.Name]
		if !ok {
			text, ok = r.known[e.Name]
		}
		if !ok {
			return unknown, false
		}
		v := constant.MakeFromLiteral(strings.TrimPrefix(text, "-"), token.INT, 0)
		if strings.HasPrefix(text, "-") {
			v = constant.UnaryOp(token.SUB, v, 0)
		}
		return v, true
	case *ast.UnaryExpr:
		if v, ok := r.value(e.X); ok && e.Op == token.SUB {
			return constant.UnaryOp(token.SUB, v, 0), true
		}
	case *ast.BinaryExpr:
		x, ok1 := r.value(e.X)
		y, ok2 := r.value(e.Y)
		if !ok1 || !ok2 {
			break
		}
		switch e.Op {
		case token.SHL:
			if n, exact := constant.Uint64Val(y); exact && n < 64 {
				return constant.Shift(x, token.SHL, uint(n)), true
			}
		case token.ADD, token.SUB, token.MUL, token.OR, token.AND:
			return constant.BinaryOp(x, e.Op, y), true
		}
	}
	return unknown, false
}

// constant adds the integer constant that a statement such as "static const uint32_t NAME = 5" defines.
func (r *reader) constant(words []lexeme) {
	n := slices.IndexFunc(words, func(w lexeme) bool { return w.text == "=" })
	if n < 3 || !mentions(words[:n], "const") && !mentions(words[:n], "constexpr") {
		return
	}
	for _, w := range words[:n] {
		if !isName(w.text) {
			return
		}
	}
	if v, ok := r.evaluate(spelled(words[n+1:])); ok {
		if u, err := strconv.ParseUint(v, 10, 32); err == nil && (mentions(words[:n], "int32_t") || mentions(words[:n], "int")) && !mentions(words[:n], "unsigned") {
			v = strconv.Itoa(int(int32(u)))
		}
		r.Constants[words[n-1].text] = v
	}
}

// types adds the names of the types that a statement, without the bodies in braces, declares.
func (r *reader) types(words []lexeme) {
	for i, w := range words[:max(len(words)-1, 0)] {
		if tag := words[i+1].text; slices.Contains([]string{"struct", "union", "enum"}, w.text) && isName(tag) {
			r.Types[tag] = true
		}
	}
	if len(words) < 2 || words[0].text != "typedef" {
		return
	}
	if n := slices.IndexFunc(words, func(w lexeme) bool { return w.text == "(" }); n >= 0 && n+2 < len(words) && words[n+1].text == "*" {
		r.Types[words[n+2].text] = true
	} else if last := words[len(words)-1].text; isName(last) {
		r.Types[last] = true
	}
}

// function adds the function that a statement declares, if it declares one.
func (r *reader) function(words []lexeme) {
	words = withoutMacros(words)
	open := slices.IndexFunc(words, func(w lexeme) bool { return w.text == "(" })
	if open < 2 || !isName(words[open-1].text) || slices.ContainsFunc(words[:open], func(w lexeme) bool {
		return slices.Contains([]string{"typedef", "using", "return", "=", "static", "template", ":", "operator"}, w.text)
	}) {
		return
	}
	name := words[open-1].text
	ret, err := ctype(words[:open-1])
	if err != nil {
		return
	}
	f := Prototype{Ret: ret}
	list, _, ok := arguments(words[open+1:])
	if !ok {
		return
	}
	for i, arg := range list {
		if spelled(arg) == "..." {
			f.Variadic = true
			continue
		}
		p, err := anyParameter(arg)
		if err == nil {
			p.Type, err = r.sized(p.Type)
		}
		if err != nil {
			f.Unread = fmt.Sprintf("parameter %d: %v", i+1, err)
		}
		f.Params = append(f.Params, p)
	}
	r.Functions[name] = f
}

// sized returns the type of a pointer to arrays with the number of elements in the place of a constant's name, and
// other types as they are.
func (r *reader) sized(ctype string) (string, error) {
	base, size, ok := strings.Cut(ctype, "( *)[")
	if !ok {
		return ctype, nil
	}
	n, ok := r.evaluate(strings.TrimSuffix(size, "]"))
	if !ok {
		return ctype, fmt.Errorf("the size of %q is not known", ctype)
	}
	return base + "( *)[" + n + "]", nil
}

var allCapitals = regexp.MustCompile(`^_*[A-Z][A-Z0-9_]+$`)

// withoutMacros removes attributes and the macros of visibility and deprecation from a prototype.
func withoutMacros(words []lexeme) (kept []lexeme) {
	for i := 0; i < len(words); i++ {
		w := words[i].text
		follows := i+1 < len(words) && words[i+1].text == "("
		switch {
		case w == "extern", strings.HasPrefix(w, `"`):
		case follows && (w == "__attribute__" || allCapitals.MatchString(w) && !mentions(kept, "(")):
			i += 2 + bracket(words[i+2:], "(", ")")
		case allCapitals.MatchString(w) && !mentions(kept, "(") && i+2 < len(words) && isName(words[i+1].text):
		default:
			kept = append(kept, words[i])
		}
	}
	return kept
}

// anyParameter is like parameter, and also understands missing names, arrays, and pointers to functions and arrays.
func anyParameter(words []lexeme) (p abi.Param, err error) {
	if n := slices.IndexFunc(words, func(w lexeme) bool { return w.text == "=" }); n >= 0 {
		words = words[:n]
	}
	if n := slices.IndexFunc(words, func(w lexeme) bool { return w.text == "(" }); n >= 0 {
		if n+2 >= len(words) || words[n+1].text != "*" {
			return p, fmt.Errorf("cannot read %q", spelled(words))
		}
		end := n + 1 + bracket(words[n+1:], "(", ")")
		for _, w := range words[n+1 : min(end, len(words))] {
			if isName(w.text) && w.text != "const" {
				p.Name = w.text
			}
		}
		base, err := ctype(words[:n])
		if err != nil || end >= len(words) {
			return p, fmt.Errorf("cannot read %q", spelled(words))
		}
		tail := words[end+1:]
		if len(tail) == 0 || tail[0].text != "(" {
			p.Type = base + " ( *)" + spelled(tail)
			return p, nil
		}
		list, _, _ := arguments(tail[1:])
		var types []string
		for _, arg := range list {
			q, err := anyParameter(arg)
			if err != nil {
				return p, err
			}
			types = append(types, q.Type)
		}
		p.Type = base + " ( *)(" + strings.Join(types, ", ") + ")"
		return p, nil
	}
	array, inner := false, ""
	if n := slices.IndexFunc(words, func(w lexeme) bool { return w.text == "[" }); n >= 0 {
		if end := n + 1 + bracket(words[n+1:], "[", "]"); end+1 < len(words) { // an array of arrays is passed as the address of its first array
			inner = spelled(words[end+1:])
		}
		words, array = words[:n], true
	}
	if n := len(words); n > 1 && isName(words[n-1].text) && !isTypeWord(words[n-1].text) && !(n == 2 && (words[0].text == "const" || words[0].text == "struct")) {
		p.Name, words = words[n-1].text, words[:n-1]
	}
	p.Type, err = ctype(words)
	switch {
	case inner != "":
		p.Type += " ( *)" + inner
	case array && strings.HasSuffix(p.Type, "*"):
		p.Type += "*"
	case array:
		p.Type += " *"
	}
	return p, err
}

func isTypeWord(w string) bool {
	return slices.Contains([]string{"int", "char", "long", "short", "unsigned", "signed", "float", "double", "bool", "void", "const"}, w)
}

// ctype returns a type as the table spells it.
func ctype(words []lexeme) (string, error) {
	constant, base, stars := false, "", ""
	for _, w := range words {
		switch t := w.text; {
		case t == "const" && stars == "":
			constant = true
		case t == "const":
			stars += "const "
		case t == "struct", t == "enum", t == "restrict", t == "inline":
		case t == "*":
			stars += "*"
		case !isName(t) || stars != "":
			return "", fmt.Errorf("cannot read %q", spelled(words))
		case base == "":
			base = t
		case isTypeWord(t) && isTypeWord(strings.Fields(base)[0]):
			base += " " + t
		default:
			return "", fmt.Errorf("cannot read %q", spelled(words))
		}
	}
	if base == "" {
		return "", fmt.Errorf("no type in %q", spelled(words))
	}
	stars = strings.TrimSuffix(stars, "const ") // a constant parameter has the type of another
	if stars == "" {
		return base, nil
	}
	if constant {
		base = "const " + base
	}
	return base + " " + stars, nil
}

// Types returns the types of the parameters, as the table spells them.
func (p Prototype) Types() string {
	var types []string
	for _, q := range p.Params {
		types = append(types, q.Type)
	}
	return strings.Join(types, ", ")
}
