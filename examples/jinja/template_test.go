package jinja_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/jinja"
)

// vars makes the variables of a JSON object.
func vars(t testing.TB, text []byte) jinja.Vars {
	t.Helper()
	value, err := jinja.FromJSON(text)
	require.NoError(t, err)
	d := value.(*jinja.Dict)
	out := jinja.Vars{}
	for _, key := range d.Keys() {
		out[key], _ = d.Get(key)
	}
	return out
}

// TestAgreesWithJinja compares with what Jinja itself made of each template.
func TestAgreesWithJinja(t *testing.T) {
	text, err := os.ReadFile("testdata/jinja.json")
	require.NoError(t, err)
	var file struct {
		Vars  json.RawMessage
		Cases []struct{ Template, Text string }
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Cases)
	for _, c := range file.Cases {
		template, err := jinja.Parse(c.Template)
		require.NoError(t, err, c.Template)
		got, err := template.Render(vars(t, file.Vars))
		require.NoError(t, err, c.Template)
		require.Equal(t, c.Text, got, c.Template)
	}
}

func TestSyntaxErrors(t *testing.T) {
	for source, want := range map[string]string{
		"{{ x":                         "line 1: a tag does not end with }}",
		"a\n\n{% if x %}":              "line 3: found the end of the template where endif belongs",
		"{% endif %}":                  "found endif",
		"{{ 'abc }}":                   "a string does not end",
		"{# never":                     "a comment does not end",
		"{% raw %}x":                   "does not end",
		"{{ x | shout }}":              `there is no filter "shout"`,
		"{{ x is odder }}":             `there is no test "odder"`,
		"{% include 'a' %}":            "found include",
		"{% import 'a' as b %}":        "found import",
		"{% extends 'a' %}":            "found extends",
		"{{ x y }}":                    "found y",
		"{{ a[] }}":                    "an index is missing",
		"{{ ? }}":                      `unexpected '?'`,
		"{% set a, b %}x{% endset %}":  `found %} where "=" belongs`,
		"{% for x of y %}{% endfor %}": `found of where "in" belongs`,
		"{{ \"\\u12\" }}":              "escape",
		"{{ " + strings.Repeat("(", 500) + "x" + strings.Repeat(")", 500) + " }}": "nested deeper",
		"{{ " + strings.Repeat("not ", 500) + "x }}":                              "nested deeper",
		strings.Repeat("{% if x %}", 500) + strings.Repeat("{% endif %}", 500):    "nested deeper",
		"\xff": "not UTF-8",
	} {
		_, err := jinja.Parse(source)
		require.ErrorContains(t, err, want, source)
	}
}

func TestRenderingErrors(t *testing.T) {
	for source, want := range map[string]string{
		"{{ missing.field }}":                         `line 1: "missing", which is undefined, has no attribute "field"`,
		"\n{{ 1 + 'a' }}":                             "line 2: a number + a string is not defined",
		"{{ 1 // 0 }}":                                "1 // 0",
		"{{ 'a' < 1 }}":                               "have no order",
		"{{ nothing() }}":                             "cannot be called",
		"{% for x in 5 %}{% endfor %}":                "a number cannot be iterated over",
		"{% for a, b in [1] %}{% endfor %}":           "cannot be iterated over",
		"{% for a, b in [[1]] %}{% endfor %}":         "1 values for 2 names",
		"{{ 'a'.split('') }}":                         "empty string",
		"{{ 'a'.join([1]) }}":                         "needs a string",
		"{{ range(200000) }}":                         "range of more than",
		"{{ range(1, 2, 0) }}":                        "steps by 0",
		"{{ [1][::0] }}":                              "steps by 0",
		"{% set x = 1 %}{% set x.a = 2 %}":            "x is not a namespace",
		"{{ 'a' | tojson(width=3) }}":                 `there is no argument "width"`,
		"{{ range | tojson }}":                        "a function has no JSON",
		"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}": "macro m takes 1 arguments, not 2",
		"{{ d.update({'a': 1}) }}":                    "dict.update is not supported",
		"{{ strftime_now('%Q') }}":                    "strftime knows no %Q",
	} {
		template, err := jinja.Parse(source)
		require.NoError(t, err, source)
		text, err := template.Render(jinja.Vars{"d": new(jinja.Dict)})
		require.ErrorContains(t, err, want, source)
		require.Empty(t, text)
	}
}

func TestRaise(t *testing.T) {
	template, err := jinja.Parse("{% if not messages %}{{ raise_exception('no ' ~ 'messages') }}{% endif %}")
	require.NoError(t, err)
	_, err = template.Render(nil)
	var raised *jinja.Raised
	require.ErrorAs(t, err, &raised)
	require.Equal(t, "no messages", raised.Message)
}

// TestIntegers: results beyond 64 bits are refused, where Python's integers go on.
func TestIntegers(t *testing.T) {
	for _, source := range []string{
		"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}", "{{ 9223372036854775807 * 2 }}", "{{ 2 ** 63 }}", "{{ 10 ** 400000000 }}",
		"{{ 1e300 | int }}", "{{ '1e300' | int }}", "{{ (-9223372036854775807 - 1) | abs }}", "{{ (-9223372036854775807 - 1) // -1 }}", "{{ -(-9223372036854775807 - 1) }}",
	} {
		template, err := jinja.Parse(source)
		require.NoError(t, err, source)
		_, err = template.Render(nil)
		require.ErrorContains(t, err, "64 bits", source)
	}
	for source, want := range map[string]string{
		"{{ 2 ** 62 }} {{ (-2) ** 63 }} {{ 1 ** 400000000 }} {{ (-1) ** 400000001 }} {{ 0 ** 99 }}":                                                                    "4611686018427387904 -9223372036854775808 1 -1 0",
		"{{ 7 // -1 }} {{ 7 % -1 }} {{ -7 | abs }} {{ 'a b' | wordcount }} {{ 'äbc'[1:] }} {{ 'äbc'[-1] }} {{ 'äbc' | last }} {{ 'äbc'[::-1] }} {{ 'äbc' | reverse }}": "-7 0 7 2 bc c c cbä cbä",
	} {
		template, err := jinja.Parse(source)
		require.NoError(t, err, source)
		text, err := template.Render(nil)
		require.NoError(t, err, source)
		require.Equal(t, want, text)
	}
}

func TestClock(t *testing.T) {
	template, err := jinja.Parse("{{ strftime_now('%d %B %Y, %-d.%-m. %H:%M 100%%') }}")
	require.NoError(t, err)
	template.Now = func() time.Time { return time.Date(2026, 3, 7, 9, 5, 0, 0, time.UTC) }
	text, err := template.Render(nil)
	require.NoError(t, err)
	require.Equal(t, "07 March 2026, 7.3. 09:05 100%", text)
}

func TestValues(t *testing.T) {
	value, err := jinja.From(map[string]any{"b": []float64{1, 2.5}, "a": nil})
	require.NoError(t, err)
	template, err := jinja.Parse("{{ v }} {{ v | tojson }}")
	require.NoError(t, err)
	text, err := template.Render(jinja.Vars{"v": value})
	require.NoError(t, err)
	require.Equal(t, `{'a': None, 'b': [1, 2.5]} {"a": null, "b": [1, 2.5]}`, text)
	for _, broken := range []string{"", "{", "[1] 2", strings.Repeat("[", 1000)} {
		_, err := jinja.FromJSON([]byte(broken))
		require.Error(t, err, broken)
	}
	_, err = jinja.From(make(chan int))
	require.Error(t, err)
}
