package main

import (
	"fmt"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/abi/binding"
	"github.com/goascend/cann/internal/tools/npugen/docs"
)

const module = "github.com/goascend/cann"

// emitBindings generates one file of typed functions per family of operators.
func emitBindings(out files, t *abi.Table) error {
	byFamily := map[abi.Family][]abi.Operator{}
	for _, o := range t.Operators {
		byFamily[o.Family()] = append(byFamily[o.Family()], o)
	}
	formats, err := abi.LoadFormats()
	if err != nil {
		return err
	}
	enums, err := abi.LoadEnumerations(t)
	if err != nil {
		return err
	}
	if err := emitEnumerations(out, enums); err != nil {
		return err
	}
	docs, err := docs.Load(t)
	if err != nil {
		return err
	}
	types, err := loadElementTypes()
	if err != nil {
		return err
	}
	for family, ops := range byFamily {
		src, err := described(docs, types, binding.Package{Name: "aclnn", Tool: "npugen", Enums: enums, Formats: formats}).File(ops)
		if err != nil {
			return fmt.Errorf("family %s: %w", family, err)
		}
		out["aclnn/zz_"+string(family)+".go"] = src
	}
	return nil
}

// described adds to a package what the documentation and the emulator's tests know of the table's operators: the
// chips that lack an operator, and the element types that the emulator computes.
func described(known *docs.Table, types elementTypes, p binding.Package) binding.Package {
	p.Summary = func(o abi.Operator) string { return known.Of(o.Name).Summary }
	p.Sentences = func(o abi.Operator) (text []string) {
		if chips := lacking(o.Name); len(chips) > 0 {
			text = append(text, "Not on "+strings.Join(chips, ", ")+".")
		}
		return append(text, types.sentence(o))
	}
	p.Facts = func(o abi.Operator, param abi.Param) (facts []string) {
		of := known.Of(o.Name)
		if shape := of.Shapes[param.Name]; shape != "" {
			facts = append(facts, dimensions(shape, binding.FieldNames(o)))
		}
		if values := of.Values[param.Name]; values != "" {
			facts = append(facts, values)
		}
		return facts
	}
	return p
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
