package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// layout says how a value is written, in what printf's directives and the fields of str.format have in common.
type layout struct {
	fill      rune
	align     byte // < > ^ or =, which fills between sign and digits; 0 for the kind's own
	sign      byte // + or space, 0 for only -
	alternate bool
	width     int
	group     byte // , or _ between thousands
	precision int  // -1 for none
	kind      byte // 0 for none
}

// formatFilter is the filter format: printf's directives.
func formatFilter(s *scope, a args) (any, error) {
	if len(a.values) == 0 {
		return nil, fmt.Errorf("needs a value")
	}
	text, err := s.str(a.values[0])
	if err != nil {
		return nil, err
	}
	if len(a.named) > 0 && len(a.values) > 1 {
		return nil, fmt.Errorf("takes arguments with names or without, not both")
	}
	if len(a.named) > 0 {
		d, err := s.named(args{named: a.named, order: a.order})
		if err != nil {
			return nil, err
		}
		return s.formatted(text, d)
	}
	return s.formatted(text, tuple(a.values[1:]))
}

// formatted is Python's text % value: printf's directives for the items of a tuple, the values of a dictionary, or one value.
func (r *rendering) formatted(text string, value any) (any, error) {
	var out strings.Builder
	items, several := value.(tuple)
	if !several {
		items = tuple{value}
	}
	d, isDict := value.(*Dict)
	used := 0
	for text != "" {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			i = len(text)
		}
		out.WriteString(text[:i])
		if text = text[i:]; text == "" {
			break
		}
		text = text[1:]
		var arg any
		found := false
		if strings.HasPrefix(text, "(") {
			name, rest, ok := strings.Cut(text[1:], ")")
			if !ok || !isDict {
				return nil, fmt.Errorf("a directive with a name needs a dictionary")
			}
			if arg, found = d.Get(name); !found {
				return nil, fmt.Errorf("the dictionary has no %q", name)
			}
			text, used = rest, len(items)
		}
		l := layout{fill: ' ', align: '>', precision: -1}
		text = l.flags(text)
		n, rest := digits(text)
		l.width = max(n, 0)
		if text = rest; strings.HasPrefix(text, ".") {
			n, rest := digits(text[1:])
			l.precision, text = max(n, 0), rest
		}
		text = strings.TrimLeft(text, "hlL")
		if text == "" {
			return nil, fmt.Errorf("a directive is not complete")
		}
		l.kind, text = text[0], text[1:]
		if l.kind == '%' {
			out.WriteByte('%')
			continue
		}
		if !found {
			if used == len(items) {
				return nil, fmt.Errorf("there are more directives than values")
			}
			arg, used = items[used], used+1
		}
		one, err := r.directive(l, arg)
		if err != nil {
			return nil, err
		}
		if out.WriteString(one); out.Len() > maxText {
			return nil, errLarge
		}
	}
	if used < len(items) && !isDict {
		return nil, fmt.Errorf("there are fewer directives than values")
	}
	return out.String(), nil
}

// flags reads those of a directive.
func (l *layout) flags(text string) string {
	for ; text != ""; text = text[1:] {
		switch text[0] {
		case '-':
			l.align = '<'
		case '0':
			if l.align != '<' {
				l.fill, l.align = '0', '='
			}
		case '+':
			l.sign = '+'
		case ' ':
			if l.sign == 0 {
				l.sign = ' '
			}
		case '#':
			l.alternate = true
		default:
			return text
		}
	}
	return text
}

// digits reads a number, -1 if there is none.
func digits(text string) (n int, rest string) {
	i := 0
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	if i == 0 {
		return -1, text
	}
	n, err := strconv.Atoi(text[:i])
	if err != nil {
		n = math.MaxInt
	}
	return n, text[i:]
}

// directive writes a value as printf does.
func (r *rendering) directive(l layout, arg any) (string, error) {
	switch l.kind {
	case 's', 'r', 'a':
		text := repr(arg)
		if l.kind == 's' {
			var err error
			if text, err = r.str(arg); err != nil {
				return "", err
			}
		} else if l.kind == 'a' {
			return "", fmt.Errorf("the directive %%a is not supported")
		}
		if l.align == '=' {
			l.fill, l.align = ' ', '>'
		}
		return l.text(text)
	case 'c':
		if i, err := asInt(arg); err == nil {
			return l.text(string(rune(i)))
		}
		text, err := asText(arg)
		if err == nil && utf8.RuneCountInString(text) != 1 {
			err = fmt.Errorf("%%c needs one character")
		}
		if err != nil {
			return "", err
		}
		return l.text(text)
	case 'd', 'i', 'u':
		f, _, whole, ok := numeric(arg)
		if ok && !whole {
			i, err := truncated(f)
			if err != nil {
				return "", err
			}
			arg = i
		}
		l.kind = 'd'
	case 'x', 'X', 'o', 'e', 'E', 'f', 'F', 'g', 'G':
	default:
		return "", fmt.Errorf("there is no directive %%%c", l.kind)
	}
	if l.precision >= 0 && strings.IndexByte("dxXo", l.kind) >= 0 {
		return "", fmt.Errorf("a precision of whole numbers is not supported")
	}
	if l.precision < 0 && strings.IndexByte("eEfFgG", l.kind) >= 0 {
		l.precision = 6
	}
	return l.number(arg)
}

// text writes a text.
func (l layout) text(s string) (string, error) {
	if l.precision >= 0 {
		if runes := []rune(s); len(runes) > l.precision {
			s = string(runes[:l.precision])
		}
	}
	if l.align == 0 {
		l.align = '<'
	}
	return l.pad("", s)
}

// number writes a number.
func (l layout) number(value any) (string, error) {
	f, i, whole, ok := numeric(value)
	if !ok {
		return "", fmt.Errorf("%c needs a number, not %s", l.kind, describe(value))
	}
	if l.precision > 1000 {
		return "", errLarge
	}
	var body string
	switch l.kind {
	case 'd', 'x', 'X', 'o', 'b', 'n':
		if !whole || l.kind == 'n' {
			return "", fmt.Errorf("%c needs an integer, not %s", l.kind, repr(value))
		}
		base := map[byte]int{'d': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2}[l.kind]
		body = strconv.FormatInt(int64(i), base)
		if l.kind == 'X' {
			body = strings.ToUpper(body)
		}
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		body = l.float(f)
	case 0:
		if body = strconv.Itoa(i); !whole {
			body = float(f)
			if l.precision >= 0 {
				return "", fmt.Errorf("a precision without a type is not supported")
			}
		}
	default:
		return "", fmt.Errorf("there is no type %c of numbers", l.kind)
	}
	sign := ""
	if strings.HasPrefix(body, "-") {
		sign, body = "-", body[1:]
	} else if l.sign != 0 {
		sign = string(l.sign)
	}
	if l.alternate {
		prefix := map[byte]string{'x': "0x", 'X': "0X", 'o': "0o", 'b': "0b", 'd': ""}
		p, known := prefix[l.kind]
		if !known {
			return "", fmt.Errorf("# is not supported with %c", l.kind)
		}
		sign += p
	}
	if l.group != 0 {
		if l.fill == '0' && l.align == '=' || strings.IndexByte("xXob", l.kind) >= 0 {
			return "", fmt.Errorf("%c between digits is not supported here", l.group)
		}
		body = grouping(body, l.group)
	}
	if l.align == 0 {
		l.align = '>'
	}
	return l.pad(sign, body)
}

// float writes the digits of a number with a fraction.
func (l layout) float(f float64) string {
	precision := l.precision
	if precision < 0 {
		precision = 6
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		if l.kind == 'E' || l.kind == 'F' || l.kind == 'G' {
			return strings.ToUpper(float(f))
		}
		return float(f)
	}
	switch l.kind {
	case '%':
		return strconv.FormatFloat(f*100, 'f', precision, 64) + "%"
	case 'f', 'F':
		return strconv.FormatFloat(f, 'f', precision, 64)
	case 'e', 'E':
		return strconv.FormatFloat(f, l.kind, precision, 64)
	}
	// g has so many digits in all, without zeros at the end, and an exponent where it is small or has more digits.
	precision = max(precision, 1)
	scientific := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exponent, _ := strings.Cut(scientific, "e")
	if e, _ := strconv.Atoi(exponent); e >= -4 && e < precision {
		mantissa, exponent = strconv.FormatFloat(f, 'f', precision-1-e, 64), ""
	}
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	if exponent != "" {
		mantissa += "e" + exponent
	}
	if l.kind == 'G' {
		mantissa = strings.ToUpper(mantissa)
	}
	return mantissa
}

// grouping writes a mark between thousands.
func grouping(body string, mark byte) string {
	n := strings.IndexFunc(body, func(r rune) bool { return r < '0' || r > '9' })
	if n < 0 {
		n = len(body)
	}
	whole := body[:n]
	for at := n - 3; at > 0; at -= 3 {
		whole = whole[:at] + string(mark) + whole[at:]
	}
	return whole + body[n:]
}

// pad makes a value as wide as asked for.
func (l layout) pad(sign, body string) (string, error) {
	more := l.width - utf8.RuneCountInString(sign) - utf8.RuneCountInString(body)
	if more <= 0 {
		return sign + body, nil
	}
	if more > maxText/utf8.UTFMax {
		return "", errLarge
	}
	fill := func(n int) string { return strings.Repeat(string(l.fill), n) }
	switch l.align {
	case '<':
		return sign + body + fill(more), nil
	case '^':
		return fill(more/2) + sign + body + fill(more-more/2), nil
	case '=':
		return sign + fill(more) + body, nil
	}
	return fill(more) + sign + body, nil
}

// format is Python's str.format.
func (r *rendering) format(text string, a args) (any, error) {
	var out strings.Builder
	next := 0 // of the fields without a name; -1 once one had a number
	for text != "" {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			i = len(text)
		}
		out.WriteString(text[:i])
		if text = text[i:]; text == "" {
			break
		}
		if strings.HasPrefix(text, "{{") || strings.HasPrefix(text, "}}") {
			out.WriteByte(text[0])
			text = text[2:]
			continue
		}
		end := strings.IndexAny(text[1:], "{}") + 1
		if text[0] == '}' || end == 0 || text[end] == '{' {
			return nil, fmt.Errorf("format: a single brace, or a field in a field, which is not supported")
		}
		one, err := r.field(text[1:end], a, &next)
		if err != nil {
			return nil, fmt.Errorf("format: %w", err)
		}
		if out.WriteString(one); out.Len() > maxText {
			return nil, errLarge
		}
		text = text[end+1:]
	}
	return out.String(), nil
}

// field writes one: its name, what follows an exclamation mark, and its layout behind a colon.
func (r *rendering) field(field string, a args, next *int) (string, error) {
	field, spec, _ := strings.Cut(field, ":")
	path, conversion, converted := strings.Cut(field, "!")
	n := strings.IndexAny(path, ".[")
	if n < 0 {
		n = len(path)
	}
	name, path := path[:n], path[n:]
	var value any
	index, rest := digits(name)
	if name == "" || index >= 0 && rest == "" {
		if name == "" && *next < 0 || name != "" && *next > 0 {
			return "", fmt.Errorf("fields are numbered all, or none")
		}
		if name == "" {
			index = *next
			*next++
		} else {
			*next = -1
		}
		if index >= len(a.values) {
			return "", fmt.Errorf("there is no value %d", index)
		}
		value = a.values[index]
	} else {
		var ok bool
		if value, ok = a.named[name]; !ok {
			return "", fmt.Errorf("there is no value %q", name)
		}
	}
	for path != "" {
		var err error
		if path[0] == '.' {
			n := strings.IndexAny(path[1:], ".[") + 1
			if n == 0 {
				n = len(path)
			}
			value, err = attributeOf(value, path[1:n])
			path = path[n:]
		} else {
			key, rest, ok := strings.Cut(path[1:], "]")
			if !ok {
				return "", fmt.Errorf("an index does not end")
			}
			var item any = key
			if i, tail := digits(key); i >= 0 && tail == "" {
				item = i
			}
			value, err = r.item(value, item)
			path = rest
		}
		if _, missing := value.(Undefined); err == nil && missing {
			err = fmt.Errorf("%s", describe(value))
		}
		if err != nil {
			return "", err
		}
	}
	switch {
	case converted && conversion == "r":
		value = repr(value)
	case converted && conversion == "s":
		var err error
		if value, err = r.str(value); err != nil {
			return "", err
		}
	case converted:
		return "", fmt.Errorf("the conversion !%s is not supported", conversion)
	}
	l, err := readLayout(spec)
	if err != nil {
		return "", err
	}
	_, isBool := value.(bool)
	if _, _, _, ok := numeric(value); ok && !(isBool && spec == "") {
		return l.number(value)
	}
	text, ok := value.(string)
	switch {
	case !ok && spec != "":
		return "", fmt.Errorf("%s has no layout %q", describe(value), spec)
	case !ok:
		if text, err = r.str(value); err != nil {
			return "", err
		}
	case l.kind != 0 && l.kind != 's' || l.sign != 0 || l.alternate || l.group != 0 || l.align == '=':
		return "", fmt.Errorf("a string has no layout %q", spec)
	}
	return l.text(text)
}

// readLayout reads what stands behind the colon of a field.
func readLayout(spec string) (layout, error) {
	l := layout{fill: ' ', precision: -1}
	rest := spec
	if r, n := utf8.DecodeRuneInString(rest); n > 0 && len(rest) > n && strings.IndexByte("<>^=", rest[n]) >= 0 {
		l.fill, l.align, rest = r, rest[n], rest[n+1:]
	} else if n > 0 && strings.IndexByte("<>^=", rest[0]) >= 0 {
		l.align, rest = rest[0], rest[1:]
	}
	if rest != "" && strings.IndexByte("+- ", rest[0]) >= 0 {
		if l.sign = rest[0]; l.sign == '-' {
			l.sign = 0
		}
		rest = rest[1:]
	}
	rest, l.alternate = strings.CutPrefix(rest, "#")
	if strings.HasPrefix(rest, "0") {
		if l.align == 0 {
			l.fill, l.align = '0', '='
		}
		rest = rest[1:]
	}
	n, rest := digits(rest)
	l.width = max(n, 0)
	if rest != "" && (rest[0] == ',' || rest[0] == '_') {
		l.group, rest = rest[0], rest[1:]
	}
	if strings.HasPrefix(rest, ".") {
		if l.precision, rest = digits(rest[1:]); l.precision < 0 {
			return l, fmt.Errorf("the layout %q has no precision behind its point", spec)
		}
	}
	if rest != "" {
		l.kind, rest = rest[0], rest[1:]
	}
	if rest != "" {
		return l, fmt.Errorf("the layout %q is not supported", spec)
	}
	return l, nil
}
