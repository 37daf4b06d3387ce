package jinja

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	comments = regexp.MustCompile(`(?s)<!--.*?-->`)
	tags     = regexp.MustCompile(`(?s)<.*?>`)
)

// stripTags takes comments and tags of HTML out of a text, and its entities are characters then.
func stripTags(r *rendering, value any) (any, error) {
	text, err := r.str(value)
	if err != nil {
		return nil, err
	}
	if err := r.Step(len(text) / 4); err != nil { // beside reading it: expressions take their time
		return nil, err
	}
	for _, gone := range []*regexp.Regexp{comments, tags} {
		text = gone.ReplaceAllString(text, "")
	}
	return html.UnescapeString(strings.Join(strings.FieldsFunc(text, space), " ")), nil
}

// truncate cuts a text to a number of characters with its end, unless it is longer by the leeway at most.
func truncate(s *scope, a args) (any, error) {
	v, err := a.bind("value", "length?", "killwords?", "end?", "leeway?")
	if err != nil {
		return nil, err
	}
	text, err := s.str(v[0])
	if err != nil {
		return nil, err
	}
	length, err := asInt(or(v[1], 255))
	if err != nil {
		return nil, err
	}
	end, err := asText(or(v[3], "..."))
	if err != nil {
		return nil, err
	}
	leeway, err := asInt(or(or(v[4], nil), 5))
	if v[4] == nil || err != nil {
		if _, none := v[4].(absent); !none && v[4] != nil {
			return nil, err
		}
		leeway = 5
	}
	tail := utf8.RuneCountInString(end)
	if length < tail || leeway < 0 {
		return nil, fmt.Errorf("length %d and leeway %d: the length has the end in it, and the leeway is not negative", length, leeway)
	}
	runes := []rune(text)
	if len(runes) <= length || len(runes)-length <= leeway {
		return text, nil
	}
	cut := string(runes[:length-tail])
	if !truth(or(v[2], false)) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return cut + end, nil
}

// wordWrap breaks lines that are longer than a width between words, and at hyphens, as Python's textwrap does with these settings.
func wordWrap(s *scope, a args) (any, error) {
	v, err := a.bind("value", "width?", "break_long_words?", "wrapstring?", "break_on_hyphens?")
	if err != nil {
		return nil, err
	}
	text, err := s.str(v[0])
	if err != nil {
		return nil, err
	}
	width, err := asInt(or(v[1], 79))
	if err != nil || width < 1 {
		return nil, fmt.Errorf("wraps at a width of one or more, not %s", repr(v[1]))
	}
	mark := "\n"
	if given := or(v[3], nil); given != nil {
		if mark, err = asText(given); err != nil {
			return nil, err
		}
	}
	if strings.ContainsAny(text, "-") && truth(or(v[4], true)) {
		return nil, fmt.Errorf("a text with hyphens is not wrapped, except with break_on_hyphens=false")
	}
	if err := s.Step(len(text)); err != nil { // beside reading it: each line is an allocation
		return nil, err
	}
	if words(text) > maxItems/2 || len(text)/width > maxItems {
		return nil, errLarge
	}
	lines, err := splitLines(text, false)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, line := range lines.([]any) {
		one, err := joined(wrap(line.(string), width, truth(or(v[2], true))), mark)
		if err != nil {
			return nil, err
		}
		out = append(out, one.(string))
	}
	return joined(out, mark)
}

// wrap breaks a line. White space at the ends of the new lines goes; that at its own begin stays.
func wrap(line string, width int, long bool) (out []string) {
	var chunks []string
	for rest := line; rest != ""; {
		blank := strings.IndexFunc(rest, func(r rune) bool { return !textSpace(r) })
		n := blank
		if blank == 0 {
			n = strings.IndexFunc(rest, textSpace)
		}
		if n < 0 {
			n = len(rest)
		}
		chunks, rest = append(chunks, rest[:n]), rest[n:]
	}
	for len(chunks) > 0 {
		if strings.TrimFunc(chunks[0], textSpace) == "" && len(out) > 0 {
			chunks = chunks[1:]
			continue
		}
		var now []string
		left := width
		for len(chunks) > 0 && prefix(chunks[0], left) == len(chunks[0]) {
			left -= utf8.RuneCountInString(chunks[0])
			now, chunks = append(now, chunks[0]), chunks[1:]
		}
		if len(chunks) > 0 && prefix(chunks[0], width) < len(chunks[0]) {
			if n := prefix(chunks[0], left); long {
				now, chunks[0] = append(now, chunks[0][:n]), chunks[0][n:]
			} else if len(now) == 0 {
				now, chunks = append(now, chunks[0]), chunks[1:]
			}
		}
		if len(now) > 0 && strings.TrimFunc(now[len(now)-1], textSpace) == "" {
			now = now[:len(now)-1]
		}
		if len(now) > 0 {
			out = append(out, strings.Join(now, ""))
		}
	}
	return out
}

// prefix is the number of bytes of the first characters of a text.
func prefix(s string, characters int) int {
	for i := range s {
		if characters == 0 {
			return i
		}
		characters--
	}
	return len(s)
}

// textSpace is the white space of textwrap, that of ASCII.
func textSpace(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }

// urlEncode quotes a text for a path of a URL, or pairs for its query.
func urlEncode(s *scope, a args) (any, error) {
	value, err := a.one()
	if err != nil {
		return nil, err
	}
	var pairs []any
	switch v := value.(type) {
	case *Dict:
		pairs = dictItems(v)
	case []any, tuple, view, *generator:
		if pairs, err = s.iterate(v); err != nil {
			return nil, err
		}
	default:
		text, err := s.str(v)
		return strings.ReplaceAll(percent(text), "%2F", "/"), err
	}
	var out []string
	for _, pair := range pairs {
		p, err := s.iterate(pair)
		if err != nil || len(p) != 2 {
			return nil, fmt.Errorf("needs pairs, not %s", describe(pair))
		}
		key, err := s.str(p[0])
		if err != nil {
			return nil, err
		}
		value, err := s.str(p[1])
		if err != nil {
			return nil, err
		}
		out = append(out, strings.ReplaceAll(percent(key)+"="+percent(value), "%20", "+"))
	}
	return joined(out, "&")
}

// percent quotes all but letters, digits and _.-~.
func percent(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
