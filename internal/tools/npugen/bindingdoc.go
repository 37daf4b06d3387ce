package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/acceptance"
)

// docWidth is the column at which comments are wrapped.
const docWidth = 100

// doc returns the comment of an operator's function, written from the tables: what it computes, its C
// function, which CANN and which chips have it, and the element types that the emulator computes.
func (g binding) doc(o abi.Operator) string {
	var text []string
	from := o.Symbol + ", " + seen(o.Versions)
	if o.Library != "libopapi" { // where CANN has its own
		from = o.Symbol + " of " + o.Library + ", " + seen(o.Versions)
	}
	if known := g.docs.Of(o.Name); known.Summary == "" {
		text = append(text, fmt.Sprintf("%s launches %s.", o.Name, from))
	} else {
		text = append(text, fmt.Sprintf("%s %s. C: %s.", o.Name, known.Summary, from))
	}
	if g.types != nil {
		if chips := lacking(o.Name); len(chips) > 0 {
			text = append(text, "Not on "+strings.Join(chips, ", ")+".")
		}
		text = append(text, g.types.sentence(o))
	}
	var b strings.Builder
	wrap(&b, strings.Join(text, " "))
	return b.String()
}

// lacking returns the chips that have no kernel of an operator.
func lacking(operator string) (chips []string) {
	for _, c := range []acceptance.Chip{acceptance.Ascend910, acceptance.Ascend910B, acceptance.Ascend910_93, acceptance.Ascend310P, acceptance.Ascend950} {
		if acceptance.Lacks(operator, c) {
			chips = append(chips, c.String())
		}
	}
	return chips
}

// wrap writes text as comment lines.
func wrap(b io.StringWriter, text string) {
	line := "//"
	for word := range strings.FieldsSeq(text) {
		if len([]rune(line))+1+len([]rune(word)) > docWidth && line != "//" {
			b.WriteString(line + "\n")
			line = "//"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// note returns the comment of a field: the facts that its Go type does not show.
func (g binding) note(o abi.Operator, p abi.Param) string {
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
	known := g.docs.Of(o.Name)
	if shape := known.Shapes[p.Name]; shape != "" {
		notes = append(notes, dimensions(shape, fieldNames(o)))
	}
	if values := known.Values[p.Name]; values != "" {
		notes = append(notes, values)
	}
	return strings.Join(notes, ", ")
}

// dimensions converts a shape of docs.Doc to words; fields holds the operator's fields by C names.
func dimensions(shape string, fields map[string]string) string {
	if other, ok := strings.CutPrefix(shape, "as "); ok {
		return "dimensions as " + fields[other]
	}
	switch {
	case shape[0] < '0' || shape[0] > '9':
		return shape
	case shape == "1":
		return "1 dimension"
	}
	return strings.NewReplacer("-", " to ", ",", " or ").Replace(shape) + " dimensions"
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
