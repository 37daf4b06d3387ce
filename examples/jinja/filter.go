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
		"count":      unary(func(v any) (any, error) { return length(v) }),
		"default":    fallback,
		"dictsort":   dictSort,
		"escape":     textFilter(escapeHTML),
		"first":      unary(func(v any) (any, error) { return edge(v, 0) }),
		"float":      toFloat,
		"indent":     indent,
		"int":        toInt,
		"items":      unary(itemsOf),
		"join":       join,
		"last":       unary(func(v any) (any, error) { return edge(v, -1) }),
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
		"wordcount":  unary(func(v any) (any, error) { return len(strings.FieldsFunc(str(v), notWord)), nil }),
	}
	for alias, name := range map[string]string{"length": "count", "d": "default", "e": "escape"} {
		filters[alias] = filters[name]
	}
}

func unary(f func(any) (any, error)) function {
	return func(_ *scope, a args) (any, error) {
		value, err := a.one()
		if err != nil {
			return nil, err
		}
		return f(value)
	}
}

func textFilter(f func(string) string) function {
	return unary(func(v any) (any, error) { return f(str(v)), nil })
}

func notWord(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

func absolute(value any) (any, error) {
	f, i, whole, ok := numeric(value)
	if !ok {
		return nil, fmt.Errorf("%s has no absolute value", describe(value))
	}
	if whole {
		return max(i, -i), nil
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

func itemsOf(value any) (any, error) {
	switch v := value.(type) {
	case *Dict:
		return dictItems(v), nil
	case Undefined:
		return []any{}, nil
	}
	return nil, fmt.Errorf("needs a dictionary, not %s", describe(value))
}

func dictSort(_ *scope, a args) (any, error) {
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
	return sortItems(dictItems(d), truth(or(v[1], false)), truth(or(v[3], false)), func(item any) (any, error) { return item.([]any)[column], nil })
}

// edge is the first or the last item.
func edge(value any, i int) (any, error) {
	items, err := iterate(value)
	if err != nil {
		return nil, err
	}
	return item(items, i)
}

func listOf(value any) (any, error) {
	items, err := iterate(value)
	return slices.Clone(items), err
}

func reverse(value any) (any, error) {
	items, err := iterate(value)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	if _, ok := value.(string); ok {
		return concatenate(items), nil
	}
	return items, nil
}

func trim(_ *scope, a args) (any, error) {
	v, err := a.bind("value", "chars?")
	if err != nil {
		return nil, err
	}
	if chars, ok := v[1].(string); ok {
		return strings.Trim(str(v[0]), chars), nil
	}
	return strings.TrimFunc(str(v[0]), unicode.IsSpace), nil
}

func replaced(_ *scope, a args) (any, error) {
	if len(a.values) == 0 {
		return nil, fmt.Errorf("needs a value")
	}
	s := str(a.values[0])
	a.values = a.values[1:]
	return replaceText(s, a)
}

func indent(_ *scope, a args) (any, error) {
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
	lines := strings.Split(str(v[0]), "\n")
	for i := range lines {
		if (i > 0 || truth(or(v[2], false))) && (lines[i] != "" || truth(or(v[3], false))) {
			lines[i] = prefix + lines[i]
		}
	}
	return strings.Join(lines, "\n"), nil
}

func join(_ *scope, a args) (any, error) {
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
			if item, err = path(item, field); err != nil {
				return nil, err
			}
		}
		all[i] = str(item)
	}
	return joined(all, str(or(v[1], "")))
}

// path follows an attribute such as "function.name". A part that is missing gives the default, if there is one.
func path(value, name any, otherwise ...any) (any, error) {
	if i, ok := name.(int); ok {
		return item(value, i)
	}
	for part := range strings.SplitSeq(str(name), ".") {
		var key any = part
		if i, err := strconv.Atoi(part); err == nil {
			key = i
		}
		var err error
		if value, err = item(value, key); err != nil {
			return nil, err
		}
		if _, missing := value.(Undefined); missing && len(otherwise) > 0 {
			value = otherwise[0]
		}
	}
	return value, nil
}

func toInt(_ *scope, a args) (any, error) {
	v, err := a.bind("value", "default?", "base?")
	if err != nil {
		return nil, err
	}
	if f, i, whole, ok := numeric(v[0]); ok {
		if !whole {
			i = int(f)
		}
		return i, nil
	}
	base, err := asInt(or(v[2], 10))
	if err != nil || base != 0 && (base < 2 || base > 36) {
		return nil, fmt.Errorf("base %s", repr(v[2]))
	}
	text := strings.TrimSpace(str(v[0]))
	if i, err := strconv.ParseInt(text, base, 64); err == nil {
		return int(i), nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && base == 10 {
		return int(f), nil
	}
	return or(v[1], 0), nil
}

func toFloat(_ *scope, a args) (any, error) {
	v, err := a.bind("value", "default?")
	if err != nil {
		return nil, err
	}
	if f, _, _, ok := numeric(v[0]); ok {
		return f, nil
	}
	if f, err := strconv.ParseFloat(strings.TrimSpace(str(v[0])), 64); err == nil {
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

func sum(_ *scope, a args) (any, error) {
	v, err := a.bind("value", "attribute?", "start?")
	if err != nil {
		return nil, err
	}
	items, err := iterate(v[0])
	total := or(v[2], 0)
	for _, item := range items {
		if field := or(v[1], nil); field != nil {
			if item, err = path(item, field); err != nil {
				return nil, err
			}
		}
		if total, err = calculate("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, err
}
