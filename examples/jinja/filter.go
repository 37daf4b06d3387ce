package jinja

import (
	"errors"
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
		"attr":       attr,
		"batch":      batched,
		"capitalize": textFilter(capitalize),
		"center":     textMethod(textMethods["center"], 80),
		"count":      unary(func(_ *rendering, v any) (any, error) { return length(v) }),
		"default":    fallback,
		"dictsort":   dictSort,
		"escape":     unary(escaped),
		"first":      unary(func(r *rendering, v any) (any, error) { return r.edge(v, 0) }),
		"float":      toFloat,
		"format":     formatFilter,
		"groupby":    grouped,
		"indent":     indent,
		"int":        toInt,
		"items":      unary(func(r *rendering, v any) (any, error) { items, err := itemsOf(r, v); return &generator{items}, err }),
		"join":       join,
		"last":       unary(func(r *rendering, v any) (any, error) { return r.edge(v, -1) }),
		"list":       unary(listOf),
		"lower":      textFilter(lower),
		"map":        mapped,
		"max":        extreme(1),
		"min":        extreme(-1),
		"reject":     selected(false, false),
		"rejectattr": selected(true, false),
		"replace":    replaced,
		"reverse":    unary(reverse),
		"round":      round,
		"safe":       unary(func(r *rendering, v any) (any, error) { text, err := r.str(v); return markup(text), err }),
		"select":     selected(false, true),
		"selectattr": selected(true, true),
		"slice":      sliced,
		"sort":       sorted,
		"string":     unary(toText),
		"striptags":  unary(stripTags),
		"sum":        sum,
		"title":      textFilter(titleWords),
		"tojson":     toJSON,
		"trim":       trim,
		"truncate":   truncate,
		"unique":     unique,
		"upper":      textFilter(upper),
		"urlencode":  urlEncode,
		"wordcount":  ofText(func(s string) any { return words(s) }),
		"wordwrap":   wordWrap,
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
		if _, ok := v.(markup); ok {
			return nil, fmt.Errorf("%s is not changed further", describe(v))
		}
		text, err := r.str(v)
		if err != nil {
			return nil, err
		}
		return f(text), nil
	})
}

// toText is Python's str, which leaves an escaped text as it is.
func toText(r *rendering, v any) (any, error) {
	if _, ok := v.(markup); ok {
		return v, nil
	}
	return r.str(v)
}

func escaped(r *rendering, v any) (any, error) {
	if _, ok := v.(markup); ok {
		return v, nil
	}
	text, err := r.str(v)
	return markup(escapeHTML(text)), err
}

// attr is an attribute, never an item.
func attr(s *scope, a args) (any, error) {
	v, err := a.bind("value", "name")
	if err != nil {
		return nil, err
	}
	name, err := s.str(v[1])
	if err != nil {
		return nil, err
	}
	if d, ok := v[0].(*Dict); ok && dictMethods[name] == nil {
		return attributeOf(new(Dict), name)
	} else if ok {
		return attributeOf(d, name)
	}
	return attributeOf(v[0], name)
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

func itemsOf(_ *rendering, value any) ([]any, error) {
	switch v := value.(type) {
	case *Dict:
		return dictItems(v), nil
	case Undefined:
		return nil, nil
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
	return s.sortItems(dictItems(d), truth(or(v[1], false)), truth(or(v[3], false)), func(item any) (any, error) { return item.(tuple)[column], nil })
}

// edge is the first or the last item.
func (r *rendering) edge(value any, i int) (any, error) {
	if text, ok := value.(string); ok {
		return r.character(text, i)
	}
	if g, ok := value.(*generator); ok && i == 0 {
		if len(g.items) == 0 {
			return Undefined{}, nil
		}
		first := g.items[0]
		g.items = g.items[1:]
		return first, nil
	} else if ok {
		return nil, fmt.Errorf("%s has no end to begin from", describe(value))
	}
	items, err := r.iterate(value)
	if err != nil {
		return nil, err
	}
	return r.item(items, i)
}

func listOf(r *rendering, value any) (any, error) {
	items, err := r.iterate(value)
	return slices.Clone(items), err
}

func reverse(r *rendering, value any) (any, error) {
	if text, ok := value.(string); ok {
		runes := []rune(text)
		slices.Reverse(runes)
		return string(runes), nil
	}
	items, err := r.iterate(value)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	if _, ok := value.(*generator); ok {
		return items, nil
	}
	return &generator{items}, nil
}

func trim(s *scope, a args) (any, error) {
	v, err := a.bind("value", "chars?")
	if err != nil {
		return nil, err
	}
	if _, ok := v[0].(markup); ok {
		return nil, fmt.Errorf("%s is not changed further", describe(v[0]))
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
	items, err := s.iterate(v[0])
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
		value, err := r.item(value, i)
		if _, missing := value.(Undefined); missing && len(otherwise) > 0 {
			value = otherwise[0]
		}
		return value, err
	}
	text, err := r.str(name)
	if err == nil {
		err = r.read(text)
	}
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
	text = strings.TrimFunc(text, space)
	if i, ok := parseInt(text, base); ok {
		if !i.IsInt64() {
			return nil, fmt.Errorf("%.40s is beyond the integers of 64 bits", text)
		}
		return int(i.Int64()), nil
	}
	if f, ok := parseFloat(text); ok && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return truncated(f)
	}
	return or(v[1], 0), nil
}

// parseInt is Python's int of a text: with a sign, single underscores between digits, and the prefix of its base.
func parseInt(text string, base int) (*big.Int, bool) {
	sign, digits := "", text
	if text != "" && (text[0] == '-' || text[0] == '+') {
		sign, digits = text[:1], text[1:]
	}
	if len(digits) > 2 && digits[0] == '0' {
		if of := map[byte]int{'x': 16, 'o': 8, 'b': 2}[digits[1]|0x20]; of != 0 && (base == 0 || base == of) {
			base, digits = of, strings.TrimPrefix(digits[2:], "_")
		}
	}
	if base == 0 {
		base = 10
		if len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "0_") != "" {
			return nil, false
		}
	}
	digits, ok := underscores(digits)
	if !ok || len(digits) > 1000 {
		return nil, false
	}
	return new(big.Int).SetString(sign+digits, base)
}

// underscores takes single ones between digits out of a number.
func underscores(s string) (string, bool) {
	if s == "" || s[0] == '_' || s[0] == '+' || s[0] == '-' || s[len(s)-1] == '_' || strings.Contains(s, "__") {
		return "", false
	}
	return strings.ReplaceAll(s, "_", ""), true
}

// parseFloat is Python's float of a text.
func parseFloat(text string) (float64, bool) {
	rest := strings.TrimLeft(text, "+-")
	if len(text)-len(rest) > 1 || strings.ContainsAny(text, "xXpP") {
		return 0, false
	}
	digits, ok := underscores(rest)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(text[:len(text)-len(rest)]+digits, 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
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
	if f, ok := parseFloat(strings.TrimFunc(text, space)); ok {
		return f, nil
	}
	return or(v[1], 0.0), nil
}

func round(s *scope, a args) (any, error) {
	v, err := a.bind("value", "precision?", "method?")
	if err != nil {
		return nil, err
	}
	f, whole, integer, ok := numeric(v[0])
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
	case "common":
	default:
		return nil, fmt.Errorf("method %s; common, ceil and floor are known", repr(v[2]))
	}
	if integer {
		return roundInteger(whole, precision)
	}
	if precision < 0 || precision > 300 {
		return math.RoundToEven(f*scale) / scale, nil
	}
	if err := s.Step(precision); err != nil {
		return nil, err
	}
	exact, _ := new(big.Float).SetString(strconv.FormatFloat(f, 'f', -1, 64))
	rounded, _ := strconv.ParseFloat(exact.Text('f', precision), 64)
	return rounded, nil
}

// roundInteger rounds to a power of ten, half to even, as Python does.
func roundInteger(i, precision int) (any, error) {
	if precision >= 0 {
		return i, nil
	}
	if precision < -18 {
		return 0, nil
	}
	unit := 1
	for range -precision {
		unit *= 10
	}
	low, err := integers("//", i, unit)
	if err != nil {
		return nil, err
	}
	steps := low.(int)
	if rest := i - steps*unit; rest > unit-rest || rest == unit-rest && steps%2 != 0 {
		steps++
	}
	return integers("*", steps, unit)
}

func sum(s *scope, a args) (any, error) {
	v, err := a.bind("value", "attribute?", "start?")
	if err != nil {
		return nil, err
	}
	items, err := s.iterate(v[0])
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
