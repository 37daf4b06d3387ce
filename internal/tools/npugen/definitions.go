package main

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

var (
	operatorKinds  = regexp.MustCompile(`\bOPTYPE\s+([a-z0-9_\s]+?)\s+ACLNNTYPE\s+([a-z_\s]+)`)
	cmakeComment   = regexp.MustCompile(`(?m)#.*$`)
	cComment       = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	macroStart     = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)]*)\)`)
	plainConstant  = regexp.MustCompile(`\b(?:constexpr|const)\s+\w+\s+(\w+)\s*=\s*(\d+)\s*;`)
	registered     = regexp.MustCompile(`\bOP_ADD\(\s*(\w+)`)
	definedClass   = regexp.MustCompile(`\bclass\s+(\w+)\s*:\s*public\s+OpDef\b`)
	definedParam   = regexp.MustCompile(`\bthis\s*->\s*(Input|Output|Attr)\(\s*"(\w+)"\s*\)([^;]*);`)
	chained        = regexp.MustCompile(`\.\s*(\w+)\s*\(\s*([^(){}]*)`)
	firstDataType  = regexp.MustCompile(`\bDT_([A-Z0-9]+)`)
	namedTypes     = regexp.MustCompile(`\.\s*DataType(?:List)?\s*\(\s*(?:[\w.]+\(\s*)?"?(\w+)"?\s*\)`)
	attributeTypes = map[string]string{
		"Int": "int64_t", "Float": "double", "Bool": "bool", "String": "char *",
		"ListInt": "const aclIntArray *", "ListFloat": "const aclFloatArray *", "ListBool": "const aclBoolArray *",
	}
)

// generatedHeaders returns the headers that the build of a repository of operators generates, by file name. It generates
// one for each operator whose kind in CMake's lists is aclnn, from the operator's definition: the inputs, the attributes
// and the outputs are the parameters of phase one, in this order.
func generatedHeaders(files map[string]string) (map[string]string, error) {
	definitions, written, common := map[string]string{}, map[string]bool{}, ""
	for _, p := range slices.Sorted(maps.Keys(files)) {
		switch name := path.Base(p); {
		case !installed(p) || strings.HasPrefix(p, "scripts/"): // which has templates
		case strings.HasSuffix(name, "_def.cpp"):
			definitions[strings.TrimSuffix(name, "_def.cpp")] = files[p]
		case strings.HasPrefix(name, "aclnn_") && strings.HasSuffix(name, ".h"):
			for _, one := range phaseOneInText.FindAllString(files[p], -1) {
				written[phaseOneName(one)] = true
			}
		case strings.HasSuffix(name, ".h") && strings.Contains(files[p], "OpDef"):
			common += files[p] + "\n"
		}
	}
	headers := map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if path.Base(p) != "CMakeLists.txt" || !installed(p) {
			continue
		}
		for _, m := range operatorKinds.FindAllStringSubmatch(cmakeComment.ReplaceAllString(files[p], ""), -1) {
			names, kinds := strings.Fields(m[1]), strings.Fields(m[2])
			for i, name := range names {
				text := definitions[name]
				if i >= len(kinds) || kinds[i] != "aclnn" || text == "" {
					continue // lists also name operators whose sources a release lacks
				}
				versions, err := headersOf(text, common)
				if err != nil {
					return nil, fmt.Errorf("the definition of %s: %w", name, err)
				}
				for version, text := range versions {
					file := "aclnn_" + name
					if version > 1 {
						file += "_v" + strconv.Itoa(version)
					}
					declared := slices.ContainsFunc(phaseOneInText.FindAllString(text, -1), func(one string) bool { return written[phaseOneName(one)] })
					if !declared { // a header of the repository takes the place of the generated one
						headers[file+".h"] = text
					}
				}
			}
		}
	}
	return headers, nil
}

// definedParameter is an input, an output or an attribute of a definition.
type definedParameter struct {
	kind, name, ctype string
	optional          bool
	version           int // of the operator that has it first
}

// headersOf returns the header of each version of the operator that a definition registers; common has the macros of
// several definitions.
func headersOf(text, common string) (map[int]string, error) {
	text, err := expanded(text, common)
	if err != nil {
		return nil, err
	}
	text = cComment.ReplaceAllString(text, "")
	names := registered.FindAllStringSubmatch(text, -1)
	if len(names) != 1 {
		return nil, fmt.Errorf("it registers %d operators, not one", len(names))
	}
	name := names[0][1]
	classes := definedClass.FindAllStringSubmatchIndex(text, -1)
	at := slices.IndexFunc(classes, func(m []int) bool { return text[m[2]:m[3]] == name })
	if at < 0 {
		return nil, fmt.Errorf("it has no class %s", name)
	}
	body := text[classes[at][1]:]
	if at+1 < len(classes) {
		body = text[classes[at][1]:classes[at+1][0]]
	}
	params, err := definedParameters(body, text)
	if err != nil {
		return nil, err
	}
	versions := []int{1}
	for _, p := range params {
		if !slices.Contains(versions, p.version) {
			versions = append(versions, p.version)
		}
	}
	headers := map[int]string{}
	for _, version := range versions {
		symbol := "aclnn" + name
		if version > 1 {
			symbol += "V" + strconv.Itoa(version)
		}
		headers[version] = generatedHeader(symbol, slices.DeleteFunc(slices.Clone(params), func(p definedParameter) bool { return p.version > version }))
	}
	return headers, nil
}

// definedParameters reads the parameters that a class adds; constants of the whole text are known by name.
func definedParameters(body, text string) (params []definedParameter, err error) {
	constants := map[string]string{}
	for _, m := range plainConstant.FindAllStringSubmatch(text, -1) {
		constants[m[1]] = m[2]
	}
	for _, m := range definedParam.FindAllStringSubmatch(body, -1) {
		p := definedParameter{kind: m[1], name: m[2], version: 1, ctype: "const aclTensor *"}
		if p.kind == "Attr" {
			p.ctype = ""
		}
		for _, call := range chained.FindAllStringSubmatch(m[3], -1) {
			argument := strings.TrimSpace(call[2])
			switch call[1] {
			case "ParamType", "AttrType":
				p.optional = argument == "OPTIONAL"
				if argument == "DYNAMIC" {
					p.ctype = "const aclTensorList *"
				}
			case "Scalar":
				p.ctype = "const aclScalar *"
			case "ScalarList":
				p.ctype = "const aclScalarList *"
			case "ValueDepend":
				if p.ctype, err = arrayOf(m[3], text); err != nil {
					return nil, fmt.Errorf("%s: %w", p.name, err)
				}
			case "Version":
				if constants[argument] != "" {
					argument = constants[argument]
				}
				if p.version, err = strconv.Atoi(argument); err != nil || p.version < 1 {
					return nil, fmt.Errorf("%s: version %q is not a number", p.name, argument)
				}
			default:
				if ctype := attributeTypes[call[1]]; p.kind == "Attr" && ctype != "" {
					p.ctype = ctype
				}
			}
		}
		if p.ctype == "" {
			return nil, fmt.Errorf("the type of the attribute %s is not understood", p.name)
		}
		if !slices.ContainsFunc(params, func(q definedParameter) bool { return q.kind == p.kind && q.name == p.name }) {
			params = append(params, p) // a chip's own lines may repeat it
		}
	}
	if len(params) == 0 {
		return nil, fmt.Errorf("it has no parameters")
	}
	return params, nil
}

// arrayOf returns the type of an input whose values the host reads, which its first element type decides. The element
// types are written at the input, or in a list of the text.
func arrayOf(chain, text string) (string, error) {
	if m := namedTypes.FindStringSubmatch(chain); m != nil {
		list := regexp.MustCompile(`\b` + m[1] + `\s*(?:=\s*)?\{([^}]*)\}`).FindStringSubmatch(text)
		if list == nil {
			return "", fmt.Errorf("no list %s of element types", m[1])
		}
		chain = list[1]
	}
	switch m := firstDataType.FindStringSubmatch(chain); {
	case m == nil:
		return "", fmt.Errorf("no element type")
	case m[1] == "BOOL":
		return "const aclBoolArray *", nil
	case strings.HasPrefix(m[1], "INT"), strings.HasPrefix(m[1], "UINT"):
		return "const aclIntArray *", nil
	case strings.HasPrefix(m[1], "FLOAT"), m[1] == "BF16":
		return "const aclFloatArray *", nil
	default:
		return "", fmt.Errorf("no array has elements of type %s", m[1])
	}
}

// generatedHeader returns the two functions of an operator. An output with the name of an input is that input, which
// the operator then writes.
func generatedHeader(symbol string, params []definedParameter) string {
	var list []string
	has := func(kind, name string) bool {
		return slices.ContainsFunc(params, func(p definedParameter) bool { return p.kind == kind && p.name == name })
	}
	for _, kind := range []string{"Input", "Attr", "Output"} {
		for _, p := range params {
			name, ctype := camelCase(p.name), p.ctype
			pointer := strings.HasSuffix(ctype, "*")
			switch {
			case p.kind != kind, kind == "Output" && has("Input", p.name):
				continue
			case kind == "Input" && has("Output", p.name):
				name, ctype = name+"Ref", strings.TrimPrefix(ctype, "const ")
			case kind == "Output" && name != "out":
				name += "Out"
			}
			if p.optional && pointer {
				name += "Optional"
			}
			list = append(list, strings.TrimSuffix(ctype, "*")+map[bool]string{true: "*", false: " "}[pointer]+name)
		}
	}
	return fmt.Sprintf("aclnnStatus %s%s(%s, uint64_t *workspaceSize, aclOpExecutor **executor);\n"+
		"aclnnStatus %s(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);\n",
		symbol, abi.PhaseOne, strings.Join(list, ", "), symbol)
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// phaseOneName returns the name in a match of phaseOneInText.
func phaseOneName(found string) string {
	return strings.TrimRight(found[strings.LastIndex(found, "acl"):], " \t\r\n(")
}

// macro is a macro of C with parameters.
type macro struct {
	params []string
	body   string
}

// expanded returns a text with the macros with parameters that it and common define.
func expanded(text, common string) (string, error) {
	macros := map[string]macro{}
	for _, source := range []string{common, text} {
		source = strings.ReplaceAll(source, "\\\r\n", "\\\n")
		for _, m := range macroStart.FindAllStringSubmatchIndex(source, -1) {
			body := source[m[1]:]
			for end := 0; ; {
				n := lineLength(body[end:])
				if !strings.HasSuffix(strings.TrimRight(body[end:end+n], " \t"), "\\") || end+n >= len(body) {
					body = body[:end+n]
					break
				}
				end += n + 1
			}
			var params []string
			for p := range strings.SplitSeq(source[m[4]:m[5]], ",") {
				params = append(params, strings.TrimSpace(p))
			}
			macros[source[m[2]:m[3]]] = macro{params, strings.ReplaceAll(body, "\\\n", "\n")}
		}
	}
	for depth := 0; ; depth++ {
		if depth > 8 {
			return "", fmt.Errorf("its macros are nested more than 8 deep")
		}
		changed := false
		for _, name := range slices.Sorted(maps.Keys(macros)) {
			call := regexp.MustCompile(`(?m)^([ \t]*)` + name + `\s*\(([^()]*)\)`)
			text = call.ReplaceAllStringFunc(text, func(found string) string {
				m := call.FindStringSubmatch(found)
				changed = true
				return m[1] + macros[name].with(strings.Split(m[2], ","))
			})
		}
		if !changed {
			return text, nil
		}
	}
}

// with returns the body of a macro for arguments.
func (m macro) with(arguments []string) string {
	body := m.body
	for i, p := range m.params {
		value := ""
		switch {
		case p == "..." && i < len(arguments):
			p, value = "__VA_ARGS__", strings.Join(arguments[i:], ",")
		case i < len(arguments):
			value = strings.TrimSpace(arguments[i])
		}
		body = regexp.MustCompile(`[ \t]*##[ \t]*\b`+p+`\b`).ReplaceAllLiteralString(body, value)
		body = regexp.MustCompile(`(^|[^#])#[ \t]*`+p+`\b`).ReplaceAllString(body, `${1}"`+value+`"`)
		body = regexp.MustCompile(`\b`+p+`\b`).ReplaceAllLiteralString(body, value)
	}
	return body
}

func lineLength(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n
	}
	return len(s)
}
