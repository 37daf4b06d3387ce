package header

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Record is a struct or union of a header.
type Record struct {
	Kind   string // "struct" or "union"
	Fields []Field
	Pack   int    // the largest alignment of a field, 0 for any
	Unread string // why the fields could not be read; "" when they were
}

// Field is a member of a record.
type Field struct {
	Name  string  // "" for the members of an unnamed struct or union
	Type  string  // as the table spells it; where the type is declared in the field, only the sizes of an array
	Inner *Record // the type, where it is declared in the field
}

// Enum is the type of enumerators.
type Enum struct {
	Name    string // the tag, else the first name of a typedef, else ""
	Members []string
}

// aggregate is the part of a declaration that is in braces.
type aggregate struct {
	kind, tag string
	record    *Record
	members   []string
}

// open reads the aggregate that begins after these words, whose body is in braces.
func (r *reader) open(statement, body []lexeme, line int) *aggregate {
	n := slices.IndexFunc(statement, func(w lexeme) bool { return slices.Contains([]string{"struct", "union", "enum"}, w.text) })
	if n < 0 {
		return nil
	}
	a := &aggregate{kind: statement[n].text}
	for _, w := range statement[n+1:] {
		if w.text == ":" { // the integer type of an enum, or the base of a struct
			break
		}
		if isName(w.text) && w.text != "class" && w.text != "__attribute__" {
			a.tag = w.text
		}
	}
	if a.kind == "enum" {
		a.members = r.enum(body)
		return a
	}
	a.record = &Record{Kind: a.kind, Pack: r.packAt(line)}
	var err error
	if a.record.Fields, err = r.fields(body); err != nil {
		a.record.Unread = err.Error()
	}
	return a
}

// fields reads the members of a record.
func (r *reader) fields(body []lexeme) (fields []Field, err error) {
	for len(body) > 0 {
		var inner *Record
		end, begin, value := 0, -1, false
		for ; end < len(body) && body[end].text != ";"; end++ {
			value = value || body[end].text == "="
			if body[end].text == "{" {
				if !value {
					begin = end
				}
				end += bracket(body[end+1:], "{", "}") + 1
			}
		}
		end = min(end, len(body))
		statement := body[:end]
		body = body[min(end+1, len(body)):]
		if begin >= 0 {
			closing := begin + 1 + bracket(statement[begin+1:], "{", "}")
			a := r.open(statement[:begin], statement[begin+1:min(closing, len(statement))], statement[begin].line)
			if a == nil || a.record == nil || closing >= len(statement) {
				return nil, fmt.Errorf("cannot read %q", spelled(statement[:begin]))
			}
			if a.record.Unread != "" {
				return nil, fmt.Errorf("%s", a.record.Unread)
			}
			inner, statement = a.record, statement[closing+1:]
			if len(statement) == 0 {
				fields = append(fields, Field{Inner: inner})
				continue
			}
		}
		if len(statement) == 0 || isConstructor(statement) {
			continue
		}
		more, err := r.declarators(statement, inner)
		if err != nil {
			return nil, err
		}
		fields = append(fields, more...)
	}
	return fields, nil
}

// isConstructor reports whether a statement in a record defines constructors, which C++ alone sees and which take no place.
func isConstructor(words []lexeme) bool {
	if slices.Contains([]string{"constexpr", "explicit", "inline"}, words[0].text) {
		words = words[1:]
	}
	return len(words) > 2 && isName(words[0].text) && words[1].text == "(" && words[2].text != "*" && words[len(words)-1].text == "}"
}

// declarators reads the names that a statement such as "int *a, b[2]" declares. With inner the statement lacks the type.
func (r *reader) declarators(statement []lexeme, inner *Record) (fields []Field, err error) {
	if mentions(statement, ":") {
		return nil, fmt.Errorf("cannot read %q: bits of a field", spelled(statement))
	}
	var base []lexeme
	depth := 0
	for start, i := 0, 0; i <= len(statement); i++ {
		if i < len(statement) {
			switch statement[i].text {
			case "(", "[", "{":
				depth++
			case ")", "]", "}":
				depth--
			}
			if statement[i].text != "," || depth > 0 {
				continue
			}
		}
		one := statement[start:i]
		if start > 0 {
			one = slices.Concat(base, one)
		} else if inner == nil {
			base = one[:max(len(one)-1, 0)]
			if n := slices.IndexFunc(one, func(w lexeme) bool { return w.text == "*" || w.text == "[" }); n >= 0 {
				base = one[:n]
				if one[n].text == "[" {
					base = one[:max(n-1, 0)]
				}
			}
		}
		start = i + 1
		f, err := r.declarator(one, inner)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// declarator reads one name with its type.
func (r *reader) declarator(words []lexeme, inner *Record) (f Field, err error) {
	if n := slices.IndexFunc(words, func(w lexeme) bool { return w.text == "=" }); n >= 0 {
		words = words[:n]
	}
	words = slices.DeleteFunc(withoutAttributes(words), func(w lexeme) bool { return w.text == "struct" || w.text == "union" || w.text == "enum" })
	sizes := ""
	if n := slices.IndexFunc(words, func(w lexeme) bool { return w.text == "[" }); n >= 0 && !mentions(words, "(") {
		for rest := words[n:]; len(rest) > 0 && rest[0].text == "["; {
			end := 1 + bracket(rest[1:], "[", "]")
			size, ok := r.evaluate(spelled(rest[1:min(end, len(rest))]))
			if end == 1 {
				size, ok = "0", true // an array without a size ends a record
			}
			if !ok {
				return f, fmt.Errorf("the size of %q is not known", spelled(words))
			}
			sizes += "[" + size + "]"
			rest = rest[min(end+1, len(rest)):]
		}
		words = words[:n]
	}
	if inner != nil {
		if len(words) != 1 || !isName(words[0].text) {
			return f, fmt.Errorf("cannot read %q", spelled(words))
		}
		return Field{Name: words[0].text, Type: sizes, Inner: inner}, nil
	}
	if open := slices.IndexFunc(words, func(w lexeme) bool { return w.text == "(" }); open >= 0 && (open+1 == len(words) || words[open+1].text != "*") {
		return f, fmt.Errorf("%q is a function", spelled(words))
	}
	p, err := anyParameter(words)
	if err != nil {
		return f, err
	}
	if p.Name == "" || p.Type == "" {
		return f, fmt.Errorf("cannot read %q", spelled(words))
	}
	if sizes != "" && strings.HasSuffix(p.Type, "*") {
		sizes = strings.TrimSpace(sizes)
	}
	return Field{Name: p.Name, Type: p.Type + sizes}, nil
}

// withoutAttributes removes attributes and calls of macros, such as those of deprecation, that begin a field.
func withoutAttributes(words []lexeme) []lexeme {
	for len(words) > 1 && words[1].text == "(" && (words[0].text == "__attribute__" || allCapitals.MatchString(words[0].text)) {
		words = words[min(2+bracket(words[2:], "(", ")")+1, len(words)):]
	}
	return slices.Clone(words)
}

// close adds what a statement with an aggregate declares: the type itself, and the names after the braces.
func (r *reader) close(statement []lexeme, a *aggregate, trailing int) {
	typedef := len(statement) > 0 && statement[0].text == "typedef"
	name := a.tag
	var names []Field
	if typedef {
		for _, one := range commas(statement[trailing:]) {
			stars := 0
			for len(one) > 0 && one[0].text == "*" {
				one, stars = one[1:], stars+1
			}
			if len(one) != 1 || !isName(one[0].text) {
				continue // arrays and functions of a type that is declared on the spot do not occur
			}
			names = append(names, Field{Name: one[0].text, Type: strings.Repeat("*", stars)})
			if name == "" && stars == 0 {
				name = one[0].text
			}
		}
	}
	if name != "" && a.record != nil {
		r.Records[name] = *a.record
	}
	if a.record == nil {
		r.Enums = append(r.Enums, Enum{name, a.members})
		if name != "" {
			r.Typedefs[name] = name
		}
	}
	for _, n := range names {
		switch {
		case n.Type != "":
			r.Typedefs[n.Name] = name + " " + n.Type
		case n.Name != name:
			r.Typedefs[n.Name] = name
		}
	}
}

// commas splits words at the commas outside of brackets.
func commas(words []lexeme) (list [][]lexeme) {
	depth, start := 0, 0
	for i, w := range words {
		switch w.text {
		case "(", "[":
			depth++
		case ")", "]":
			depth--
		case ",":
			if depth == 0 {
				list, start = append(list, words[start:i]), i+1
			}
		}
	}
	if start < len(words) {
		list = append(list, words[start:])
	}
	return list
}

// typedef adds the name that a statement without braces gives a type.
func (r *reader) typedef(words []lexeme) {
	if len(words) > 3 && words[0].text == "using" && isName(words[1].text) && words[2].text == "=" {
		if p, err := anyParameter(words[3:]); err == nil && p.Name == "" {
			r.Typedefs[words[1].text] = p.Type
		}
		return
	}
	if len(words) < 3 || words[0].text != "typedef" {
		return
	}
	for _, one := range commas(words[1:]) {
		if f, err := r.declarator(one, nil); err == nil {
			r.Typedefs[f.Name] = f.Type
		}
	}
}

// packAt returns the alignment that #pragma pack sets at a line, 0 for none.
func (r *reader) packAt(line int) (pack int) {
	for _, p := range r.packs {
		if p.line < line {
			pack = p.bytes
		}
	}
	return pack
}

type packing struct{ line, bytes int }

// packings returns the lines that set the alignment of fields.
func packings(text string) (list []packing) {
	for i, line := range strings.Split(text, "\n") {
		_, rest, ok := strings.Cut(strings.ReplaceAll(line, " ", ""), "#pragmapack(")
		if !ok {
			continue
		}
		rest, _, _ = strings.Cut(rest, ")")
		bytes, _ := strconv.Atoi(rest[strings.LastIndex(rest, ",")+1:]) // 0 for pop and for nothing
		list = append(list, packing{i + 1, bytes})
	}
	return list
}

// basicSizes are the sizes of the types of the C language on the 64-bit systems that CANN runs on.
var basicSizes = map[string]int{
	"char": 1, "signed char": 1, "unsigned char": 1, "bool": 1, "_Bool": 1, "int8_t": 1, "uint8_t": 1,
	"short": 2, "short int": 2, "unsigned short": 2, "unsigned short int": 2, "int16_t": 2, "uint16_t": 2,
	"int": 4, "signed int": 4, "unsigned int": 4, "unsigned": 4, "int32_t": 4, "uint32_t": 4, "float": 4,
	"long": 8, "unsigned long": 8, "long long": 8, "unsigned long long": 8, "int64_t": 8, "uint64_t": 8, "double": 8,
	"size_t": 8, "uintptr_t": 8, "intptr_t": 8,
}

// systemRecords are structs of the system's headers, with their sizes and alignments.
var systemRecords = map[string][2]int{"in_addr": {4, 4}, "in6_addr": {16, 4}}

// OfSystem reports whether a name is the tag of a struct of the system's headers.
func OfSystem(name string) bool { return systemRecords[name] != [2]int{} }

// Record returns the record of a name, through typedefs.
func (d *Declared) Record(name string) (Record, bool) {
	for range 8 {
		if r, ok := d.Records[name]; ok {
			return r, true
		}
		target, ok := d.Typedefs[name]
		if !ok || target == name {
			break
		}
		name = target
	}
	return Record{}, false
}

// Layout is the place of the fields of a record in memory.
type Layout struct {
	Size, Align int
	Offsets     []int
}

// Layout returns the layout that a C compiler gives a record on the 64-bit systems that CANN runs on.
func (d *Declared) Layout(r *Record) (l Layout, err error) { return d.layout(r, 0) }

func (d *Declared) layout(r *Record, depth int) (l Layout, err error) {
	if r.Unread != "" {
		return l, fmt.Errorf("%s", r.Unread)
	}
	if depth > 16 {
		return l, fmt.Errorf("records contain each other")
	}
	l.Align = 1
	for _, f := range r.Fields {
		size, align, err := d.sizeOf(f, depth)
		if err != nil {
			return l, err
		}
		if r.Pack > 0 {
			align = min(align, r.Pack)
		}
		l.Align = max(l.Align, align)
		if r.Kind == "union" {
			l.Offsets, l.Size = append(l.Offsets, 0), max(l.Size, size)
			continue
		}
		l.Size = (l.Size + align - 1) / align * align
		l.Offsets = append(l.Offsets, l.Size)
		l.Size += size
	}
	l.Size = (l.Size + l.Align - 1) / l.Align * l.Align
	return l, nil
}

func (d *Declared) sizeOf(f Field, depth int) (size, align int, err error) {
	base, sizes := f.Type, ""
	if n := strings.Index(base, "["); n >= 0 && !strings.Contains(base, "( *)") {
		base, sizes = base[:n], base[n:]
	}
	switch base = strings.TrimSpace(base); {
	case f.Inner != nil:
		l, err := d.layout(f.Inner, depth+1)
		if err != nil {
			return 0, 0, err
		}
		size, align = l.Size, l.Align
	default:
		if size, align, err = d.sizeOfName(base, depth); err != nil {
			return 0, 0, err
		}
	}
	for sizes != "" {
		n, rest, ok := strings.Cut(sizes[1:], "]")
		count, err := strconv.Atoi(n)
		if !ok || err != nil || count < 0 || count > 1<<24 || size > 1<<30 {
			return 0, 0, fmt.Errorf("the size of %q is not known", f.Type)
		}
		size, sizes = size*count, rest
	}
	return size, align, nil
}

func (d *Declared) sizeOfName(name string, depth int) (size, align int, err error) {
	for range 16 {
		if strings.HasSuffix(name, "*") || strings.Contains(name, "( *)") {
			return 8, 8, nil
		}
		if size := basicSizes[name]; size > 0 {
			return size, size, nil
		}
		if s, ok := systemRecords[name]; ok {
			return s[0], s[1], nil
		}
		if r, ok := d.Records[name]; ok {
			l, err := d.layout(&r, depth+1)
			return l.Size, l.Align, err
		}
		target, ok := d.Typedefs[name]
		switch {
		case ok && strings.Contains(target, "[") && !strings.Contains(target, "( *)"):
			return d.sizeOf(Field{Type: target}, depth+1)
		case ok && target != name:
			name = target
			continue
		case ok && slices.ContainsFunc(d.Enums, func(e Enum) bool { return e.Name == name }):
			return 4, 4, nil
		}
		break
	}
	return 0, 0, fmt.Errorf("the size of the type %q is not known", name)
}
