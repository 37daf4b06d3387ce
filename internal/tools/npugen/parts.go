package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/header"
)

// parts holds, by operator and release, the part of libopapi that has the operator.
type parts map[string]map[string]string

// operatorSources finds the name of the part in the path of a checkout: CANN builds a library of each repository.
var operatorSources = regexp.MustCompile(`ops-(math|nn|cv|transformer)\b`)

// add notes what a release of a checkout declares.
func (p parts) add(dir, release string, d header.Declared) {
	m := operatorSources.FindStringSubmatch(dir)
	if m == nil {
		return
	}
	for name := range d.Functions {
		symbol, ok := strings.CutSuffix(name, abi.PhaseOne)
		if !ok || !strings.HasPrefix(symbol, "acl") {
			continue
		}
		if p[symbol] == nil {
			p[symbol] = map[string]string{}
		}
		p[symbol][release] = "libopapi_" + m[1]
	}
}

// write rewrites the table of parts, if there were sources of operators. A release without sources has an operator
// where the release before it has it, or the next one if there is none before.
func (p parts) write(name string) error {
	if len(p) == 0 {
		return nil
	}
	t, err := abi.Load()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# The parts of libopapi, as the sources of CANN divide the operators since 8.5.0. Made by `npugen releases`; see parse.go for the grammar.\n\n")
	for i := range t.Operators {
		o := &t.Operators[i]
		in := p[o.Symbol]
		if len(in) == 0 || slices.Contains(o.Versions, abi.Custom) {
			continue
		}
		by, last := map[string][]string{}, ""
		known := abi.Releases()[1:]
		for _, release := range known {
			if in[release] != "" && last == "" {
				last = in[release]
			}
		}
		for _, release := range known {
			if in[release] != "" {
				last = in[release]
			}
			by[last] = append(by[last], release)
		}
		for _, library := range slices.Sorted(maps.Keys(by)) {
			fmt.Fprintf(&b, "split\t%s\t%s\t%s\n", abi.VersionText(by[library]), library, o.Symbol)
		}
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
