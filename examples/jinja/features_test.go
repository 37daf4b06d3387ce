package jinja_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/jinja"
)

// refused has the features that Jinja has and this package does not, with the name by which the error calls them.
var refused = map[string]string{
	"{{ 123456|filesizeformat }}": `filter "filesizeformat"`, "{{ 1|filesizeformat }}": `filter "filesizeformat"`, "{{ 123456789|filesizeformat(true) }}": `filter "filesizeformat"`, "{{ 0|filesizeformat }}": `filter "filesizeformat"`,
	"{{ [1,2]|pprint }}": `filter "pprint"`, "{{ 'a'|pprint }}": `filter "pprint"`,
	"{{ [1]|random }}": `filter "random"`,
	"{{ 'see https://example.org/x ok'|urlize }}":                  `filter "urlize"`,
	"{{ {'class': 'a b', 'id': none, 'x': 1, 'q': '<'}|xmlattr }}": `filter "xmlattr"`, "{{ {'a': 1}|xmlattr(false) }}": `filter "xmlattr"`, "{{ {}|xmlattr }}|": `filter "xmlattr"`,
	"{{ l|map('string') }}":                "a generator, as filters such as map and select make, has no text", // Jinja prints an address
	"{{ ('<'|e)|upper }}":                  "upper: an escaped text is not changed",
	"{{ ('<'|e) + '<' }}":                  "an escaped text + a string",
	"{{ range(5)[1:3] }}":                  "a range(0, 5) cannot be sliced",
	"{{ 'well-known words'|wordwrap(6) }}": "a text with hyphens is not wrapped",
	"{{ 99999999999999999999 }}":           "beyond the integers of 64 bits", "{{ 2 ** 64 }}": "beyond the integers of 64 bits",
	"{{ s.upper }}":                   "a function has no text",
	"{{ l.append }}|":                 "list.append",
	"{{ 'abc'.encode() is defined }}": "str.encode", "{{ 'abc'.translate({97: 'x'}) }}": "str.translate",
	"{{ (5).bit_length() }}": "int.bit_length", "{{ f.is_integer() }}": "float.is_integer", "{{ n.real }}": "int.real", "{{ n.real.__class__ }}": "int.real",
	"{% autoescape true %}{{ html }}{% endautoescape %}": "autoescape",
	"{{ lipsum(n=1, html=false)|length > 0 }}":           `"lipsum"`,
}

// TestFeatures: each feature of Jinja gives the same text, or the error of Jinja is an error here too, or the feature is refused by name. testdata/make.py
// made the texts.
func TestFeatures(t *testing.T) {
	text, err := os.ReadFile("testdata/features.json")
	require.NoError(t, err)
	var file struct {
		Vars  json.RawMessage
		Cases []struct{ Template, Text, Error string }
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.Greater(t, len(file.Cases), 600)
	left := len(refused)
	for _, c := range file.Cases {
		var got string
		template, err := jinja.Parse(c.Template)
		if err == nil {
			got, err = template.Render(vars(t, file.Vars))
		}
		name, without := refused[c.Template]
		switch {
		case without:
			left--
			require.ErrorContains(t, err, name, c.Template)
		case c.Error != "":
			require.Error(t, err, "%s gives %q, and is %s", c.Template, got, c.Error)
		default:
			require.NoError(t, err, c.Template)
			require.Equal(t, c.Text, got, c.Template)
		}
	}
	require.Zero(t, left, "features that are refused, and are not among the cases")
}
