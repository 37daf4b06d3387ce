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
	var lines []string
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(old)) { // operators of other repositories keep their parts
		if fields := strings.Split(strings.TrimSpace(line), "\t"); len(fields) == 4 && p[fields[3]] == nil {
			lines = append(lines, line)
		}
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
			lines = append(lines, fmt.Sprintf("split\t%s\t%s\t%s\n", abi.VersionText(by[library]), library, o.Symbol))
		}
	}
	operator := func(line string) string {
		symbol := line[strings.LastIndexByte(line, '\t')+1:]
		return strings.TrimPrefix(strings.TrimPrefix(symbol, "acl"), "nn")
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(operator(a), operator(b)) })
	for _, line := range lines {
		b.WriteString(line)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
