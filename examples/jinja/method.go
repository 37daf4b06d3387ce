package jinja

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textMethods are those of Python's str that templates use.
var textMethods = map[string]func(*rendering, string, args) (any, error){
	"strip":  stripper(strings.TrimFunc, strings.Trim),
	"lstrip": stripper(strings.TrimLeftFunc, strings.TrimLeft),
	"rstrip": stripper(strings.TrimRightFunc, strings.TrimRight),
	"split":  splitText,
	"rsplit": rsplitText,
	"splitlines": func(_ *rendering, s string, a args) (any, error) {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
		lines, err := split(s, "\n", -1)
		if err != nil {
			return nil, err
		}
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		return texts(lines), nil
	},
	"partition": func(_ *rendering, s string, a args) (any, error) {
		mark, err := oneText(a)
		before, behind, ok := strings.Cut(s, mark)
		if !ok {
			mark = ""
		}
		return []any{before, mark, behind}, err
	},
	"replace":    replaceText,
	"lower":      plain(strings.ToLower),
	"upper":      plain(strings.ToUpper),
	"title":      plain(title),
	"capitalize": plain(capitalize),
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
	"find":  finder(strings.Index),
	"rfind": finder(strings.LastIndex),
	"count": func(_ *rendering, s string, a args) (any, error) {
		part, err := oneText(a)
		return strings.Count(s, part), err
	},
	"join": func(_ *rendering, s string, a args) (any, error) {
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
	"isupper": func(_ *rendering, s string, _ args) (any, error) {
		return s == strings.ToUpper(s) && s != strings.ToLower(s), nil
	},
	"islower": func(_ *rendering, s string, _ args) (any, error) {
		return s == strings.ToLower(s) && s != strings.ToUpper(s), nil
	},
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
		return blank(s, unicode.IsSpace), nil
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

func affix(has func(s, part string) bool) func(*rendering, string, args) (any, error) {
	return func(_ *rendering, s string, a args) (any, error) {
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

func finder(index func(s, part string) int) func(*rendering, string, args) (any, error) {
	return func(_ *rendering, s string, a args) (any, error) {
		part, err := oneText(a)
		i := index(s, part)
		if i > 0 {
			i = utf8.RuneCountInString(s[:i])
		}
		return i, err
	}
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
	for s = strings.TrimLeftFunc(s, unicode.IsSpace); s != ""; limit-- {
		i := strings.IndexFunc(s, unicode.IsSpace)
		if i < 0 || limit == 0 {
			return append(out, strings.TrimRightFunc(s, unicode.IsSpace)), nil
		}
		if out = append(out, s[:i]); len(out) > maxItems {
			return nil, errLarge
		}
		s = strings.TrimLeftFunc(s[i:], unicode.IsSpace)
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
var dictMethods = map[string]func(*rendering, *Dict, args) (any, error){
	"keys":   func(_ *rendering, d *Dict, _ args) (any, error) { return texts(d.keys), nil },
	"values": func(_ *rendering, d *Dict, _ args) (any, error) { return dictValues(d), nil },
	"items":  func(_ *rendering, d *Dict, _ args) (any, error) { return dictItems(d), nil },
	"get": func(r *rendering, d *Dict, a args) (any, error) {
		v, err := a.bind("key", "default?")
		if err != nil {
			return nil, err
		}
		key, err := r.str(v[0])
		if err != nil {
			return nil, err
		}
		if value, ok := d.values[key]; ok {
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

var listMethods = map[string]func(*rendering, []any, args) (any, error){
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
