package header

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"github.com/goascend/cann/internal/abi"
)

// Operators reads every *.h below fsys and returns its operators, sorted by name.
func Operators(t *abi.Table, fsys fs.FS, library string) ([]abi.Operator, error) {
	declared := map[string]declaration{}
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".h") {
			return err
		}
		text, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		found, err := parseHeader(path, string(text))
		for _, f := range found {
			declared[f.name] = f
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var ops []abi.Operator
	for name, one := range declared {
		symbol, ok := strings.CutSuffix(name, abi.PhaseOne)
		if _, two := declared[symbol]; !ok || !two {
			continue
		}
		n := len(one.params) - 2
		if n < 0 || one.params[n].Type != "uint64_t *" || one.params[n+1].Type != "aclOpExecutor **" {
			return nil, fmt.Errorf("%s: %s does not end in (uint64_t *, aclOpExecutor **)", one.at, name)
		}
		f := abi.Function{
			Name: symbol, Ret: "aclnnStatus", Params: one.params[:n], Header: one.at,
			Library: library, Versions: []string{abi.Custom},
		}
		if err := t.Resolve(&f); err != nil {
			return nil, fmt.Errorf("%s: %w", one.at, err)
		}
		ops = append(ops, abi.OperatorOf(f))
	}
	if len(ops) == 0 {
		return nil, errors.New("the headers declare no operator: want aclnnXGetWorkspaceSize and aclnnX in *.h files")
	}
	slices.SortFunc(ops, func(a, b abi.Operator) int { return strings.Compare(a.Name, b.Name) })
	return ops, nil
}

// declaration is a C function that returns aclnnStatus.
type declaration struct {
	name   string
	params []abi.Param // Name and Type only
	at     string      // file:line
}

// lexeme is an identifier, number or single punctuation mark of a header.
type lexeme struct {
	text string
	line int
}

// parseHeader returns the aclnn functions that a header declares. It understands prototypes but is
// no C parser: it skips comments, preprocessor lines, attributes and everything else that is not a
// function returning aclnnStatus.
func parseHeader(path, text string) ([]declaration, error) {
	words, err := lex(text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	var found []declaration
	for i := 0; i+2 < len(words); i++ {
		name, open := words[i+1], words[i+2]
		if words[i].text != "aclnnStatus" || !isName(name.text) || open.text != "(" {
			continue
		}
		d := declaration{name: name.text, at: fmt.Sprintf("%s:%d", path, name.line)}
		list, rest, ok := arguments(words[i+3:])
		if !ok {
			return nil, fmt.Errorf("%s: %s: the parameter list does not end", d.at, d.name)
		}
		for n, arg := range list {
			p, err := parameter(arg)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: parameter %d: %w", d.at, d.name, n+1, err)
			}
			d.params = append(d.params, p)
		}
		i = len(words) - len(rest) - 1
		if len(rest) > 0 && rest[0].text == ";" {
			found = append(found, d)
		}
	}
	return found, nil
}

// lex splits a header into lexemes without comments and preprocessor lines.
func lex(text string) ([]lexeme, error) {
	var words []lexeme
	line, fresh := 1, true // fresh: only white space on this line so far
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			line, fresh = line+1, true
			i++
		case unicode.IsSpace(rune(c)):
			i++
		case strings.HasPrefix(text[i:], "//"):
			i += lineEnd(text[i:])
		case strings.HasPrefix(text[i:], "/*"):
			n := strings.Index(text[i+2:], "*/")
			if n < 0 {
				return nil, fmt.Errorf("%d: comment does not end", line)
			}
			line += strings.Count(text[i:i+2+n], "\n")
			i += n + 4
		case c == '#' && fresh:
			n := lineEnd(text[i:])
			for n < len(text)-i && strings.HasSuffix(strings.TrimRight(text[i:i+n], "\r"), "\\") {
				n += 1 + lineEnd(text[i+n+1:])
			}
			line += strings.Count(text[i:i+n], "\n")
			i += n
		case c == '"':
			n := strings.IndexAny(text[i+1:], "\"\n")
			if n < 0 || text[i+1+n] == '\n' {
				return nil, fmt.Errorf("%d: string does not end", line)
			}
			words = append(words, lexeme{text[i : i+n+2], line})
			i, fresh = i+n+2, false
		case isWordByte(c):
			n := 1
			for i+n < len(text) && isWordByte(text[i+n]) {
				n++
			}
			words = append(words, lexeme{text[i : i+n], line})
			i, fresh = i+n, false
		default:
			words = append(words, lexeme{text[i : i+1], line})
			i, fresh = i+1, false
		}
	}
	return words, nil
}

func lineEnd(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n
	}
	return len(s)
}

func isWordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isName(s string) bool { return isWordByte(s[0]) && (s[0] < '0' || s[0] > '9') }

// arguments splits the words after "(" at the commas of the same nesting level. rest is what
// follows the matching ")".
func arguments(words []lexeme) (list [][]lexeme, rest []lexeme, ok bool) {
	depth, start := 0, 0
	for i, w := range words {
		switch w.text {
		case "(", "[", "{":
			depth++
		case "]", "}":
			depth--
		case ",":
			if depth == 0 {
				list = append(list, words[start:i])
				start = i + 1
			}
		case ")":
			if depth > 0 {
				depth--
				continue
			}
			if last := words[start:i]; len(list) > 0 || len(last) > 0 && !(len(last) == 1 && last[0].text == "void") {
				list = append(list, last)
			}
			return list, words[i+1:], true
		case ";":
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// parameter parses one parameter: qualifiers and a type name, stars, a name. It ignores a C++
// default value.
func parameter(words []lexeme) (abi.Param, error) {
	constant, name := false, ""
	var base, stars strings.Builder
	for _, w := range words {
		switch t := w.text; {
		case t == "=":
			return finishParameter(constant, base.String(), stars.String(), name)
		case t == "const" && stars.Len() == 0:
			constant = true
		case t == "const", t == "struct", t == "enum":
		case t == "*":
			if base.Len() == 0 || name != "" {
				return abi.Param{}, fmt.Errorf("unexpected %q", t)
			}
			stars.WriteString("*")
		case !isName(t):
			return abi.Param{}, fmt.Errorf("cannot read %q; only plain types, pointers and names are understood", t)
		case base.Len() == 0:
			base.WriteString(t)
		case t == "int" && (base.String() == "unsigned" || base.String() == "long"):
			base.WriteString(" int")
		case name == "":
			name = t
		default:
			return abi.Param{}, fmt.Errorf("unexpected %q after the name %s", t, name)
		}
	}
	return finishParameter(constant, base.String(), stars.String(), name)
}

func finishParameter(constant bool, base, stars, name string) (abi.Param, error) {
	if base == "" || name == "" {
		return abi.Param{}, fmt.Errorf("it needs a type and a name")
	}
	ctype := base
	if stars != "" {
		ctype += " " + stars
		if constant {
			ctype = "const " + ctype
		}
	}
	return abi.Param{Name: name, Type: ctype}, nil
}
