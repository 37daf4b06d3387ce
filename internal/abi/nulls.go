package abi

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed nulls.txt
var nullsText string

// nullRule holds the code that a C function returns for null pointers, and which of its parameters it checks.
type nullRule struct {
	code       int64
	parameters []string
}

var nullRules = sync.OnceValue(func() map[string]nullRule {
	rules := make(map[string]nullRule)
	for line := range strings.Lines(nullsText) {
		if fields := strings.Fields(line); fields[0] != "#" {
			code, _ := strconv.ParseInt(fields[0], 10, 64) // tested
			rules[fields[1]] = nullRule{code, fields[2:]}
		}
	}
	return rules
})

// NullCode returns the code with which the entrance of a C function refuses a parameter that is null,
// before it looks at another one. The code is 0 if the entrance passes null on, to a layer that may refuse it.
// known is false for a function of which nothing is known.
func NullCode(function, parameter string) (code int64, known bool) {
	rule, known := nullRules()[function]
	if !slices.Contains(rule.parameters, parameter) {
		return 0, known
	}
	return rule.code, true
}
