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
	from := o.Symbol + ", " + seen(o.Versions)
	if o.Library != "libopapi" { // where CANN has its own
		from = o.Symbol + " of " + o.Library + ", " + seen(o.Versions)
	}
	text := []string{fmt.Sprintf("%s launches %s.", o.Name, from)}
	if g.Summary != nil && g.Summary(o) != "" {
		text[0] = fmt.Sprintf("%s %s. C: %s.", o.Name, g.Summary(o), from)
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

// seen returns the versions or packages in which an operator occurs, in words.
func seen(versions []string) string {
	switch last := versions[len(versions)-1]; {
	case last == abi.Custom:
		return "custom operator package"
	case last != abi.V2608:
		return "CANN " + strings.Join(versions, " and ") + " only"
	}
	return "CANN since " + versions[0]
}
