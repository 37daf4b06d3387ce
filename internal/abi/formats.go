package abi

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// AnyRank stands for all numbers of dimensions in a FormatRule.
const AnyRank = -1

// FormatRule is which storage formats an operator demands of its tensors.
type FormatRule struct {
	Params []string         // tensors that are checked
	Also   []string         // tensors that are described likewise, but that CANN does not check
	Ranks  map[int][]string // formats by the number of dimensions, or AnyRank, the usual one first; other ranks are free
	Same   bool             // all of them must have one format
	Blind  bool             // the operator treats all dimensions alike
	Source Page
}

// Format returns the usual format of a parameter with the given number of dimensions, or "".
func (r *FormatRule) Format(param string, rank int) string {
	if r == nil || !slices.Contains(r.Params, param) && !slices.Contains(r.Also, param) || len(r.Ranks[rank]) == 0 {
		return ""
	}
	return r.Ranks[rank][0]
}

// Formats holds the rules of operators.
type Formats struct {
	operators map[string]*FormatRule
}

// Of returns the rule of an operator, by its name without prefix, or nil if it has none.
func (f *Formats) Of(operator string) *FormatRule {
	if f == nil {
		return nil
	}
	return f.operators[operator]
}

// Operators returns the names of the operators with rules, sorted.
func (f *Formats) Operators() []string {
	names := make([]string, 0, len(f.operators))
	for name := range f.operators {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

//go:embed table/formats/formats.txt
var formatsText string

// LoadFormats parses the embedded rules. It fails only when they are invalid.
func LoadFormats() (*Formats, error) { return parseFormats(formatsText) }

// parseFormats reads lines of fields that tabs separate:
//
//	repository  OWNER/NAME  COMMIT
//	format      OPERATOR  PARAM,PARAM,~PARAM…  RANK:FORMAT|FORMAT RANK:…  KIND  OWNER/NAME  PATH
//
// A parameter after a tilde is not checked. The rank * is any. The kind is empty, "same" for equal
// formats, or "any" for equal formats of an operator that treats all dimensions alike.
func parseFormats(text string) (*Formats, error) {
	commits, all := map[string]string{}, &Formats{operators: map[string]*FormatRule{}}
	for i, line := range strings.Split(text, "\n") {
		f := strings.Split(line, "\t")
		switch {
		case line == "" || line[0] == '#':
		case f[0] == "repository" && len(f) == 3:
			commits[f[1]] = f[2]
		case f[0] == "format" && len(f) == 7 && commits[f[5]] != "" && (f[4] == "" || f[4] == "same" || f[4] == "any"):
			r := &FormatRule{Ranks: map[int][]string{}, Same: f[4] != "", Blind: f[4] == "any", Source: Page{f[5], commits[f[5]], f[6]}}
			for _, p := range strings.Split(f[2], ",") {
				if also, ok := strings.CutPrefix(p, "~"); ok {
					r.Also = append(r.Also, also)
				} else {
					r.Params = append(r.Params, p)
				}
			}
			for _, rank := range strings.Fields(f[3]) {
				n, list, _ := strings.Cut(rank, ":")
				dims, err := strconv.Atoi(n)
				if n == "*" {
					dims, err = AnyRank, nil
				}
				if err != nil || list == "" {
					return nil, fmt.Errorf("formats.txt:%d: cannot parse %q", i+1, rank)
				}
				r.Ranks[dims] = strings.Split(list, "|")
			}
			all.operators[f[1]] = r
		default:
			return nil, fmt.Errorf("formats.txt:%d: cannot parse %q", i+1, line)
		}
	}
	return all, nil
}
