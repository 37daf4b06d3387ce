package jinja

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func concatenate(parts []any) string {
	var out strings.Builder
	for _, p := range parts {
		out.WriteString(str(p))
	}
	return out.String()
}

// textMethods are those of Python's str that templates use.
var textMethods = map[string]func(string, args) (any, error){
	"strip":  stripper(strings.TrimFunc, strings.Trim),
	"lstrip": stripper(strings.TrimLeftFunc, strings.TrimLeft),
	"rstrip": stripper(strings.TrimRightFunc, strings.TrimRight),
	"split":  splitText,
	"rsplit": rsplitText,
	"splitlines": func(s string, a args) (any, error) {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
		lines := strings.Split(s, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		return texts(lines), nil
	},
	"partition": func(s string, a args) (any, error) {
		mark, err := oneText(a)
		before, behind, ok := strings.Cut(s, mark)
		if !ok {
			mark = ""
		}
		return []any{before, mark, behind}, err
	},
	"replace":      func(s string, a args) (any, error) { return replaceText(s, a) },
	"lower":        plain(strings.ToLower),
	"upper":        plain(strings.ToUpper),
	"title":        plain(title),
	"capitalize":   plain(capitalize),
	"startswith":   affix(strings.HasPrefix),
	"endswith":     affix(strings.HasSuffix),
	"removeprefix": func(s string, a args) (any, error) { p, err := oneText(a); return strings.TrimPrefix(s, p), err },
	"removesuffix": func(s string, a args) (any, error) { p, err := oneText(a); return strings.TrimSuffix(s, p), err },
	"find":         finder(strings.Index),
	"rfind":        finder(strings.LastIndex),
	"count": func(s string, a args) (any, error) {
		part, err := oneText(a)
		return strings.Count(s, part), err
	},
	"join": func(s string, a args) (any, error) {
		value, err := a.one()
		if err != nil {
			return nil, err
		}
		items, err := iterate(value)
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
	"isdigit": every(unicode.IsDigit),
	"isalpha": every(unicode.IsLetter),
	"isalnum": every(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isspace": every(unicode.IsSpace),
	"isupper": func(s string, _ args) (any, error) { return s == strings.ToUpper(s) && s != strings.ToLower(s), nil },
	"islower": func(s string, _ args) (any, error) { return s == strings.ToLower(s) && s != strings.ToUpper(s), nil },
}

// joined is strings.Join within the bound on texts.
func joined(all []string, mark string) (any, error) {
	n := len(mark) * len(all)
	for _, s := range all {
		n += len(s)
	}
	if n > maxText {
		return nil, ErrLimit
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

func plain(f func(string) string) func(string, args) (any, error) {
	return func(s string, _ args) (any, error) { return f(s), nil }
}

func every(f func(rune) bool) func(string, args) (any, error) {
	return func(s string, _ args) (any, error) {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0, nil
	}
}

func stripper(blank func(string, func(rune) bool) string, chars func(string, string) string) func(string, args) (any, error) {
	return func(s string, a args) (any, error) {
		v, err := a.bind("chars?")
		if err != nil {
			return nil, err
		}
		if set, ok := v[0].(string); ok {
			return chars(s, set), nil
		}
		return blank(s, unicode.IsSpace), nil
	}
}

func affix(has func(s, part string) bool) func(string, args) (any, error) {
	return func(s string, a args) (any, error) {
		value, err := a.one()
		if err != nil {
			return nil, err
		}
		if all, ok := value.([]any); ok { // a tuple of alternatives
			return slices.ContainsFunc(all, func(v any) bool { part, ok := v.(string); return ok && has(s, part) }), nil
		}
		part, err := asText(value)
		return has(s, part), err
	}
}

func finder(index func(s, part string) int) func(string, args) (any, error) {
	return func(s string, a args) (any, error) {
		part, err := oneText(a)
		i := index(s, part)
		if i > 0 {
			i = utf8.RuneCountInString(s[:i])
		}
		return i, err
	}
}

func splitText(s string, a args) (any, error) {
	mark, limit, err := splitArgs(a)
	if err != nil {
		return nil, err
	}
	if mark == "" {
		return splitBlank(s, limit), nil
	}
	if limit >= 0 {
		limit++
	}
	return texts(strings.SplitN(s, mark, limit)), nil
}

// splitBlank splits by white space at most limit times; what is left is one part.
func splitBlank(s string, limit int) []any {
	out := []any{}
	for s = strings.TrimLeftFunc(s, unicode.IsSpace); s != ""; limit-- {
		i := strings.IndexFunc(s, unicode.IsSpace)
		if i < 0 || limit == 0 {
			return append(out, strings.TrimRightFunc(s, unicode.IsSpace))
		}
		out = append(out, s[:i])
		s = strings.TrimLeftFunc(s[i:], unicode.IsSpace)
	}
	return out
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

func rsplitText(s string, a args) (any, error) {
	mark, limit, err := splitArgs(a)
	if err != nil {
		return nil, err
	}
	var parts []string
	if mark == "" {
		parts = strings.Fields(s)
		mark = " "
	} else {
		parts = strings.Split(s, mark)
	}
	if limit >= 0 && len(parts) > limit+1 {
		n := len(parts) - limit
		parts = append([]string{strings.Join(parts[:n], mark)}, parts[n:]...)
	}
	return texts(parts), nil
}

func replaceText(s string, a args) (any, error) {
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
		return nil, ErrLimit
	}
	count, err := asInt(or(v[2], -1))
	return strings.Replace(s, old, with, count), err
}

func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + strings.ToLower(s[n:])
}

func title(s string) string {
	before := ' '
	return strings.Map(func(r rune) rune {
		letter := unicode.IsLetter(before)
		before = r
		if letter {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

// dictMethods are those of Python's dict that change nothing.
var dictMethods = map[string]func(*Dict, args) (any, error){
	"keys":   func(d *Dict, _ args) (any, error) { return texts(d.keys), nil },
	"values": func(d *Dict, _ args) (any, error) { return dictValues(d), nil },
	"items":  func(d *Dict, _ args) (any, error) { return dictItems(d), nil },
	"get": func(d *Dict, a args) (any, error) {
		v, err := a.bind("key", "default?")
		if err != nil {
			return nil, err
		}
		if value, ok := d.values[str(v[0])]; ok {
			return value, nil
		}
		return or(v[1], nil), nil
	},
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
		out[i] = []any{key, d.values[key]}
	}
	return out
}

var listMethods = map[string]func([]any, args) (any, error){
	"index": func(l []any, a args) (any, error) {
		value, err := a.one()
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(l, func(item any) bool { return equal(item, value) })
		if i < 0 {
			return nil, fmt.Errorf("%s is not in the list", repr(value))
		}
		return i, nil
	},
	"count": func(l []any, a args) (any, error) {
		value, err := a.one()
		n := 0
		for _, item := range l {
			if equal(item, value) {
				n++
			}
		}
		return n, err
	},
}
