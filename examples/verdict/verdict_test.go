package verdict_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/verdict"
)

var table = verdict.Table{Format: "x.json", Keys: append([]verdict.Key{
	verdict.Honour("size", "how large"),
	verdict.Refuse("bias", "there is none", "false", `[1, 2.0]`),
	verdict.Warn("top", "flags say it", "1"),
	verdict.Honour("scaling.factor", "how long"),
}, verdict.Each("maker version", verdict.NoEffect("", "who wrote it"))...)}

func TestDecode(t *testing.T) {
	var v struct{ Size int }
	warnings, err := table.Decode([]byte(`{"size":7,"bias":[1.0,2],"top":1.0,"scaling":{"factor":2},"maker":{"any":[{}]},"version":null}`), &v)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, 7, v.Size)
	warnings, err = table.Decode([]byte(`{"top":0.5,"nobody":null,"scaling":null}`))
	require.NoError(t, err)
	require.Equal(t, []string{"x.json: top is 0.5: flags say it"}, warnings)
	soft := table
	soft.Unknown = verdict.Warned
	warnings, err = soft.Decode([]byte(`{"new":{"a":  "b"}}`))
	require.NoError(t, err)
	require.Equal(t, []string{`x.json: new is {"a":"b"}: this key is not known`}, warnings)
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`{"bias":true}`:                            "x.json: bias is true: there is none",
		`{"Size":7}`:                               "x.json: Size is 7: this key is not known",
		`{"scaling":{"factor":2,"why":1}}`:         "x.json: scaling.why is 1: this key is not known",
		`{"scaling":[{"why":1}]}`:                  "x.json: scaling[].why is 1: this key is not known",
		`{"scaling":[{},{"factor":1,"factor":2}]}`: `element 1 of scaling: an object has the key "scaling[].factor" twice`,
		`{"scaling":[null,[{"factor":1}]]}`:        "element 1 of scaling: it is no JSON object",
		`{"size":1,"Size":null}`:                   "Size is null: this key is not known, and differs from size only in its case",
		`{"ſize":null}`:                            "ſize is null: this key is not known, and differs from size only in its case",
		`{"Scaling":{"factor":2}}`:                 `Scaling is {"factor":2}: this key is not known, and differs from scaling only in its case`,
		`{"scaling":{"Factor":null}}`:              "scaling.Factor is null: this key is not known, and differs from scaling.factor only in its case",
		`{"scaling":"yarn"}`:                       `x.json: scaling is "yarn"`,
		`{"size":1,"size":2}`:                      `the key "size" twice`,
		`{"size":1}}`:                              "after the object",
		`[]`:                                       "JSON array",
		`7`:                                        "no JSON object",
		"version https://git-lfs.github.com/spec/v1\n": "Git LFS",
		"<!DOCTYPE html>": "HTML",
		`{"size":"a"}`:    "x.json: json: cannot unmarshal",
		`{"size":`:        "x.json",
		`{"size":` + strings.Repeat("1", 5000) + `}`:              "size is a number of 5000 characters",
		`{"maker":1` + strings.Repeat(`,"version":1`, 2) + `}`:    "twice",
		`{"maker":{},"scaling":{"factor":2` + many(20_000) + `}}`: "the file has 20001 keys; at most 20000",
		``: "x.json",
	} {
		var v struct{ Size int }
		_, err := table.Decode([]byte(text), &v)
		require.ErrorContains(t, err, want, text)
	}
	_, err := table.Decode([]byte(`{"bias":1,"odd":2}`))
	require.ErrorContains(t, err, "bias is 1")
	require.ErrorContains(t, err, "odd is 2")
	var r *verdict.Refusal
	require.True(t, errors.As(err, &r))
	require.Equal(t, &verdict.Refusal{Format: "x.json", Key: "bias", Value: "1", Why: "there is none"}, r)
}

// many are n members of an object that ask for nothing.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":null`, i)
	}
	return b.String()
}

// TestFold compares the twins of a key with what encoding/json reads in its place.
func TestFold(t *testing.T) {
	soft := verdict.Table{Format: "x.json", Unknown: verdict.Warned, Keys: []verdict.Key{verdict.Honour("key_s", "a number")}}
	for _, key := range []string{"Key_s", "KEY_S", "\u212aey_s", "key_\u017f", "kéy_s", "key_s ", "key-s", "keys", "key_\u00df"} {
		var v struct {
			Key int `json:"key_s"`
		}
		text := []byte(`{"` + key + `":1}`)
		require.NoError(t, json.Unmarshal(text, &v))
		_, err := soft.Check(text)
		require.Equal(t, v.Key == 1, err != nil, "%s: %v", key, err)
	}
}

// BenchmarkUnknown checks a line with a key that nobody knows, with the maps of a table made before and anew.
func BenchmarkUnknown(b *testing.B) {
	many := verdict.Table{Format: "x.json", Unknown: verdict.Warned}
	for i := range 45 {
		many.Keys = append(many.Keys, verdict.Honour(fmt.Sprintf("key_%d", i), "a number"))
	}
	index := many.Index()
	text := []byte(`{"key_1":"some text","key_2":"some more","id":7}`)
	for name, check := range map[string]func([]byte) ([]*verdict.Refusal, error){"table": many.Check, "index": func(text []byte) ([]*verdict.Refusal, error) { return index.CheckIn("", text) }} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if left, err := check(text); err != nil || len(left) != 1 {
					b.Fatal(left, err)
				}
			}
		})
	}
}

func TestMarkdown(t *testing.T) {
	require.Equal(t, "| x.json | verdict | meaning or reason |\n|---|---|---|\n| `a` | refused, except `false` | b \\| c |\n| any other | refused | |\n",
		verdict.Table{Format: "x.json", Keys: []verdict.Key{verdict.Refuse("a", "b | c", "false")}}.Markdown())
}
