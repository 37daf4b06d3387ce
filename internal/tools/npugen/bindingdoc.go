package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// docWidth is the column at which comments are wrapped.
const docWidth = 100

// doc returns the comment of an operator's function, written from the tables.
func (g binding) doc(o abi.Operator) string {
	var b strings.Builder
	paragraph := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteString("//\n")
		}
		wrap(&b, fmt.Sprintf(format, args...))
	}
	known := g.docs.Of(o.Name)
	from := fmt.Sprintf("%s (%s, %s)", o.Symbol, o.Library, seen(o.Versions))
	if known.Summary == "" {
		paragraph("%s launches %s on st.", o.Name, from)
	} else {
		paragraph("%s %s.", o.Name, known.Summary)
		paragraph("It launches %s on st.", from)
	}
	if g.types != nil {
		wrap(&b, strings.TrimSpace(g.types.sentence(o)+" "+g.types.checks(g.docs, o.Name)))
	}
	if known.Page.Path != "" {
		// This line is not wrapped, so that the path can be copied. Most pages are files of the operator's
		// C name, which the line leaves out.
		fmt.Fprintf(&b, "// Vendor's page: %s, %s\n", known.Page.Repository, strings.TrimSuffix(known.Page.Path, "/"+o.Symbol+".md"))
	}
	return b.String()
}

// wrap writes text as comment lines.
func wrap(b *strings.Builder, text string) {
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
		notes = append(notes, dimensions(shape))
	}
	if values := known.Values[p.Name]; values != "" {
		notes = append(notes, values)
	}
	return strings.Join(notes, ", ")
}

// dimensions converts a shape of docs.Doc to words.
func dimensions(shape string) string {
	if other, ok := strings.CutPrefix(shape, "as "); ok {
		return "dimensions as " + fieldName(other, map[string]bool{})
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
	if slices.Equal(versions, []string{abi.Custom}) {
		return "custom operator package"
	}
	return "CANN " + strings.Join(versions, " and ")
}
