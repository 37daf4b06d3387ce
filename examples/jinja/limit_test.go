package jinja_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/budget/budgettest"
	"github.com/goascend/cann/examples/jinja"
)

// TestEndless: templates of strangers that would run for ever, or fill the memory, end with an error.
func TestEndless(t *testing.T) {
	for name, source := range map[string]string{
		"nested loops":             "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
		"recursion":                "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"doubling":                 "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
		"doubling by ~":            "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
		"lists":                    "{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor %}",
		"replace":                  "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = n.s.replace('a', 'aaaaaaaa') %}{% endfor %}",
		"product":                  "{{ 'xx' * 900000000 }}",
		"much of one":              "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{{ s }}{% endfor %}",
		"list of texts":            "{% set s = 'x' * 9000000 %}{{ [s] * 99999 }}",
		"JSON of texts":            "{% set s = 'x' * 9000000 %}{{ ([s] * 99999) | tojson }}",
		"equality of shared lists": "{% set n = namespace(a=[0], b=[0]) %}{% for i in range(60) %}{% set n.a=[n.a,n.a] %}{% set n.b=[n.b,n.b] %}{% endfor %}{{ n.a == n.b }}",
		"order of shared lists":    "{% set n = namespace(a=[0], b=[0]) %}{% for i in range(60) %}{% set n.a=[n.a,n.a] %}{% set n.b=[n.b,n.b] %}{% endfor %}{{ n.a < n.b }}",
		"search in shared lists":   "{% set n = namespace(a=[0], b=[0]) %}{% for i in range(60) %}{% set n.a=[n.a,n.a] %}{% set n.b=[n.b,n.b] %}{% endfor %}{{ n.a in [n.b] }}{{ [n.a, n.b] | unique }}",
		"print of shared lists":    "{% set n = namespace(a=[0]) %}{% for i in range(60) %}{% set n.a=[n.a,n.a] %}{% endfor %}{% for i in range(99999) %}{% if n.a is lower %}{% endif %}{% endfor %}",
		"first character":          "{% set s = 'x' * 16000000 %}{% for i in range(99999) %}{% if s[-1] == 'y' %}{% endif %}{% endfor %}",
		"length of a text":         "{% set s = 'x' * 16000000 %}{% for i in range(99999) %}{% if s | length == 3 %}{% endif %}{% endfor %}",
		"search in a text":         "{% set s = 'x' * 16000000 %}{% for i in range(99999) %}{% if 'y' in s %}{% endif %}{% endfor %}",
		"method of a text":         "{% set s = 'x' * 16000000 %}{% for i in range(99999) %}{% if s.startswith('y') or s.find('y') > 0 %}{% endif %}{% endfor %}",
		"characters of a text":     "{{ ('x' * 16000000) | list | length }}",
		"loop over a text":         "{% for c in 'x' * 16000000 %}{% endfor %}",
		"parts of a text":          "{{ ('x' * 16000000).split('x') | length }}",
		"words of a text":          "{{ ('x ' * 8000000).split() | length }}",
		"lines of a text":          "{{ ('\\n' * 16000000) | indent(1000, true, true) | length }}",
		"filters of shared texts":  "{% set s = 'x' * 16000000 %}{{ ([s] * 99999) | map('upper') | list | length }}",
		"tests of shared texts":    "{% set s = 'x' * 16000000 %}{{ ([s] * 99999) | select('lower') | list | length }}",
		"sum of lists":             "{{ ([[1] * 1000] * 99999) | sum(start=[]) | length }}",
		"assignments":              "{% for a in range(99999) %}" + strings.Repeat("{% set x = 1 %}", 500) + "{% endfor %}",
		"conditions":               "{% for a in range(99999) %}{{ " + strings.Repeat("a and ", 1500) + "a }}{% endfor %}",
		"wide indent of JSON":      "{{ " + strings.Repeat("[", 90) + strings.Repeat("]", 90) + " | tojson(indent='x' * 16000000) }}",
		"strip of many":            "{% set s = 'x' * 16000000 %}{% set t = 'y' * 10000000 ~ 'x' %}{{ s.strip(t) }}",
		"arguments":                "{% macro f() %}{{ varargs | length }}{% endmacro %}{% set l = range(99999) | list %}{% for i in l %}{{ f(*l) }}{% endfor %}",
		"named arguments":          "{% macro f() %}{{ kwargs | length }}{% endmacro %}{% set d = dict([['a', 1]] * 99999) %}{% for i in range(99999) %}{% for k in range(99) %}{{ f(**d) }}{% endfor %}{% endfor %}",
		"wide field":               "{{ '%999999999s' % 'a' }}",
		"wide format":              "{{ '{:999999999}'.format('a') }}",
		"wide text":                "{{ 'a'.center(999999999) }}",
		"batch":                    "{% for i in range(99999) %}{{ [1] | batch(900000, 'x') | list | length }}{% endfor %}",
		"slice":                    "{% for i in range(99999) %}{{ [1] | slice(900000, 'x') | list | length }}{% endfor %}",
		"wrap of a word":           "{% for i in range(99) %}{{ ('x' * 900000) | wordwrap(1) | length }}{% endfor %}",
		"tags":                     "{% set s = '<' * 16000000 %}{% for i in range(99) %}{{ s | striptags | length }}{% endfor %}",
		"title":                    "{% set s = '-a' * 8000000 %}{% for i in range(99) %}{{ s | title | length }}{% endfor %}",
		"groups":                   "{% for i in range(99999) %}{{ range(99999) | groupby(0, default=1) | length }}{% endfor %}",
		"large keys":               "{% set n = namespace(t=(1, 2)) %}{% for i in range(99) %}{% set n.t = (n.t, n.t) %}{% endfor %}{{ {n.t: 1} }}",
		"join":                     "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = [n.s, n.s] | join %}{% endfor %}",
	} {
		t.Run(name, func(t *testing.T) {
			budgettest.Bounded(t, func() {
				template, err := jinja.Parse(source)
				require.NoError(t, err)
				_, err = template.Render(nil)
				require.ErrorIs(t, err, budget.ErrLimit)
			})
		})
	}
}

// TestLargeTemplates: neither a large template nor long chains in it end the process.
func TestLargeTemplates(t *testing.T) {
	for name, source := range map[string]string{
		"bytes":       strings.Repeat("x", 1<<20+1),
		"indices":     "{{ x" + strings.Repeat("[0]", 300_000) + " }}",
		"attributes":  "{{ x" + strings.Repeat(".a", 300_000) + " }}",
		"calls":       "{{ x" + strings.Repeat("()", 300_000) + " }}",
		"filters":     "{{ x" + strings.Repeat("|d", 300_000) + " }}",
		"tests":       "{{ x" + strings.Repeat(" is odd", 100_000) + " }}",
		"sums":        "{{ x" + strings.Repeat("+x", 300_000) + " }}",
		"words":       "{{ x" + strings.Repeat(" or x", 200_000) + " }}",
		"nested ones": "{{ " + strings.Repeat("(", 60) + "x" + strings.Repeat(strings.Repeat("+x", 100)+")", 60) + " }}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := jinja.Parse(source)
			require.ErrorIs(t, err, budget.ErrLimit)
		})
	}
	_, err := jinja.Parse("{{ x" + strings.Repeat("+x", 1000) + " }}{{ [" + strings.Repeat("x,", 100_000) + "] }}")
	require.NoError(t, err)
}

// costly are templates that are refused, or end, within their bounds; those that say so print a text.
var costly = map[string]struct{ source, want string }{
	"a text, item by item":         {"{% set s = 'x' * 1000000 %}{% for i in range(99999) %}{% for c in s %}{% break %}{% endfor %}{% endfor %}", limit},
	"keys, one by one":             {"{% set d = {" + manyOf(80_000, "'%d': 1") + "} %}{% for i in range(99999) %}{% for c in d %}{% break %}{% endfor %}{% endfor %}", limit},
	"copies of a dictionary":       {"{% set d = {" + manyOf(80_000, "'%d': 1") + "} %}{% for i in range(99999) %}{% set x = namespace(d) %}{% endfor %}", limit},
	"copies that are kept":         {"{% set d = {" + manyOf(80_000, "'%d': 1") + "} %}{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% set n.l = n.l + [dict(d)] %}{% endfor %}", limit},
	"dictionaries that are kept":   {"{% set n = namespace(l=0) %}{% for i in range(99999) %}{% for j in range(10) %}{% set n.l = {'a': n.l} %}{% endfor %}{% endfor %}", limit},
	"namespaces that are kept":     {"{% set n = namespace(l=0) %}{% for i in range(99999) %}{% for j in range(10) %}{% set n.l = namespace(a=n.l) %}{% endfor %}{% endfor %}", limit},
	"one key many times":           {"{% for i in range(99999) %}{% set x = {" + strings.Repeat("'a': 1,", 100_000) + "} %}{% endfor %}", limit},
	"a long key":                   {"{% set s = 'x' * 16000000 %}{% for i in range(99999) %}{% set x = {s: 1} %}{% endfor %}", limit},
	"a long key in many":           {"{% set s = 'x' * 16000000 %}{% set d = {" + manyOf(20, "'%d': 1") + "} %}{% for i in range(99999) %}{% set x = d[s] %}{% endfor %}", limit},
	"a long attribute":             {"{% set s = '0' * 16000000 %}{{ ([{'a': 1}] * 1000000) | map(attribute=s, default={}) | list | length }}", limit},
	"loops with many names":        {"{% set l = [0] * 9999 %}{% for " + manyOf(9999, "a%d") + " in [l] * 99999 %}{% endfor %}", limit},
	"sets of many names":           {"{% set l = [0] * 9999 %}{% for i in range(99999) %}{% set " + manyOf(9999, "a%d") + " = l %}{% endfor %}", limit},
	"many parameters":              {"{% macro m(" + manyOf(20_000, "a%d") + ") %}{% endmacro %}{% for i in range(99999) %}{{ m() }}{% endfor %}", limit},
	"many arguments":               {"{% for i in range(99999) %}{{ loop.cycle(" + strings.Repeat("1,", 100_000) + ") }}{% endfor %}", limit},
	"many named arguments":         {"{% for i in range(99999) %}{% set x = dict(" + manyOf(50_000, "a%d=1") + ") %}{% endfor %}", limit},
	"an argument many times":       {"{% for i in range(99999) %}{% set x = namespace(" + strings.Repeat("a=1,", 200_000) + ") %}{% endfor %}", "is given twice"},
	"many conditions":              {"{% for i in range(99999) %}{% if x %}" + strings.Repeat("{% elif x %}", 80_000) + "{% endif %}{% endfor %}", limit},
	"constant conditions":          {"{% for i in range(99999) %}{% if 0 %}" + strings.Repeat("{% elif 0 %}", 80_000) + "{% endif %}{% endfor %}", limit},
	"many scopes":                  {strings.Repeat("{% for x in [1] %}", 150) + "{% for i in range(99999) %}" + strings.Repeat("{{ zz }}", 50_000) + strings.Repeat("{% endfor %}", 151), limit},
	"a list in many scopes":        {strings.Repeat("{% for x in [1] %}", 150) + "{% for i in range(99999) %}{% set x = [" + strings.Repeat("zz,", 100_000) + "] %}" + strings.Repeat("{% endfor %}", 151), limit},
	"texts that are sorted":        {"{% set s = 'Xx' * 2000000 %}{{ ([s] * 500) | sort | length }}", limit},
	"the largest text":             {"{% set s = 'Xx' * 2000000 %}{{ ([s] * 500) | max | length }}", limit},
	"texts that are the same":      {"{% set s = 'Xx' * 2000000 %}{{ ([s] * 100000) | unique | length }}", limit},
	"JSON of control characters":   {"{{ ('\\x01' * 16000000) | tojson }}", limit},
	"control characters in a list": {"{{ ['\\x01' * 16000000] }}", limit},
	"digits of numbers":            {"{% for i in range(99999) %}" + strings.Repeat("{{ 1.5 | round(300) }}", 100) + "{% endfor %}", limit},
	"texts in JSON's separators":   {"{{ ([1] * 1000000) | tojson(separators=['x' * 16000000, '']) }}", limit},
	"a long tuple as a key":        {"{% set l = (1,) * 90000 %}{% for i in range(99999) %}{% set x = {l: 1} %}{% endfor %}", limit},
	"a tuple in tuples as a key":   {"{% set n = namespace(t=(1, 2)) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% endfor %}{{ {n.t: 1} | length }}", limit},
	"a tuple that is looked for":   {"{% set n = namespace(t=(1, 2)) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% endfor %}{{ {}[n.t] }}{{ n.t in {1: 2} }}", limit},
	"slices":                       {"{% set s = 'ab' * 1000000 %}{% for i in range(99999) %}{% set x = s[:1] %}{% endfor %}", limit},
	"a chain of filters":           {"{% set s = 'ab' * 1000000 %}{{ s" + strings.Repeat("|upper|lower", 900) + "|length }}", limit},
	"a chain of replacements":      {"{% set s = 'ab' * 1000000 %}{{ s" + strings.Repeat(".replace('a', 'ab').replace('b', 'a')", 900) + "|length }}", limit},
	"blocks of filters":            {"{% for i in range(99999) %}{% filter upper %}" + strings.Repeat("x", 100_000) + "{% endfilter %}{% endfor %}", limit},
	"loops in recursive loops":     {"{% for i in range(100) recursive %}{{ loop(range(100)) }}{% endfor %}", limit},
	"calls that double":            {"{% macro f(n) %}{% if n > 0 %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(190) }}", limit},
	"a raw block without an end":   {"{% raw %}" + strings.Repeat("{%", 500_000), "does not end"},
	"a raw block with a late end":  {"{% raw %}" + strings.Repeat("{%", 500_000) + "%}", "does not end"},
	"texts side by side":           {"{{ " + strings.Repeat("'aa'", 250_000) + " }}", ""},
	"braces":                       {strings.Repeat("{", 1_000_000), "does not end"},
	"many calls":                   {"{{ [" + strings.Repeat("range(0),", 100_000) + "] | length }}", ""},
	"many dictionaries":            {"{{ [" + strings.Repeat("{},", 200_000) + "] | length }}", ""},
	"comments":                     {strings.Repeat("{##}", 260_000), ""},
	"a long name":                  {"{{ " + strings.Repeat("é", 500_000) + " }}", limit},
}

const limit = "over the limit"

// manyOf writes a format with the numbers up to n, between commas.
func manyOf(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+",", i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestCostlyTemplates: whatever a template asks for, it is refused, or rendered, in bounded time and memory.
func TestCostlyTemplates(t *testing.T) {
	for name, c := range costly {
		t.Run(name, func(t *testing.T) {
			budgettest.Bounded(t, func() {
				template, err := jinja.Parse(c.source)
				if err == nil {
					_, err = template.Render(nil)
				}
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.want)
				require.Less(t, len(err.Error()), 10_000)
			})
		})
	}
}

// TestDeepValues: values that a template nests as deeply as it likes do not end the process.
func TestDeepValues(t *testing.T) {
	deep := "{% set n = namespace(l=[], k=[]) %}{% for i in range(99999) %}{% set n.l = [n.l] %}{% set n.k = [n.k] %}{% endfor %}"
	for _, use := range []string{"{{ n.l }}", "{{ n.l == n.k }}", "{{ n.l < n.k }}", "{{ n.l | tojson }}", "{{ [n.l, n.k] | sort }}", "{{ n.l | string | length }}"} {
		template, err := jinja.Parse(deep + use)
		require.NoError(t, err)
		_, _ = template.Render(nil)
	}
}

// FuzzRender: whatever a template says, it renders or is refused, and never panics.
func FuzzRender(f *testing.F) {
	text, err := os.ReadFile("testdata/jinja.json")
	require.NoError(f, err)
	var file struct {
		Vars  json.RawMessage
		Cases []struct{ Template string }
	}
	require.NoError(f, json.Unmarshal(text, &file))
	for _, c := range file.Cases {
		f.Add(c.Template)
	}
	all := vars(f, file.Vars)
	f.Fuzz(func(t *testing.T, source string) {
		budgettest.Timely(t, func() {
			if template, err := jinja.Parse(source); err == nil {
				_, _ = template.Render(all)
			}
		})
	})
}
