package main

import (
	"slices"
	"strconv"
	"strings"
)

// macro is a #define with its parameters, or nil parameters for one without parentheses.
type macro struct {
	params   []string
	variadic bool
	function bool
	body     []token
}

// builtin holds the macros of CANN's base library in the form that this package reads.
var builtin = macros(`
#define CHECK_RET(c, r) if (!(c)) { return r; }
#define CHECK_COND(c, r, ...) if (!(c)) { return r; }
#define OP_CHECK(c, l, r) if (!(c)) { r; }
#define OP_CHECK_NO_RETURN(c, l)
#define OP_CHECK_NOTNULL(v) if ((v) == nullptr) { return ACLNN_ERR_INNER_NULLPTR; }
#define CHECK_RET_CODE(f, ...) { aclnnStatus rc__ = f; if (rc__ != ACLNN_SUCCESS) { return rc__; } }
#define OP_CHECK_COMM_INPUT(a, b)
#define OP_CHECK_NULL(p, r) if ((p) == nullptr) { r; }
#define OP_LOGE(...)
#define OP_LOGW(...)
#define OP_LOGD(...)
#define OP_LOGI(...)
#define OP_LOGE_WITHOUT_REPORT(...)
#define OP_LOGE_WITH_INVALID_INPUT(...)
#define L2_DFX_PHASE_1(...)
#define L2_DFX_PHASE_2(...)
#define CREATE_EXECUTOR() OPAQUE__
#define DFX_IN(...)
#define DFX_OUT(...)
#define OP_CONCAT(a, b) a##b
#define GET_ARGS_COUNT(...)
#define unlikely(x) (x)
#define likely(x) (x)
`)

func macros(src string) map[string]*macro {
	m := map[string]*macro{}
	lex(src, func(line string) { define(m, line) })
	return m
}

// define records a #define.
func define(m map[string]*macro, line string) {
	rest, ok := strings.CutPrefix(line, "define")
	if !ok {
		return
	}
	rest = strings.TrimSpace(rest)
	n := 0
	for n < len(rest) && (letter(rest[n]) || digit(rest[n])) {
		n++
	}
	name, rest := rest[:n], rest[n:]
	if strings.HasPrefix(name, "D_OP_LOG") {
		return
	}
	d := &macro{}
	if strings.HasPrefix(rest, "(") {
		end := strings.IndexByte(rest, ')')
		if end < 0 {
			return
		}
		d.function = true
		for p := range strings.SplitSeq(rest[1:end], ",") {
			switch p = strings.TrimSpace(p); p {
			case "":
			case "...":
				d.variadic = true
			default:
				d.params = append(d.params, p)
			}
		}
		rest = rest[end+1:]
	}
	d.body = lex(rest, nil)
	m[name] = d
}

// expand replaces the macros in t. Nested expansions end at a depth that no source reaches.
func expand(t []token, find func(string) *macro, depth int) []token {
	if depth > 30 {
		return t
	}
	var out []token
	for i := 0; i < len(t); i++ {
		var m *macro
		if t[i].kind == ident {
			m = find(t[i].s)
		}
		if m == nil || m.function && (i+1 >= len(t) || !t[i+1].is("(")) {
			out = append(out, t[i])
			continue
		}
		var args [][]token
		start := i
		if m.function {
			end := closing(t, i+1)
			if end >= len(t) {
				return append(out, t[i:]...)
			}
			args = commas(t[i+2 : end])
			i = end
			for k := range args {
				args[k] = expand(args[k], find, depth+1)
			}
		}
		result := []token{{kind: number, s: strconv.Itoa(len(args))}}
		if m != builtin["GET_ARGS_COUNT"] {
			result = expand(m.apply(args), find, depth+1)
		}
		for k := range result {
			result[k].line = t[start].line
		}
		// A macro's last word may be a macro whose arguments follow.
		if n := len(result) - 1; n >= 0 && result[n].kind == ident && i+1 < len(t) && t[i+1].is("(") {
			if next := find(result[n].s); next != nil && next.function {
				return append(append(out, result[:n]...), expand(append([]token{result[n]}, t[i+1:]...), find, depth+1)...)
			}
		}
		out = append(out, result...)
	}
	return out
}

// commas divides the arguments of a macro, in which template brackets have no meaning.
func commas(t []token) (parts [][]token) {
	start, depth := 0, 0
	for i, x := range t {
		if x.kind != punct {
			continue
		}
		switch x.s {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case ",":
			if depth == 0 {
				parts = append(parts, t[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, t[start:])
}

func (m *macro) apply(args [][]token) []token {
	var rest []token
	for i := len(m.params); i < len(args); i++ {
		if i > len(m.params) {
			rest = append(rest, token{kind: punct, s: ","})
		}
		rest = append(rest, args[i]...)
	}
	var out []token
	for i := 0; i < len(m.body); i++ {
		x := m.body[i]
		if x.is("#") && i+1 < len(m.body) {
			out = append(out, token{kind: text, s: `""`})
			i++
			continue
		}
		if x.is("##") {
			if i+1 < len(m.body) && len(out) > 0 && m.body[i+1].kind == ident {
				next := m.substitute(m.body[i+1], args, rest)
				if len(next) > 0 && m.body[i+1].s != "__VA_ARGS__" {
					out[len(out)-1].s += next[0].s
					out = append(out, next[1:]...)
				} else {
					out = append(out, next...)
				}
				i++
			}
			continue
		}
		out = append(out, m.substitute(x, args, rest)...)
	}
	return out
}

func (m *macro) substitute(x token, args [][]token, rest []token) []token {
	if x.kind == ident {
		if x.s == "__VA_ARGS__" && m.variadic {
			return rest
		}
		if i := slices.Index(m.params, x.s); i >= 0 && i < len(args) {
			return args[i]
		}
	}
	return []token{x}
}
