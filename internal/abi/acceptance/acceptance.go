package acceptance

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

//go:embed *.txt
var tables embed.FS

// Repositories are the sources of the tables.
var Repositories = []string{"ops-math", "ops-nn", "ops-cv"}

// Chip is a group of chips that CANN's sources distinguish.
type Chip byte

// The groups by their letter in the tables.
const (
	Ascend910    Chip = 'a'
	Ascend910B   Chip = 'b'
	Ascend910_93 Chip = 'c'
	Ascend310P   Chip = 'p'
	Ascend950    Chip = 'n'
)

// ChipOf returns the group of a chip by the name that aclrtGetSocName returns, or 0 if it belongs to none.
func ChipOf(name string) Chip {
	for _, p := range []struct {
		prefix string
		chip   Chip
	}{{"Ascend910B", Ascend910B}, {"Ascend910_93", Ascend910_93}, {"Ascend950", Ascend950}, {"Ascend910_95", Ascend950}, {"Ascend310P", Ascend310P}, {"Ascend910", Ascend910}} {
		if strings.HasPrefix(name, p.prefix) {
			return p.chip
		}
	}
	return 0
}

// String returns the name of the group.
func (c Chip) String() string {
	return map[Chip]string{Ascend910: "Ascend910", Ascend910B: "Ascend910B", Ascend910_93: "Ascend910_93", Ascend310P: "Ascend310P", Ascend950: "Ascend950"}[c]
}

// Codes of rules that accept calls for which CANN starts no kernel. Vacuous is for operators of whose
// earlier refusals the rules do not have all: an operator's own checks count, except of emptiness.
const (
	Idle    = 1
	Vacuous = 2
)

// Rule is a condition of the arguments and the code with which phase one answers under it. Codes 0,
// Idle and Vacuous end the checks: the call is accepted.
type Rule struct {
	Code int32
	Cond *Node
}

// Node is an operation on other nodes, a constant or an argument.
type Node struct {
	Op    Op
	Value Value  // of a constant
	Name  string // of an argument or a constant, or a text
	Index int    // of a loop variable; free for the reader to number arguments
	Set   uint64 // of In: the element types or formats as bits, when all are constants from 0 to 63
	Args  []*Node
}

// Source is where the rules of an operator come from.
type Source struct {
	Repository, Commit string
	Lost               int // refusals of the source that the rules do not have, or only in part
}

// entry is the text of an operator's rules.
type entry struct {
	source Source
	lines  string
}

var index = sync.OnceValue(func() map[string]entry {
	all := map[string]entry{}
	for _, r := range Repositories {
		b, err := tables.ReadFile(r + ".txt")
		if err != nil {
			panic(err)
		}
		for name, e := range split(r, string(b)) {
			all[name] = e
		}
	}
	return all
})

// lacking maps operators to the letters of the chips that have no kernel of them.
var lacking = sync.OnceValue(func() map[string]string {
	text, err := tables.ReadFile("products.txt")
	if err != nil {
		panic(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		names := strings.Fields(line)
		if len(names) == 0 || names[0] == "#" {
			continue
		}
		for _, name := range names[1:] {
			all[name] = names[0]
		}
	}
	return all
})

// Lacks reports whether a chip has no kernel of an operator, so that phase one refuses what its checks
// accept. The operators' public pages and the definitions of kernels are the source; of an operator with
// neither nothing is known, and it lacks nowhere.
func Lacks(operator string, chip Chip) bool {
	return strings.IndexByte(lacking()[operator], byte(chip)) >= 0
}

// split divides a table into the texts of its operators. The first line holds the commit.
func split(repository, text string) map[string]entry {
	out := map[string]entry{}
	head, rest, _ := strings.Cut(text, "\n")
	commit := strings.TrimPrefix(head, "# ")
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		rest = after
		name, lost, _ := strings.Cut(line, " ")
		if name == "" || name == "#" {
			continue
		}
		end := 0
		for end < len(rest) && rest[end] == ' ' {
			n := strings.IndexByte(rest[end:], '\n')
			if n < 0 {
				end = len(rest)
				break
			}
			end += n + 1
		}
		n, _ := strconv.Atoi(lost)
		out[name] = entry{Source{repository, commit, n}, rest[:end]}
		rest = rest[end:]
	}
	return out
}

// Operators returns the number of operators in the tables.
func Operators() int { return len(index()) }

// SourceOf returns the source of an operator's rules. ok is false for an operator whose sources are
// not public.
func SourceOf(operator string) (s Source, ok bool) {
	e, ok := index()[operator]
	return e.source, ok
}

// Rules returns the rules of an operator on a chip, in CANN's order. It returns none for an
// operator that the tables do not have.
func Rules(operator string, chip Chip) ([]Rule, error) {
	var out []Rule
	var chips, code string
	for line := range strings.SplitSeq(index()[operator].lines, "\n") {
		cond, same := strings.CutPrefix(line, "  ")
		if !same {
			chips, cond, _ = strings.Cut(strings.TrimPrefix(line, " "), " ")
			code, cond, _ = strings.Cut(cond, " ")
		}
		if cond == "" || strings.IndexByte(chips, byte(chip)) < 0 {
			continue
		}
		n, err := strconv.ParseInt(code, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("rules of %s: %q: %w", operator, line, err)
		}
		node, err := Parse(cond)
		if err != nil {
			return nil, fmt.Errorf("rules of %s: %q: %w", operator, line, err)
		}
		out = append(out, Rule{int32(n), node})
	}
	return out, nil
}
