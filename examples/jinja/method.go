package jinja

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// textMethods are those of Python's str that templates use.
var textMethods = map[string]func(*rendering, string, args) (any, error){
	"strip":  stripper(strings.TrimFunc, strings.Trim),
	"lstrip": stripper(strings.TrimLeftFunc, strings.TrimLeft),
	"rstrip": stripper(strings.TrimRightFunc, strings.TrimRight),
	"split":  splitText,
	"rsplit": rsplitText,
	"splitlines": func(_ *rendering, s string, a args) (any, error) {
		v, err := a.bind("keepends?")
		if err != nil {
			return nil, err
		}
		return splitLines(s, truth(or(v[0], false)))
	},
	"partition": func(_ *rendering, s string, a args) (any, error) {
		mark, err := oneText(a)
		before, behind, ok := strings.Cut(s, mark)
		if !ok {
			mark = ""
		}
		if mark == "" && err == nil && ok {
			err = fmt.Errorf("an empty string does not part a text")
		}
		return tuple{before, mark, behind}, err
	},
	"rpartition": func(_ *rendering, s string, a args) (any, error) {
		mark, err := oneText(a)
		if err != nil || mark == "" {
			return nil, cmp.Or(err, fmt.Errorf("an empty string does not part a text"))
		}
		i := strings.LastIndex(s, mark)
		if i < 0 {
			return tuple{"", "", s}, nil
		}
		return tuple{s[:i], mark, s[i+len(mark):]}, nil
	},
	"center": padded(func(n int) int { return n }),
	"ljust":  padded(func(int) int { return 0 }),
	"rjust":  padded(nil),
	"zfill": func(_ *rendering, s string, a args) (any, error) {
		value, err := a.one()
		if err != nil {
			return nil, err
		}
		width, err := asInt(value)
		if err != nil || width > maxText {
			return nil, cmp.Or(err, errLarge)
		}
		sign := 0
		if s != "" && (s[0] == '-' || s[0] == '+') {
			sign = 1
		}
		return s[:sign] + strings.Repeat("0", max(width-utf8.RuneCountInString(s), 0)) + s[sign:], nil
	},
	"expandtabs": func(_ *rendering, s string, a args) (any, error) {
		v, err := a.bind("tabsize?")
		if err != nil {
			return nil, err
		}
		n, err := asInt(or(v[0], 8))
		if err != nil || n > 1024 {
			return nil, cmp.Or(err, errLarge)
		}
		return expandTabs(s, n)
	},
	"replace":    replaceText,
	"lower":      plain(lower),
	"upper":      plain(upper),
	"title":      plain(title),
	"capitalize": plain(capitalize),
	"swapcase":   plain(swapCase),
	"casefold":   plain(func(s string) string { return cases.Fold().String(s) }),
	"startswith": affix(strings.HasPrefix),
	"endswith":   affix(strings.HasSuffix),
	"removeprefix": func(_ *rendering, s string, a args) (any, error) {
		p, err := oneText(a)
		return strings.TrimPrefix(s, p), err
	},
	"removesuffix": func(_ *rendering, s string, a args) (any, error) {
		p, err := oneText(a)
		return strings.TrimSuffix(s, p), err
	},
	"find":   finder(strings.Index, false),
	"rfind":  finder(strings.LastIndex, false),
	"index":  finder(strings.Index, true),
	"rindex": finder(strings.LastIndex, true),
	"count": func(_ *rendering, s string, a args) (any, error) {
		inside, _, part, err := within(s, a)
		if err != nil {
			return nil, err
		}
		text, err := asText(part)
		return strings.Count(inside, text), err
	},
	"join": func(r *rendering, s string, a args) (any, error) {
		value, err := a.one()
		if err != nil {
			return nil, err
		}
		items, err := r.iterate(value)
		if err != nil {
			return nil, err
		}
		all := make([]string, len(items))
		for i, item := range items {
			if all[i], err = asText(item); err != nil {
				return nil, fmt.Errorf("join: %w", err)
			}
		}
		return joined(all, s)
	},
	"isdigit":   every(unicode.IsDigit),
	"isdecimal": every(unicode.IsDigit),
	"isnumeric": every(unicode.IsNumber),
	"isascii": func(_ *rendering, s string, _ args) (any, error) {
		return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0, nil
	},
	"istitle": func(_ *rendering, s string, _ args) (any, error) { return s == title(s) && s != lower(s), nil },
	"isidentifier": func(_ *rendering, s string, _ args) (any, error) {
		for i, r := range s {
			if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r) && !unicode.IsMark(r)) {
				return false, nil
			}
		}
		return s != "", nil
	},
	"isprintable": func(_ *rendering, s string, _ args) (any, error) {
		return strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0, nil
	},
	"isalpha": every(unicode.IsLetter),
	"isalnum": every(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isspace": every(space),
	"isupper": func(_ *rendering, s string, _ args) (any, error) {
		return s == upper(s) && s != lower(s), nil
	},
	"islower": func(_ *rendering, s string, _ args) (any, error) {
		return s == lower(s) && s != upper(s), nil
	},
}

func init() { // it follows attributes, which may be methods
	textMethods["format"] = (*rendering).format
}

// joined is strings.Join within the bound on texts.
func joined(all []string, mark string) (any, error) {
	n := len(mark) * len(all)
	for _, s := range all {
		n += len(s)
	}
	if n > maxText {
		return nil, errLarge
	}
	return strings.Join(all, mark), nil
}

func oneText(a args) (string, error) {
	value, err := a.one()
	if err != nil {
		return "", err
	}
	return asText(value)
}

func plain(f func(string) string) func(*rendering, string, args) (any, error) {
	return func(_ *rendering, s string, _ args) (any, error) { return f(s), nil }
}

func every(f func(rune) bool) func(*rendering, string, args) (any, error) {
	return func(_ *rendering, s string, _ args) (any, error) {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0, nil
	}
}

func stripper(blank func(string, func(rune) bool) string, chars func(string, string) string) func(*rendering, string, args) (any, error) {
	return func(r *rendering, s string, a args) (any, error) {
		v, err := a.bind("chars?")
		if err != nil {
			return nil, err
		}
		if set, ok := v[0].(string); ok {
			return trimmed(r, s, set, chars)
		}
		return blank(s, space), nil
	}
}

// trimmed takes characters of a set off a text. Each character that goes is looked for in the whole set.
func trimmed(r *rendering, s, set string, trim func(s, set string) string) (any, error) {
	out := trim(s, set)
	if err := r.Step(min((len(s)-len(out))/16, maxSteps) * min(len(set), maxSteps) / 16); err != nil {
		return nil, err
	}
	return out, nil
}

// within gives the part of a text that arguments behind the first choose, and the characters before it.
func within(s string, a args) (inside string, before int, first any, err error) {
	v, err := a.bind("sub", "start?", "end?")
	if err != nil {
		return "", 0, nil, err
	}
	first = v[0]
	from, to := or(v[1], nil), or(v[2], nil)
	if from == nil && to == nil {
		return s, 0, first, nil
	}
	runes := []rune(s)
	part, err := cutItems(runes, [3]any{from, to, nil})
	if start, _ := from.(int); start < 0 {
		before = max(len(runes)+start, 0)
	} else {
		before = min(start, len(runes))
	}
	return string(part), before, first, err
}

func affix(has func(s, part string) bool) func(*rendering, string, args) (any, error) {
	return func(_ *rendering, s string, a args) (any, error) {
		s, _, value, err := within(s, a)
		if err != nil {
			return nil, err
		}
		if all, ok := value.(tuple); ok {
			return slices.ContainsFunc(all, func(v any) bool { part, ok := v.(string); return ok && has(s, part) }), nil
		}
		part, err := asText(value)
		return has(s, part), err
	}
}

func finder(index func(s, part string) int, must bool) func(*rendering, string, args) (any, error) {
	return func(_ *rendering, s string, a args) (any, error) {
		s, before, value, err := within(s, a)
		if err != nil {
			return nil, err
		}
		part, err := asText(value)
		if err != nil {
			return nil, err
		}
		i := index(s, part)
		switch {
		case i < 0 && must:
			return nil, fmt.Errorf("%s is not in the text", repr(part))
		case i < 0:
			return i, nil
		}
		return before + utf8.RuneCountInString(s[:i]), nil
	}
}

// padded makes a text as wide as asked for; left says how much of an even share comes before it.
func padded(left func(even int) int) func(*rendering, string, args) (any, error) {
	return func(_ *rendering, s string, a args) (any, error) {
		v, err := a.bind("width", "fillchar?")
		if err != nil {
			return nil, err
		}
		width, err := asInt(v[0])
		if err != nil {
			return nil, err
		}
		fill, err := asText(or(v[1], " "))
		if err != nil || utf8.RuneCountInString(fill) != 1 {
			return nil, cmp.Or(err, fmt.Errorf("fills with one character, not %s", repr(fill)))
		}
		more := max(width-utf8.RuneCountInString(s), 0)
		if more > maxText/len(fill) {
			return nil, errLarge
		}
		before := more
		if left != nil { // of an odd number of places, center puts the last one before the text if the width is odd
			before = left(more/2 + more&width&1)
		}
		return strings.Repeat(fill, before) + s + strings.Repeat(fill, more-before), nil
	}
}

// textMethod is a method of texts as a filter, with a default for its first argument.
func textMethod(f func(*rendering, string, args) (any, error), otherwise any) function {
	return func(s *scope, a args) (any, error) {
		if len(a.values) == 0 {
			return nil, fmt.Errorf("needs a value")
		}
		text, err := s.str(a.values[0])
		if err != nil {
			return nil, err
		}
		a.values = a.values[1:]
		if len(a.values)+len(a.named) == 0 {
			a.values = []any{otherwise}
		}
		return f(s.rendering, text, a)
	}
}

// lineEnds are those of Python beside the newline and the return.
const lineEnds = "\v\f\x1c\x1d\x1e\u0085\u2028\u2029"

func splitLines(s string, keep bool) (any, error) {
	out := []any{}
	for s != "" {
		end, next := len(s), len(s)
		if i := strings.IndexAny(s, "\n\r"+lineEnds); i >= 0 {
			_, n := utf8.DecodeRuneInString(s[i:])
			if strings.HasPrefix(s[i:], "\r\n") {
				n = 2
			}
			end, next = i, i+n
		}
		if keep {
			end = next
		}
		if out = append(out, s[:end]); len(out) > maxItems {
			return nil, errLarge
		}
		s = s[next:]
	}
	return out, nil
}

func expandTabs(s string, n int) (any, error) {
	var out strings.Builder
	column := 0
	for _, r := range s {
		switch {
		case r == '\t' && n > 0:
			more := n - column%n
			out.WriteString(strings.Repeat(" ", more))
			column += more
		case r == '\t':
		default:
			out.WriteRune(r)
			column++
			if r == '\n' || r == '\r' {
				column = 0
			}
		}
		if out.Len() > maxText {
			return nil, errLarge
		}
	}
	return out.String(), nil
}

// space tells white space as Python does, to which four separators of ASCII belong.
func space(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// lower and upper are Python's, where a letter may become several.
func lower(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und, cases.HandleFinalSigma(true)).String(s)
}

func upper(s string) string {
	if ascii(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

func swapCase(s string) string {
	var out strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			out.WriteString(lower(string(r)))
		} else {
			out.WriteString(upper(string(r)))
		}
	}
	return out.String()
}

func splitText(_ *rendering, s string, a args) (any, error) {
	mark, limit, err := splitArgs(a)
	if err != nil {
		return nil, err
	}
	if mark == "" {
		return splitBlank(s, limit)
	}
	if limit >= 0 {
		limit++
	}
	parts, err := split(s, mark, limit)
	return texts(parts), err
}

// split is strings.SplitN within the bound on lists.
func split(s, mark string, limit int) ([]string, error) {
	if len(s)/len(mark) > maxItems && (limit < 0 || limit > maxItems) && strings.Count(s, mark) >= maxItems {
		return nil, errLarge
	}
	return strings.SplitN(s, mark, limit), nil
}

// splitBlank splits by white space at most limit times; what is left is one part.
func splitBlank(s string, limit int) (any, error) {
	out := []any{}
	for s = strings.TrimLeftFunc(s, space); s != ""; limit-- {
		i := strings.IndexFunc(s, space)
		if i < 0 || limit == 0 {
			return append(out, strings.TrimRightFunc(s, space)), nil
		}
		if out = append(out, s[:i]); len(out) > maxItems {
			return nil, errLarge
		}
		s = strings.TrimLeftFunc(s[i:], space)
	}
	return out, nil
}

// splitArgs reads sep and maxsplit; an empty mark stands for white space, a limit of -1 for none.
func splitArgs(a args) (mark string, limit int, err error) {
	v, err := a.bind("sep?", "maxsplit?")
	if err != nil {
		return "", 0, err
	}
	if limit, err = asInt(or(v[1], -1)); err != nil {
		return "", 0, err
	}
	if sep := or(v[0], nil); sep != nil {
		if mark, err = asText(sep); err == nil && mark == "" {
			err = fmt.Errorf("split by an empty string")
		}
	}
	return mark, limit, err
}

func rsplitText(_ *rendering, s string, a args) (any, error) {
	mark, limit, err := splitArgs(a)
	if err != nil {
		return nil, err
	}
	var parts []string
	if mark == "" {
		if words(s) > maxItems {
			return nil, errLarge
		}
		parts = strings.Fields(s)
		mark = " "
	} else if parts, err = split(s, mark, -1); err != nil {
		return nil, err
	}
	if limit >= 0 && len(parts) > limit+1 {
		n := len(parts) - limit
		parts = append([]string{strings.Join(parts[:n], mark)}, parts[n:]...)
	}
	return texts(parts), nil
}

func replaceText(_ *rendering, s string, a args) (any, error) {
	v, err := a.bind("old", "new", "count?")
	if err != nil {
		return nil, err
	}
	old, err := asText(v[0])
	if err != nil {
		return nil, err
	}
	with, err := asText(v[1])
	if err != nil {
		return nil, err
	}
	if grown := len(with) - len(old); grown > 0 && (strings.Count(s, old)+1)*grown > maxText {
		return nil, errLarge
	}
	count, err := asInt(or(v[2], -1))
	return strings.Replace(s, old, with, count), err
}

func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return titled(s[:n]) + lower(s[n:])
}

// titled is a letter at the begin of a word: ß becomes Ss, and digraphs have a form of their own.
func titled(s string) string {
	r, _ := utf8.DecodeRuneInString(s)
	if t := unicode.ToTitle(r); t != r || s == "" {
		return string(t)
	}
	first := upper(s)
	_, n := utf8.DecodeRuneInString(first)
	return first[:n] + lower(first[n:])
}

// titleWords is Jinja's filter title, for which words begin behind white space, hyphens and opening brackets only.
func titleWords(s string) string {
	var out strings.Builder
	word := func(w string) {
		if w != "" {
			_, n := utf8.DecodeRuneInString(w)
			out.WriteString(upper(w[:n]) + lower(w[n:]))
		}
	}
	begin := 0
	for i, r := range s {
		if space(r) || strings.ContainsRune("-({[<", r) {
			word(s[begin:i])
			out.WriteRune(r)
			begin = i + utf8.RuneLen(r)
		}
	}
	word(s[begin:])
	return out.String()
}

func title(s string) string {
	before := ' '
	var out strings.Builder
	for _, r := range s {
		if unicode.IsLetter(before) {
			out.WriteString(lower(string(r)))
		} else {
			out.WriteString(titled(string(r)))
		}
		before = r
	}
	return out.String()
}

// dictMethods are those of Python's dict that change nothing.
var dictMethods = map[string]func(*rendering, *Dict, args) (any, error){
	"keys":   func(_ *rendering, d *Dict, _ args) (any, error) { return view{"dict_keys", dictKeys(d)}, nil },
	"values": func(_ *rendering, d *Dict, _ args) (any, error) { return view{"dict_values", dictValues(d)}, nil },
	"items":  func(_ *rendering, d *Dict, _ args) (any, error) { return view{"dict_items", dictItems(d)}, nil },
	"copy": func(_ *rendering, d *Dict, _ args) (any, error) {
		return &Dict{slices.Clone(d.keys), maps.Clone(d.values), maps.Clone(d.others)}, nil
	},
	"get": func(r *rendering, d *Dict, a args) (any, error) {
		v, err := a.bind("key", "default?")
		if err != nil {
			return nil, err
		}
		key, err := r.hash(v[0])
		if err != nil {
			return nil, err
		}
		if value, ok := d.values[key]; ok {
			return value, nil
		}
		return or(v[1], nil), nil
	},
}

func dictKeys(d *Dict) []any {
	out := make([]any, len(d.keys))
	for i, key := range d.keys {
		out[i] = d.key(key)
	}
	return out
}

func dictValues(d *Dict) []any {
	out := make([]any, len(d.keys))
	for i, key := range d.keys {
		out[i] = d.values[key]
	}
	return out
}

func dictItems(d *Dict) []any {
	out := make([]any, len(d.keys))
	for i, key := range d.keys {
		out[i] = tuple{d.key(key), d.values[key]}
	}
	return out
}

var listMethods = map[string]func(*rendering, []any, args) (any, error){
	"copy": func(_ *rendering, l []any, _ args) (any, error) { return slices.Clone(l), nil },
	"index": func(r *rendering, l []any, a args) (any, error) {
		value, err := a.one()
		if err != nil {
			return nil, err
		}
		for i, item := range l {
			if same, err := r.equal(item, value); err != nil || same {
				return i, err
			}
		}
		return nil, fmt.Errorf("%s is not in the list", repr(value))
	},
	"count": func(r *rendering, l []any, a args) (any, error) {
		value, err := a.one()
		n := 0
		for _, item := range l {
			same, err := r.equal(item, value)
			if err != nil {
				return nil, err
			}
			if same {
				n++
			}
		}
		return n, err
	},
}
