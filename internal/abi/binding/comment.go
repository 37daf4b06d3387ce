package binding

import (
	"fmt"
	"io"
	"slices"
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
	if len(o.Others) > 0 {
		text = append(text, otherForms(o))
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
	first, last := versions[0], versions[len(versions)-1]
	known := abi.Releases()
	if gap := slices.IndexFunc(versions, func(v string) bool {
		return v != first && !slices.Contains(versions, known[max(slices.Index(known, v)-1, 0)])
	}); gap > 0 {
		return Seen(versions[:gap]) + ", and " + Seen(versions[gap:])
	}
	switch {
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

// otherForms returns the sentence on the releases that have an operator with other parameters.
func otherForms(o abi.Operator) string {
	return "CANN " + strings.Join(o.Foreign(), " and ") + " has other parameters under the name, and a call there is refused."
}
