package golden

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goascend/cann/internal/dtype"
)

// Case is one recorded call of an operator: its options, by name and type, and its tensors.
type Case struct {
	Op    string
	Name  string
	DType dtype.Type // of the inputs; Float32 when the case does not say
	Tensors
	options map[string]json.RawMessage
}

var caseTypes = map[string]dtype.Type{
	"": dtype.Float32, "f32": dtype.Float32, "f16": dtype.Float16, "bf16": dtype.BFloat16, "f64": dtype.Float64,
}

// Cases lists the cases of an operator, bound to t. If there is none the test fails, or is
// skipped when CANN_GOLDEN_DIR names another set.
func Cases(t testing.TB, op string) []*Case {
	t.Helper()
	dir := mustDir(t)
	text, err := os.ReadFile(filepath.Join(dir, casesFile))
	all, err := parseCases(need(t, text, err))
	tensors := openTensors(t, filepath.Join(dir, strings.TrimSuffix(casesFile, ".json")+".safetensors"))
	var cases []*Case
	for _, c := range need(t, all, err) {
		if c.Op == op {
			c.Tensors = tensors.Sub(c.Name)
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		none(t, fmt.Sprintf("no case of operator %q", op))
	}
	return cases
}

func parseCases(text []byte) ([]*Case, error) {
	var heads []struct {
		Op    string `json:"op"`
		Case  string `json:"case"`
		DType string `json:"dtype"`
	}
	var options []map[string]json.RawMessage
	for _, list := range []any{&heads, &options} {
		if err := json.Unmarshal(text, list); err != nil {
			return nil, fmt.Errorf("%s: %w", casesFile, err)
		}
	}
	var cases []*Case
	seen := map[string]bool{}
	for i, head := range heads {
		typ, known := caseTypes[head.DType]
		switch {
		case head.Op == "" || head.Case == "":
			return nil, fmt.Errorf("%s: record %d needs op and case", casesFile, i)
		case seen[head.Case]:
			return nil, fmt.Errorf("%s: case %q is there twice", casesFile, head.Case)
		case !known:
			return nil, fmt.Errorf("%s: case %q: unknown dtype %q", casesFile, head.Case, head.DType)
		}
		seen[head.Case] = true
		cases = append(cases, &Case{Op: head.Op, Name: head.Case, DType: typ, options: options[i]})
	}
	return cases, nil
}

// Run runs f as a subtest with the case's name; the case that f gets is bound to that subtest.
func (c *Case) Run(t *testing.T, f func(t *testing.T, c *Case)) {
	t.Helper()
	t.Run(c.Name, func(t *testing.T) {
		bound := *c
		bound.Tensors = c.In(t)
		f(t, &bound)
	})
}

// Has reports whether the case has an option, null excluded.
func (c *Case) Has(name string) bool {
	raw, ok := c.options[name]
	return ok && string(raw) != "null"
}

// Int is an option that must be an integer. It, and each method after it, fails the test when
// the option is missing or has another type.
func (c *Case) Int(name string) int {
	c.t.Helper()
	return must[int](c, name)
}

// Float is an option that must be a number.
func (c *Case) Float(name string) float64 {
	c.t.Helper()
	return must[float64](c, name)
}

// Bool is an option that must be true or false.
func (c *Case) Bool(name string) bool {
	c.t.Helper()
	return must[bool](c, name)
}

// Text is an option that must be a string.
func (c *Case) Text(name string) string {
	c.t.Helper()
	return must[string](c, name)
}

// Ints is an option that must be a list of integers.
func (c *Case) Ints(name string) []int {
	c.t.Helper()
	return must[[]int](c, name)
}

// Floats is an option that must be a list of numbers.
func (c *Case) Floats(name string) []float64 {
	c.t.Helper()
	return must[[]float64](c, name)
}

func must[T any](c *Case, name string) (value T) {
	c.t.Helper()
	if !c.Has(name) {
		c.t.Fatalf("golden: case %q has no option %q", c.Name, name)
	}
	if err := json.Unmarshal(c.options[name], &value); err != nil {
		c.t.Fatalf("golden: case %q: option %q is %s: %v", c.Name, name, c.options[name], err)
	}
	return value
}
