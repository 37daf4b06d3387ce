package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/machine"
	"github.com/goascend/cann/internal/emu/nn"
)

func main() {
	t, err := abi.Load()
	if err == nil {
		err = write(os.Stdout, t, nn.Implemented(), machine.Implemented())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

// row is one line of the report: a group with the number and names of what is implemented.
type row struct {
	total int
	names []string
}

func write(out io.Writer, t *abi.Table, operators, functions []string) error {
	families, libraries := map[string]*row{}, map[string]*row{}
	for _, o := range t.Operators {
		_, have := slices.BinarySearch(operators, o.Name)
		count(families, string(o.Family()), o.Name, have)
	}
	for _, f := range t.Functions {
		_, have := slices.BinarySearch(functions, f.Name)
		count(libraries, f.Library, f.Name, have)
	}
	w := bufio.NewWriter(out)
	table(w, "Operators", "family", families)
	fmt.Fprintln(w)
	table(w, "Functions", "library", libraries)
	return w.Flush()
}

func count(rows map[string]*row, group, name string, have bool) {
	r := rows[group]
	if r == nil {
		r = new(row)
		rows[group] = r
	}
	r.total++
	if have {
		r.names = append(r.names, name)
	}
}

func table(w io.Writer, title, group string, rows map[string]*row) {
	total, have := 0, 0
	for _, r := range rows {
		total, have = total+r.total, have+len(r.names)
	}
	fmt.Fprintf(w, "%s: %d of %d\n\n| %s | implemented | of | names |\n|---|---|---|---|\n", title, have, total, group)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		fmt.Fprintf(w, "| %s | %d | %d | %s |\n", name, len(r.names), r.total, strings.Join(r.names, " "))
	}
}
