package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/chips"
)

// difference holds how two chips differ.
type difference struct {
	Chips   [2]chips.Chip `json:"chips"`
	Known   int           `json:"operators"` // whose sources are public; of the others nothing is known
	Missing [2][]string   `json:"missing"`   // operators that the chip lacks and the other has
	Types   []typeChange  `json:"types"`
}

// typeChange is a tensor of which the chips take different element types.
type typeChange struct {
	Operator string      `json:"operator"`
	Tensor   string      `json:"tensor"`
	Only     [2][]string `json:"only"` // types that only one chip takes
}

// differ compares two chips, named with a comma between them.
func differ(names string) (d difference, err error) {
	list := strings.Split(names, ",")
	if len(list) != 2 {
		return d, fmt.Errorf("-diff takes two chips with a comma between them; known are %v", chips.Names())
	}
	for i, name := range list {
		if d.Chips[i], err = chips.Named(strings.TrimSpace(name)); err != nil {
			return d, fmt.Errorf("-diff: %w", err)
		}
	}
	for _, name := range chips.Operators() {
		a, _ := d.Chips[0].Operator(name)
		b, _ := d.Chips[1].Operator(name)
		d.Known++
		switch {
		case a.Missing && b.Missing:
		case a.Missing:
			d.Missing[0] = append(d.Missing[0], name)
		case b.Missing:
			d.Missing[1] = append(d.Missing[1], name)
		default:
			d.Types = append(d.Types, changes(name, a.Types, b.Types)...)
		}
	}
	return d, nil
}

// changes compares the element types of an operator's tensors that the rules of both chips limit.
func changes(operator string, a, b map[string][]aclnn.DType) (all []typeChange) {
	for _, tensor := range sorted(a) {
		if b[tensor] == nil {
			continue
		}
		c := typeChange{Operator: operator, Tensor: tensor, Only: [2][]string{without(a[tensor], b[tensor]), without(b[tensor], a[tensor])}}
		if len(c.Only[0])+len(c.Only[1]) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// without names the types of a that b lacks.
func without(a, b []aclnn.DType) (names []string) {
	for _, t := range a {
		if !slices.Contains(b, t) {
			names = append(names, t.String())
		}
	}
	return names
}

// writeDifference prints how two chips differ.
func writeDifference(w io.Writer, o options) error {
	d, err := differ(o.diff)
	if err != nil {
		return err
	}
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	_, err = io.WriteString(w, d.String())
	return err
}

func (d *difference) String() string {
	var b strings.Builder
	line := func(what string, of func(c chips.Chip) string) {
		fmt.Fprintf(&b, "%-22s %-16s %s\n", what, of(d.Chips[0]), of(d.Chips[1]))
	}
	count := func(n int) string { return fmt.Sprint(n) }
	truth := func(yes bool) string {
		if yes {
			return "yes"
		}
		return "no"
	}
	line("", func(c chips.Chip) string { return c.Name })
	line("cube cores", func(c chips.Chip) string { return count(c.CubeCores) })
	line("vector cores", func(c chips.Chip) string { return count(c.VectorCores) })
	line("clock", func(c chips.Chip) string { return fmt.Sprintf("%d MHz", c.Megahertz) })
	line("Unified Buffer", func(c chips.Chip) string { return fmt.Sprintf("%d KiB", c.UnifiedBuffer>>10) })
	line("L2", func(c chips.Chip) string { return fmt.Sprintf("%d MiB", c.L2>>20) })
	line("memory", func(c chips.Chip) string { return fmt.Sprintf("%.1f GiB", float64(c.Memory)/(1<<30)) })
	line("bfloat16", func(c chips.Chip) string { return truth(c.BFloat16) })
	line("waits across devices", func(c chips.Chip) string { return truth(c.WaitsAcross) })
	fmt.Fprintf(&b, "\nof %d operators whose sources are public:\n", d.Known)
	for i, c := range d.Chips {
		if len(d.Missing[i]) > 0 {
			fmt.Fprintf(&b, "%d are not on %s: %s\n", len(d.Missing[i]), c.Name, strings.Join(d.Missing[i], " "))
		}
	}
	operators := map[string]bool{}
	for _, c := range d.Types {
		operators[c.Operator] = true
	}
	fmt.Fprintf(&b, "%d take other element types\n", len(operators))
	for _, t := range d.Types {
		fmt.Fprintf(&b, "    %s %s:", t.Operator, t.Tensor)
		for i, c := range d.Chips {
			if len(t.Only[i]) > 0 {
				fmt.Fprintf(&b, " only %s %s;", c.Name, strings.Join(t.Only[i], " "))
			}
		}
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), ";\n", "\n")
}
