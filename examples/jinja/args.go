package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// args are the values of a call.
type args struct {
	values []any
	named  map[string]any
	order  []string // of the names
}

// one gives the single value that a call must have.
func (a args) one() (any, error) {
	if len(a.values) != 1 || len(a.named) > 0 {
		return nil, fmt.Errorf("takes one argument, not %d", len(a.values)+len(a.named))
	}
	return a.values[0], nil
}

// bind orders the values by the names of a function's parameters. A name that ends with ? may be missing; its value is absent then.
func (a args) bind(parameters ...string) ([]any, error) {
	if len(a.values) > len(parameters) {
		return nil, fmt.Errorf("takes at most %d arguments, not %d", len(parameters), len(a.values))
	}
	out := make([]any, len(parameters))
	used := 0
	for i, p := range parameters {
		id, optional := strings.CutSuffix(p, "?")
		value, named := a.named[id]
		switch {
		case i < len(a.values):
			value = a.values[i]
		case named:
			used++
		case optional:
			value = absent{}
		default:
			return nil, fmt.Errorf("argument %q is missing", id)
		}
		out[i] = value
	}
	if used < len(a.named) {
		for key := range a.named {
			if !slices.Contains(parameters, key) && !slices.Contains(parameters, key+"?") {
				return nil, fmt.Errorf("there is no argument %q", key)
			}
		}
		return nil, fmt.Errorf("an argument is given twice")
	}
	return out, nil
}

// absent is the value of an optional argument that was not given.
type absent struct{}

// or gives a default for an absent argument.
func or(value, otherwise any) any {
	if _, ok := value.(absent); ok {
		return otherwise
	}
	return value
}

func asText(value any) (string, error) {
	s, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("needs a string, not %s", describe(value))
	}
	return s, nil
}

func asInt(value any) (int, error) {
	_, i, whole, ok := numeric(value)
	if !ok || !whole {
		return 0, fmt.Errorf("needs an integer, not %s", describe(value))
	}
	return i, nil
}
