package jinja

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// filters by name. Some of them call others, so they are set at start.
var filters map[string]function

func init() {
	filters = map[string]function{
		"abs":        unary(absolute),
		"capitalize": textFilter(capitalize),
		"count":      unary(func(_ *rendering, v any) (any, error) { return length(v) }),
		"default":    fallback,
		"dictsort":   dictSort,
		"escape":     textFilter(escapeHTML),
		"first":      unary(func(r *rendering, v any) (any, error) { return r.edge(v, 0) }),
		"float":      toFloat,
		"indent":     indent,
		"int":        toInt,
		"items":      unary(itemsOf),
		"join":       join,
		"last":       unary(func(r *rendering, v any) (any, error) { return r.edge(v, -1) }),
		"list":       unary(listOf),
		"lower":      textFilter(strings.ToLower),
		"map":        mapped,
		"max":        extreme(1),
		"min":        extreme(-1),
		"reject":     selected(false, false),
		"rejectattr": selected(true, false),
		"replace":    replaced,
		"reverse":    unary(reverse),
		"round":      round,
		"safe":       textFilter(func(s string) string { return s }),
		"select":     selected(false, true),
		"selectattr": selected(true, true),
		"sort":       sorted,
		"string":     textFilter(func(s string) string { return s }),
		"sum":        sum,
		"title":      textFilter(title),
		"tojson":     toJSON,
		"trim":       trim,
		"unique":     unique,
		"upper":      textFilter(strings.ToUpper),
		"wordcount":  ofText(func(s string) any { return words(s) }),
	}
	for alias, name := range map[string]string{"length": "count", "d": "default", "e": "escape"} {
		filters[alias] = filters[name]
	}
}

func unary(f func(*rendering, any) (any, error)) function {
	return func(s *scope, a args) (any, error) {
		value, err := a.one()
		if err != nil {
			return nil, err
		}
		return f(s.rendering, value)
	}
}

// ofText makes a filter or a test of a function of a text; other values are printed for it.
func ofText(f func(string) any) function {
	return unary(func(r *rendering, v any) (any, error) {
		text, err := r.str(v)
		if err != nil {
			return nil, err
		}
		return f(text), nil
	})
}

func textFilter(f func(string) string) function {
	return ofText(func(s string) any { return f(s) })
}

// words counts the words of a text.
func words(s string) (n int) {
	inside := false
	for _, r := range s {
		word := !notWord(r)
		if word && !inside {
			n++
		}
		inside = word
	}
	return n
}

func notWord(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

func absolute(_ *rendering, value any) (any, error) {
	f, i, whole, ok := numeric(value)
	if !ok {
		return nil, fmt.Errorf("%s has no absolute value", describe(value))
	}
	if whole && i < 0 {
		return integers("*", i, -1)
	}
	if whole {
		return i, nil
	}
	return math.Abs(f), nil
}

func fallback(_ *scope, a args) (any, error) {
	v, err := a.bind("value", "default_value?", "boolean?")
	if err != nil {
		return nil, err
	}
	if _, ok := v[0].(Undefined); ok || truth(or(v[2], false)) && !truth(v[0]) {
		return or(v[1], ""), nil
	}
	return v[0], nil
}

func sortedTexts(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return keys
}

func itemsOf(_ *rendering, value any) (any, error) {
	switch v := value.(type) {
	case *Dict:
		return dictItems(v), nil
	case Undefined:
		return []any{}, nil
	}
	return nil, fmt.Errorf("needs a dictionary, not %s", describe(value))
}

func dictSort(s *scope, a args) (any, error) {
	v, err := a.bind("value", "case_sensitive?", "by?", "reverse?")
	if err != nil {
		return nil, err
	}
	d, ok := v[0].(*Dict)
	if !ok {
		return nil, fmt.Errorf("needs a dictionary, not %s", describe(v[0]))
	}
	column := 0
	if or(v[2], "key") == "value" {
		column = 1
	}
	return s.sortItems(dictItems(d), truth(or(v[1], false)), truth(or(v[3], false)), func(item any) (any, error) { return item.([]any)[column], nil })
}

// edge is the first or the last item.
func (r *rendering) edge(value any, i int) (any, error) {
	if text, ok := value.(string); ok {
		return r.character(text, i)
	}
	items, err := iterate(value)
	if err != nil {
		return nil, err
	}
	return r.item(items, i)
}

func listOf(_ *rendering, value any) (any, error) {
	items, err := iterate(value)
	return slices.Clone(items), err
}

func reverse(_ *rendering, value any) (any, error) {
	if text, ok := value.(string); ok {
		runes := []rune(text)
		slices.Reverse(runes)
		return string(runes), nil
	}
	items, err := iterate(value)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return items, nil
}

func trim(s *scope, a args) (any, error) {
	v, err := a.bind("value", "chars?")
	if err != nil {
		return nil, err
	}
	text, err := s.str(v[0])
	if err != nil {
		return nil, err
	}
	if chars, ok := v[1].(string); ok {
		return trimmed(s.rendering, text, chars, strings.Trim)
	}
	return strings.TrimFunc(text, unicode.IsSpace), nil
}

func replaced(s *scope, a args) (any, error) {
	if len(a.values) == 0 {
		return nil, fmt.Errorf("needs a value")
	}
	text, err := s.str(a.values[0])
	if err != nil {
		return nil, err
	}
	a.values = a.values[1:]
	return replaceText(s.rendering, text, a)
}

func indent(s *scope, a args) (any, error) {
	v, err := a.bind("value", "width?", "first?", "blank?")
	if err != nil {
		return nil, err
	}
	prefix, ok := or(v[1], 4).(string)
	if !ok {
		n, err := asInt(or(v[1], 4))
		if err != nil {
			return nil, err
		}
		prefix = strings.Repeat(" ", min(max(n, 0), 1024))
	}
	text, err := s.str(v[0])
	if err != nil {
		return nil, err
	}
	lines, err := split(text, "\n", -1)
	if err != nil {
		return nil, err
	}
	if len(text)+len(prefix)*len(lines) > maxText {
		return nil, errLarge
	}
	for i := range lines {
		if (i > 0 || truth(or(v[2], false))) && (lines[i] != "" || truth(or(v[3], false))) {
			lines[i] = prefix + lines[i]
		}
	}
	return strings.Join(lines, "\n"), nil
}

func join(s *scope, a args) (any, error) {
	v, err := a.bind("value", "d?", "attribute?")
	if err != nil {
		return nil, err
	}
	items, err := iterate(v[0])
	if err != nil {
		return nil, err
	}
	all := make([]string, len(items))
	for i, item := range items {
		if field := or(v[2], nil); field != nil {
			if item, err = s.path(item, field); err != nil {
				return nil, err
			}
		}
		if all[i], err = s.str(item); err != nil {
			return nil, err
		}
	}
	mark, err := s.str(or(v[1], ""))
	if err != nil {
		return nil, err
	}
	return joined(all, mark)
}

// path follows an attribute such as "function.name". A part that is missing gives the default, if there is one.
func (r *rendering) path(value, name any, otherwise ...any) (any, error) {
	if i, ok := name.(int); ok {
		return r.item(value, i)
	}
	text, err := r.str(name)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(text, ".") {
		if err := r.Step(0); err != nil {
			return nil, err
		}
		var key any = part
		if i, err := strconv.Atoi(part); err == nil {
			key = i
		}
		var err error
		if value, err = r.item(value, key); err != nil {
			return nil, err
		}
		if _, missing := value.(Undefined); missing && len(otherwise) > 0 {
			value = otherwise[0]
		}
	}
	return value, nil
}

func toInt(s *scope, a args) (any, error) {
	v, err := a.bind("value", "default?", "base?")
	if err != nil {
		return nil, err
	}
	if f, i, whole, ok := numeric(v[0]); ok {
		if !whole {
			return truncated(f)
		}
		return i, nil
	}
	base, err := asInt(or(v[2], 10))
	if err != nil || base != 0 && (base < 2 || base > 36) {
		return nil, fmt.Errorf("base %s", repr(v[2]))
	}
	text, err := s.str(v[0])
	if err != nil {
		return nil, err
	}
	text = strings.TrimSpace(text)
	if i, err := strconv.ParseInt(text, base, 64); err == nil {
		return int(i), nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && base == 10 {
		return truncated(f)
	}
	return or(v[1], 0), nil
}

// truncated is Python's int of a number with a fraction.
func truncated(f float64) (any, error) {
	if !(math.Abs(f) < 1<<63) {
		return nil, fmt.Errorf("%s is beyond the integers of 64 bits", float(f))
	}
	return int(f), nil
}

func toFloat(s *scope, a args) (any, error) {
	v, err := a.bind("value", "default?")
	if err != nil {
		return nil, err
	}
	if f, _, _, ok := numeric(v[0]); ok {
		return f, nil
	}
	text, err := s.str(v[0])
	if err != nil {
		return nil, err
	}
	if f, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
		return f, nil
	}
	return or(v[1], 0.0), nil
}

func round(_ *scope, a args) (any, error) {
	v, err := a.bind("value", "precision?", "method?")
	if err != nil {
		return nil, err
	}
	f, _, _, ok := numeric(v[0])
	precision, err := asInt(or(v[1], 0))
	if !ok || err != nil {
		return nil, fmt.Errorf("%s cannot be rounded to %s digits", describe(v[0]), repr(v[1]))
	}
	scale := math.Pow(10, float64(precision))
	switch or(v[2], "common") {
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	if precision < 0 || precision > 300 {
		return math.RoundToEven(f*scale) / scale, nil
	}
	exact, _ := new(big.Float).SetString(strconv.FormatFloat(f, 'f', -1, 64))
	rounded, _ := strconv.ParseFloat(exact.Text('f', precision), 64)
	return rounded, nil
}

func sum(s *scope, a args) (any, error) {
	v, err := a.bind("value", "attribute?", "start?")
	if err != nil {
		return nil, err
	}
	items, err := iterate(v[0])
	total := or(v[2], 0)
	for _, item := range items {
		if field := or(v[1], nil); field != nil {
			if item, err = s.path(item, field); err != nil {
				return nil, err
			}
		}
		if total, err = s.calculate("+", total, item); err == nil {
			err = s.made(total)
		}
		if err != nil {
			return nil, err
		}
	}
	return total, err
}
