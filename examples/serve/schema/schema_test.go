package schema_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/schema"
)

// words are tokens of one byte, and some of several, also such as end in the middle of a value or a character.
var words = func() (all [][]byte) {
	for b := range 256 {
		all = append(all, []byte{byte(b)})
	}
	for _, s := range []string{`{"`, `":`, `": `, `",`, `"}`, `"]`, `}}`, `],`, `, "`, "true", "null,", "12", "3.5e-7", `\u00`, "name", "émi", "\xe2\x82", "\xf0\x9f", `"a": [1`, `[[`, "\n", "  "} {
		all = append(all, []byte(s))
	}
	return append(all, nil) // the end of a text
}()

var end = int32(len(words) - 1)

func vocabulary() *schema.Vocabulary {
	return schema.NewVocabulary(len(words), func(id int32) []byte { return words[id] })
}

// write draws tokens among those that a grammar allows until the text is complete. wild is how often it draws any
// instead of one that brings the text nearer to its end.
func write(t *testing.T, g *schema.Grammar, rng *rand.Rand, wild float64) string {
	var b bytes.Buffer
	text := g.Begin()
	for range 3000 {
		next, err := text.Next()
		require.NoError(t, err)
		if next.Tokens == nil {
			require.True(t, next.End)
			return b.String()
		}
		var allowed, closing []int32
		for id := range words {
			if !next.Has(int32(id)) && (int32(id) != end || !next.End) {
				continue
			}
			allowed = append(allowed, int32(id))
			if int32(id) == end || strings.ContainsAny(string(words[id][:1]), `"]}0`) {
				closing = append(closing, int32(id))
			}
		}
		id := allowed[rng.IntN(len(allowed))]
		if len(closing) > 0 && rng.Float64() > wild {
			id = closing[rng.IntN(len(closing))]
		}
		if id == end {
			return b.String()
		}
		b.Write(words[id])
		text, err = text.Add(id)
		require.NoError(t, err)
	}
	t.Skip("the text did not end")
	return ""
}

var schemas = map[string]string{
	"object":    `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3}},"required":["name","tags"],"additionalProperties":false}`,
	"optional":  `{"properties":{"a":{"type":"null"},"b":{"type":"boolean"},"c":{"type":"number"}},"additionalProperties":false}`,
	"enum":      `{"enum":["red","green",3,null,{"a":[1,2]},"gr\"een é"]}`,
	"const":     `{"type":"object","properties":{"kind":{"const":"point"},"at":{"type":"array","items":{"type":"number"},"minItems":2,"maxItems":2}},"required":["kind","at"],"additionalProperties":false}`,
	"types":     `{"type":["string","null","integer"],"title":"x","description":"y"}`,
	"choice":    `{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"type":"string"}},{"type":"boolean"}]}`,
	"recursive": `{"$defs":{"tree":{"type":"object","properties":{"value":{"type":"integer"},"sub":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["value"],"additionalProperties":false}},"$ref":"#/$defs/tree"}`,
	"map":       `{"type":"object","additionalProperties":{"type":"integer"}}`,
	"any":       `{}`,
	"empty":     `{"type":"object","additionalProperties":false}`,
	"unnamed":   `{"type":"object","required":["x"]}`,
	"odd keys":  `{"type":"object","properties":{"a \"b\"\n<é>":{"type":"boolean"}},"required":["a \"b\"\n<é>"]}`,
	"itself":    `{"anyOf":[{"type":"string"},{"$ref":"#"}]}`,
	"shape":     `{"additionalProperties":false,"properties":{"filled":{"type":["boolean","null"]},"kind":{"enum":["square","circle"]},"sides":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2}},"required":["kind","sides","filled"],"type":"object"}`,
	"lists":     `{"type":"array","items":{"type":"array","maxItems":0},"minItems":2}`,
}

// TestTexts: whatever tokens are drawn among those that are allowed, the text is JSON of the schema.
func TestTexts(t *testing.T) {
	for name, s := range schemas {
		t.Run(name, func(t *testing.T) {
			parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(s))
			require.NoError(t, err)
			c := jsonschema.NewCompiler()
			require.NoError(t, c.AddResource("schema.json", parsed))
			judge, err := c.Compile("schema.json")
			require.NoError(t, err)
			g, err := vocabulary().Compile(t.Context(), []byte(s))
			require.NoError(t, err)
			different := map[string]bool{}
			for seed := range uint64(60) {
				text := write(t, g, rand.New(rand.NewPCG(seed, 1)), float64(seed%3)*.3)
				value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
				require.NoError(t, err, "%s", text)
				require.NoError(t, judge.Validate(value), "%s", text)
				different[text] = true
			}
			if name != "empty" {
				require.Greater(t, len(different), 1)
			}
		})
	}
}

// TestObject: the format without a schema takes all objects, and nothing else.
func TestObject(t *testing.T) {
	g, err := vocabulary().Object(t.Context())
	require.NoError(t, err)
	for seed := range uint64(100) {
		text := write(t, g, rand.New(rand.NewPCG(seed, 2)), .3)
		var value map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &value), "%s", text)
	}
	for _, text := range []string{`{"a":[1,-2.5e10,{"b":null}],"ü":"\ud7ff\n"}`, `{}`, `{"a": {"a": {}}, "b": true}`} {
		require.True(t, takes(t, g, text), "%s", text)
	}
	for _, text := range []string{`[`, `1`, `{a`, `{"a" `, `{"a":01`, `{"a":.`, `{"a":1.}`, `{"a":tru}`, `{,`, `{"a":1,}`, "{\"a\":\"\x01", "{\"a\":\"\xff", "{\"a\":\"\xc0\x80", "{\"a\":\"\xed\xa0\x80", `{"a":"\ud800"`, `{"a":"\x`, `{}{`, `{"a":1111111111111111`} {
		require.False(t, takes(t, g, text), "%s", text)
	}
}

// takes reports whether a text of bytes is allowed.
func takes(t *testing.T, g *schema.Grammar, s string) bool {
	text := g.Begin()
	for i := range len(s) {
		next, err := text.Next()
		require.NoError(t, err)
		if !next.Has(int32(s[i])) {
			return false
		}
		text = add(t, text, s[i:i+1])
	}
	return true
}

// add adds the bytes of a text.
func add(t testing.TB, text engine.Text, s string) engine.Text {
	for i := range len(s) {
		var err error
		text, err = text.Add(int32(s[i]))
		require.NoError(t, err)
	}
	return text
}

// TestTokens: a token is allowed if and only if its bytes are, one after another.
func TestTokens(t *testing.T) {
	for name, s := range schemas {
		t.Run(name, func(t *testing.T) {
			g, err := vocabulary().Compile(t.Context(), []byte(s))
			require.NoError(t, err)
			whole := write(t, g, rand.New(rand.NewPCG(5, 6)), .4)
			for at := range min(len(whole), 60) {
				next, err := add(t, g.Begin(), whole[:at]).Next()
				require.NoError(t, err)
				for id, w := range words[256:end] {
					require.Equal(t, takes(t, g, whole[:at]+string(w)), next.Has(int32(256+id)), "%q after %q", w, whole[:at])
				}
			}
		})
	}
}

// TestRefusals: schemas that cannot be followed are refused, and the error says where and why.
func TestRefusals(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","items":`, 100) + `{}` + strings.Repeat("}", 100)
	for text, s := range map[string]string{
		"it is not a JSON object":                `[1`,
		"#: minimum is not supported":            `{"type":"integer","minimum":3}`,
		"#/properties/a: pattern is not":         `{"type":"object","properties":{"a":{"type":"string","pattern":"x"}}}`,
		"#: it has no type":                      `{"items":{}}`,
		`#/type: there is no type "text"`:        `{"type":"text"}`,
		"#/type: it is neither":                  `{"type":{}}`,
		"#/items: it is not an object":           `{"type":"array","items":7}`,
		"#/minItems: it is not a number":         `{"type":"array","minItems":-1}`,
		"minItems is 3 and maxItems 2":           `{"type":"array","minItems":3,"maxItems":2}`,
		"#/required: it is not a list":           `{"type":"object","required":"a"}`,
		"#/properties: it is not an object":      `{"type":"object","properties":[]}`,
		"#/enum: it is not a list":               `{"enum":[]}`,
		"#/anyOf: it is not a list":              `{"anyOf":{}}`,
		"items beside anyOf":                     `{"anyOf":[{}],"items":{}}`,
		"#/$ref: there is no #/$defs/x":          `{"$ref":"#/$defs/x"}`,
		"#/$ref: only references to parts":       `{"$ref":"https://example.com/x"}`,
		"would never end":                        `{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`,
		"at most 64 are allowed":                 deep,
		"schema: a value of it would never end":  `{"$ref":"#"}`,
		"allOf":                                  `{"allOf":[{}]}`,
		"#: items is not for the types [string]": `{"type":"string","items":{}}`,
		"the list has 1001 values; at most 1000": `{"enum":[1` + strings.Repeat(",1", 1000) + `]}`,
	} {
		_, err := vocabulary().Compile(t.Context(), []byte(s))
		require.ErrorIs(t, err, schema.ErrSchema, "%s", s)
		require.ErrorContains(t, err, text)
	}
	_, err := schema.NewVocabulary(9, func(id int32) []byte { return []byte{byte(id)} }).Object(t.Context())
	require.ErrorContains(t, err, `no token for ' '`)
}

// large is a vocabulary of 150,000 tokens, as models have.
func large() *schema.Vocabulary {
	const size, letters = 150000, " etaoinshrdlu,\"{}:[]0é\n"
	rng := rand.New(rand.NewPCG(7, 8))
	all := make([][]byte, size)
	for id := range all {
		n := 1 + rng.IntN(9)
		if id < 256 {
			n, all[id] = 0, []byte{byte(id)}
		}
		for range n {
			all[id] = append(all[id], letters[rng.IntN(len(letters))])
		}
	}
	return schema.NewVocabulary(size, func(id int32) []byte { return all[id] })
}

// BenchmarkNext measures the mask of 150,000 tokens when no state was met before: within a string, and before the
// members of an object.
func BenchmarkNext(b *testing.B) {
	v := large()
	for name, start := range map[string]string{"string": `{"name":"x`, "object": `{`} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				g, err := v.Compile(b.Context(), []byte(schemas["object"]))
				require.NoError(b, err)
				_, err = add(b, g.Begin(), start).Next()
				require.NoError(b, err)
			}
		})
	}
}
