// Package expression has the regular expressions of Python's re module, with which configurations of models choose layers.
//
//	set := expression.New("rank_pattern")
//	ok, err := set.Whole(`model(?=\.).*\.q_proj`, "model.layers.0.self_attn.q_proj")
//
// Such expressions may look around, so that a search can take exponential time. A set bounds the work of all of a configuration's
// expressions together, with errors that match budget.ErrLimit.
package expression

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/goascend/cann/examples/budget"
)

const (
	// mostExpressions bounds the expressions of a set, longest the bytes of one expression, and mostBytes the bytes of all expressions.
	mostExpressions, longest, mostBytes = 10_000, 10_000, 1 << 20
	// mostSteps bounds the steps of all searches, and slowest the time of one search.
	mostSteps, slowest = 8_000_000, 500 * time.Millisecond
	// plainMatches comparisons with a plain name count as one step.
	plainMatches = 3
)

// Set is the expressions of a configuration. It is safe for concurrent use.
type Set struct {
	work     *budget.Budget
	mu       sync.Mutex
	compiled map[string]*regexp2.Regexp
	bytes    int
	plain    int // comparisons so far
}

// New returns an empty set. Its errors name the expressions by what.
func New(what string) *Set {
	return &Set{work: budget.New(context.Background(), "the search with the expressions of "+what, mostSteps), compiled: map[string]*regexp2.Regexp{}}
}

// Step counts n comparisons of a name with a list's own names, which are no expressions.
func (s *Set) Step(n int) error { return s.work.Step(n / plainMatches) }

// Begins reports whether an expression matches where a name begins.
func (s *Set) Begins(pattern, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok, sure := begins(pattern, name); sure {
		if s.plain++; s.plain%plainMatches > 0 {
			return ok, nil
		}
		return ok, s.work.Step(0)
	}
	return s.match(`\A(?:`+pattern+`)`, name)
}

// Whole reports whether an expression matches a whole name.
func (s *Set) Whole(pattern, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.match(`\A(?:`+pattern+`)\z`, name)
}

// Ends reports whether an expression matches a whole name, or what stands behind one of its dots.
func (s *Set) Ends(pattern, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.match(`\A(?:.*\.)?(?:`+pattern+`)\z`, name)
}

// begins compares a name with a pattern of letters, digits, underscores and dots, of which each matches any character.
// It is not sure of others.
func begins(pattern, name string) (ok, sure bool) {
	ok = len(pattern) <= len(name)
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '.':
			if ok && (name[i] == '\n' || name[i] >= 0x80) {
				return false, false
			}
		case c == '_', '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			ok = ok && c == name[i]
		default:
			return false, false
		}
	}
	return ok, true
}

// python translates the notation of Python's expressions to that of .NET's, which the library reads.
var python = strings.NewReplacer(`\\`, `\\`, `(?P<`, `(?<`, `\Z`, `\z`)

// match searches for an expression in a name, and compiles it at first.
func (s *Set) match(pattern, name string) (found bool, err error) {
	re := s.compiled[pattern]
	if re == nil {
		s.bytes += len(pattern)
		for _, bound := range []struct {
			what    string
			n, most int
			unit    string
		}{{"an expression", len(pattern), longest, "bytes"}, {"the list", len(s.compiled) + 1, mostExpressions, "expressions"}, {"the list of expressions", s.bytes, mostBytes, "bytes"}} {
			if err := budget.Size(bound.what, bound.n, bound.most, bound.unit); err != nil {
				return false, err
			}
		}
	}
	var searched error
	err = s.work.Timed(func() {
		if re == nil {
			if re, searched = regexp2.Compile(python.Replace(pattern), regexp2.None); searched != nil {
				return
			}
			re.MatchTimeout = slowest
			s.compiled[pattern] = re
		}
		if found, searched = re.MatchString(name); searched != nil {
			searched = fmt.Errorf("%w: the expression %.200q takes longer than %v with %.200q", budget.ErrTime, pattern, slowest, name)
		}
	})
	if searched != nil {
		err = searched
	}
	return found && err == nil, err
}
