package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// documentedFile lists the element types that the pages give for the tensors of operators.
const documentedFile = "internal/emu/op/optest/testdata/documented.txt"

// documentedText returns the element types by operator, tensor and chips, in the grammar of
// optest.documentedTypes. A chip that lacks an operator has no types of it.
func documentedText(t *abi.Table, sites map[string]site) []byte {
	var b bytes.Buffer
	b.WriteString("# The element types that the public pages give for each tensor, by the letters of chips. Made by `npugen pages`\n" +
		"# from the pages that internal/tools/npugen/docs/pages.txt names.\n")
	for i := range t.Operators {
		o := &t.Operators[i]
		at, ok := sites[o.Name]
		if !ok {
			continue
		}
		chips := supportedBy(at.text())
		types := map[byte]map[string][]string{}
		for _, letter := range []byte("abcpn") {
			if chips[letter] {
				types[letter] = pageTypes(at.text(), o, letter)
			}
		}
		for _, p := range o.Params {
			var lists, letters []string // the chips with equal lists stand together
			for _, letter := range []byte("abcpn") {
				list := strings.Join(types[letter][p.Name], " ")
				if k := slices.Index(lists, list); list != "" && k >= 0 {
					letters[k] += string(letter)
				} else if list != "" {
					lists, letters = append(lists, list), append(letters, string(letter))
				}
			}
			for k := range lists {
				fmt.Fprintf(&b, "%s %s %s %s\n", o.Name, p.Name, letters[k], lists[k])
			}
		}
	}
	return b.Bytes()
}

// pageTypeNames maps the names of element types in pages to those of package dtype.
var pageTypeNames = map[string]string{
	"FLOAT": "float32", "FLOAT32": "float32", "FP32": "float32", "FLOAT16": "float16", "FP16": "float16", "BFLOAT16": "bfloat16", "BF16": "bfloat16",
	"DOUBLE": "float64", "FLOAT64": "float64", "BOOL": "bool", "INT4": "int4", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
	"UINT1": "uint1", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
	"COMPLEX32": "complex32", "COMPLEX64": "complex64", "COMPLEX128": "complex128", "HIFLOAT8": "hifloat8",
	"FLOAT8_E5M2": "float8_e5m2", "FLOAT8_E4M3FN": "float8_e4m3fn", "FLOAT8_E4M3": "float8_e4m3fn", "FLOAT8_E8M0": "float8_e8m0",
	"FLOAT4_E2M1": "float4_e2m1", "FLOAT4_E1M2": "float4_e1m2",
}

// pageChips are the names of the chips in the comments that bound parts of a page.
var pageChips = map[byte]string{'a': "910", 'b': "910b", 'c': "A3", 'p': "310p", 'n': "950"}

var (
	startOfPart = regexp.MustCompile(`<!-- npu="([^"]*)" (\w+) -->`)
	superscript = regexp.MustCompile(`<sup>(.*?)</sup>`)
	rowSpan     = regexp.MustCompile(`rowspan\s*=\s*"?(\d+)`)
	cellParts   = regexp.MustCompile(`(?s)<t[hd]([^>]*)>(.*?)</t[hd]>`)
	typeWord    = regexp.MustCompile(`([A-Za-z]\w*)\s*((?:\^[\d,，、 ]+)*)`)
	digit       = regexp.MustCompile(`\d`)
	termWord    = regexp.MustCompile(`<term>.*</term>[^：:]*[：:]?`)
	markNote    = regexp.MustCompile(`角标[“"]?(\d)`)
	clauseEnd   = regexp.MustCompile(`[；;。]`)
	nextSubject = regexp.MustCompile("，(`?[a-z])")
	endOfTable  = regexp.MustCompile(`^\s*-?\s*\**返回值|^#`)
	aboutTypes  = regexp.MustCompile(`^[-\s]*(参数|入参)?的?数据类型|^[-\s]*不支持[A-Z]`)
	wrapped     = regexp.MustCompile(`(?m)^[ \t]*[-*][ \t][^\n<|]*(?:\n[ \t]+[^\s\-*<|#>][^\n]*)+`) // an item of a list on several lines
	condition   = regexp.MustCompile(`[当时]`)
)

// pageTypes returns the element types that a page gives for each tensor of an operator on a chip: those
// of the table of parameters, with what the notes below it add and take away for the chip.
func pageTypes(text string, o *abi.Operator, letter byte) map[string][]string {
	section := unwrap(sectionOf(partsFor(text, pageChips[letter]), o.Symbol))
	cells := typeCells(section, o)
	notes := chipNotes(section, letter)
	marks := map[string]bool{} // of types that the chip does not have
	for _, n := range notes {
		if m := markNote.FindStringSubmatch(n); m != nil {
			marks[m[1]] = true
		}
	}
	types := map[string][]string{}
	for name, cell := range cells {
		for _, m := range typeWord.FindAllStringSubmatch(cell, -1) {
			d := pageTypeNames[strings.ToUpper(m[1])]
			marked := slices.ContainsFunc(digit.FindAllString(m[2], -1), func(s string) bool { return marks[s] })
			if d != "" && !marked && !slices.Contains(types[name], d) {
				types[name] = append(types[name], d)
			}
		}
	}
	for _, n := range notes {
		for _, sentence := range clauseEnd.Split(n, -1) {
			if strings.Contains(sentence, "为") && condition.MatchString(sentence) {
				continue // it depends on other arguments, which says nothing about the lists
			}
			for _, clause := range clauseEnd.Split(nextSubject.ReplaceAllString(sentence, "；$1"), -1) {
				applyNote(types, clause)
			}
		}
	}
	return types
}

// unwrap puts each item of a list on one line.
func unwrap(text string) string {
	return wrapped.ReplaceAllStringFunc(text, func(item string) string { return strings.ReplaceAll(item, "\n", " ") })
}

// partsFor leaves out the parts of a page that are for other chips.
func partsFor(text, chip string) string {
	var b strings.Builder
	for {
		m := startOfPart.FindStringSubmatchIndex(text)
		if m == nil {
			return b.String() + text
		}
		chips, id := text[m[2]:m[3]], text[m[4]:m[5]]
		part, after, ok := strings.Cut(text[m[1]:], "<!-- end "+id+" -->")
		b.WriteString(text[:m[0]])
		if !ok {
			part, after = "", text[m[1]:]
		}
		if slices.Contains(strings.Split(chips, ","), chip) {
			b.WriteString(partsFor(part, chip))
		}
		text = after
	}
}

// applyNote changes types as a clause of a note says: "x不支持BOOL", "x额外支持BOOL", "数据类型支持BOOL".
func applyNote(types map[string][]string, clause string) {
	_, list, ok := strings.Cut(clause, "支持")
	var named []string
	for name := range types {
		if regexp.MustCompile(`\b` + name + `\b`).MatchString(clause) {
			named = append(named, name)
		}
	}
	if !ok || named == nil && !aboutTypes.MatchString(clause) {
		return
	}
	var listed []string
	for _, m := range typeWord.FindAllStringSubmatch(list, -1) {
		if d := pageTypeNames[strings.ToUpper(m[1])]; d != "" {
			listed = append(listed, d)
		}
	}
	if listed == nil {
		return
	}
	for name, before := range types {
		if named != nil && !slices.Contains(named, name) {
			continue
		}
		is := func(d string) bool { return slices.Contains(listed, d) }
		switch {
		case strings.Contains(clause, "不支持"):
			types[name] = slices.DeleteFunc(slices.Clone(before), is)
		case strings.Contains(clause, "额外支持"):
			types[name] = append(slices.DeleteFunc(slices.Clone(before), is), listed...)
		default:
			types[name] = slices.DeleteFunc(slices.Clone(before), func(d string) bool { return !is(d) })
		}
	}
}

// typeCells returns the cells of a section's table of parameters that hold element types, by tensor.
// A page without a table has a list of parameters.
func typeCells(section string, o *abi.Operator) map[string]string {
	cells := map[string]string{}
	tensor := func(name string) bool {
		return slices.ContainsFunc(o.Params, func(p abi.Param) bool {
			return p.Name == name && (p.Class == abi.Tensor || p.Class == abi.TensorList)
		})
	}
	for _, table := range tableTag.FindAllString(section, -1) {
		rows := wholeRows(table)
		if len(rows) == 0 || len(rows[0]) == 0 || !strings.HasPrefix(rows[0][0], "参数名") {
			continue
		}
		column := slices.IndexFunc(rows[0], func(s string) bool { return strings.HasPrefix(s, "数据类型") })
		if column < 0 {
			continue
		}
		for _, row := range rows[1:] {
			if len(row) > column && tensor(leading.FindString(row[0])) {
				cells[leading.FindString(row[0])] = row[column]
			}
		}
		return cells
	}
	for line := range strings.Lines(section) {
		name := leading.FindString(strings.TrimLeft(line, " -*`"))
		if strings.Contains(line, "aclTensor") && tensor(name) && cells[name] == "" {
			cells[name] = line
		}
	}
	return cells
}

// wholeRows returns the rows of a table with the cells that span several rows in each of them. A
// superscript begins with "^".
func wholeRows(table string) [][]string {
	type span struct {
		rows int
		text string
	}
	spans := map[int]*span{}
	var rows [][]string
	for _, tr := range rowTag.FindAllString(table, -1) {
		var row []string
		carry := func() {
			for s := spans[len(row)]; s != nil && s.rows > 0; s = spans[len(row)] {
				s.rows--
				row = append(row, s.text)
			}
		}
		for _, cell := range cellParts.FindAllStringSubmatch(tr, -1) {
			carry()
			text := strings.TrimSpace(anyTag.ReplaceAllString(superscript.ReplaceAllString(cell[2], "^$1"), " "))
			text = strings.ReplaceAll(text, `\_`, "_")
			if m := rowSpan.FindStringSubmatch(cell[1]); m != nil {
				n := 0
				_, _ = fmt.Sscan(m[1], &n)
				spans[len(row)] = &span{n - 1, text}
			}
			row = append(row, text)
		}
		carry()
		rows = append(rows, row)
	}
	return rows
}

// chipNotes returns the lines below a section's table of parameters that are about a chip.
func chipNotes(section string, letter byte) (notes []string) {
	_, below, ok := strings.Cut(section, "</table>")
	if !ok {
		return nil
	}
	about := false
	for line := range strings.Lines(below) {
		if endOfTable.MatchString(line) {
			break
		}
		if strings.Contains(line, "<term>") {
			about = mentions(line, letter)
			line = termWord.ReplaceAllString(line, "")
		}
		if line = strings.TrimSpace(line); about && line != "" && !strings.HasPrefix(line, "<!--") {
			notes = append(notes, line)
		}
	}
	return notes
}

// mentions reports whether a line names a chip among others.
func mentions(line string, letter byte) bool {
	for _, term := range strings.SplitAfter(line, "</term>") {
		if chipOf(blanks.ReplaceAllString(term, "")) == letter {
			return true
		}
	}
	return false
}
