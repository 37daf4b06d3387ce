// Package expression has the regular expressions of Python's re module, with which configurations of models choose layers.
//
//	e, err := expression.Compile(`model(?=\.).*\.q_proj`)
//	ok, err := e.Match("model.layers.0.self_attn.q_proj") // anywhere in the name; \A binds it to the begin
package expression

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// Expression is a regular expression. It may look around, so that a match may take long: it is given up after a second.
type Expression struct{ re *regexp2.Regexp }

// python translates the notation of Python's expressions to that of .NET's, which the library reads.
var python = strings.NewReplacer(`\\`, `\\`, `(?P<`, `(?<`, `\Z`, `\z`)

// Compile reads an expression.
func Compile(pattern string) (*Expression, error) {
	re, err := regexp2.Compile(python.Replace(pattern), regexp2.None)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = time.Second
	return &Expression{re}, nil
}

// Match reports whether a name has a match.
func (e *Expression) Match(name string) (bool, error) {
	ok, err := e.re.MatchString(name)
	if err != nil {
		err = fmt.Errorf("the expression %q takes longer than a second with %q", e.re, name)
	}
	return ok, err
}
