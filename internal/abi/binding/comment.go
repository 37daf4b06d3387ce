package binding

import (
	"fmt"
	"io"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// width is the column at which comments are wrapped.
const width = 100

// doc returns the comment of an operator's function: what it computes, its C function, which CANN has it, and
// the package's sentences.
func (g Package) doc(o abi.Operator) string {
	from := o.Symbol + ", " + Seen(o.Versions)
	if o.Library != "libopapi" { // where CANN has its own
		from = o.Symbol + " of " + o.Library + ", " + Seen(o.Versions)
	}
	text := []string{fmt.Sprintf("%s launches %s.", o.Name, from)}
	if g.Summary != nil && g.Summary(o) != "" {
		text[0] = fmt.Sprintf("%s %s. C: %s.", o.Name, g.Summary(o), from)
	}
	if o.Ends {
		text = append(text, ending(o))
	}
	if g.Sentences != nil {
		text = append(text, g.Sentences(o)...)
	}
	var b strings.Builder
	Comment(&b, strings.Join(text, " "))
	return b.String()
}

// Comment writes text as comment lines.
func Comment(b io.StringWriter, text string) {
	line := "//"
	for word := range strings.FieldsSeq(text) {
		if len([]rune(line))+1+len([]rune(word)) > width && line != "//" {
			b.WriteString(line + "\n")
			line = "//"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// note returns the comment of a field: the facts that its Go type does not show.
func (g Package) note(o abi.Operator, p abi.Param) string {
	var notes []string
	switch {
	case p.Optional && p.Use == abi.Written:
		notes = append(notes, "optional output")
	case p.Optional && p.Use == abi.Updated:
		notes = append(notes, "optional, read and written")
	case p.Optional:
		notes = append(notes, "optional")
	case p.Use == abi.Written:
		notes = append(notes, "output")
	case p.Use == abi.Updated:
		notes = append(notes, "read and written")
	}
	if g.Facts != nil {
		notes = append(notes, g.Facts(o, p)...)
	}
	return strings.Join(notes, ", ")
}

// ending returns the sentence on the end of an operator.
func ending(o abi.Operator) string {
	var names []string
	for _, s := range o.Successors {
		names = append(names, strings.TrimPrefix(s, "aclnn"))
	}
	if len(names) == 0 {
		return "CANN announces its end."
	}
	return "CANN announces its end: use " + strings.Join(names, " and ") + "."
}

// Seen returns the versions or packages in which an operator occurs, in words.
func Seen(versions []string) string {
	switch first, last := versions[0], versions[len(versions)-1]; {
	case last == abi.Custom:
		return "custom operator package"
	case first == abi.Unreleased:
		return "CANN after " + abi.V920Beta1
	case last == abi.Unreleased:
		return "CANN since " + first
	case first == last:
		return "CANN " + first + " only"
	default:
		return "CANN " + first + " to " + last
	}
}
