package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/budget/budgettest"
	"github.com/goascend/cann/examples/serve/schema"
)

// joined is a list of n parts.
func joined(n int, part func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = part(i)
	}
	return strings.Join(all, ",")
}

// chain is n definitions, of which each refers to the next, and the last is a null.
func chain(n int) string {
	return `{"$ref":"#/$defs/0","$defs":{` + joined(n, func(i int) string {
		if i == n-1 {
			return fmt.Sprintf(`"%d":{"type":"null"}`, i)
		}
		return fmt.Sprintf(`"%d":{"$ref":"#/$defs/%d"}`, i, i+1)
	}) + `}}`
}

// costly are schemas that ask for much work; those that say so are refused.
var costly = map[string]struct {
	schema  string
	refused string
}{
	"9000 optional members": {`{"type":"array","minItems":20,"items":{"type":"object","additionalProperties":false,"properties":{` +
		joined(9000, func(i int) string { return fmt.Sprintf(`"member%d":{}`, i) }) + `}}}`, ""},
	"members that are mostly over": {`{"type":"object","additionalProperties":false,"properties":{` +
		joined(9000, func(i int) string { return fmt.Sprintf(`"%c%d":{}`, 'a'+i%2, i) }) + `}}`, ""},
	"members, all required": {`{"type":"object","properties":{` + joined(5000, func(i int) string { return fmt.Sprintf(`"m%d":{}`, i) }) +
		`},"required":[` + joined(5000, func(i int) string { return fmt.Sprintf(`"m%d"`, i) }) + `]}`, ""},
	"an enum of 1000 texts": {`{"enum":[` + joined(1000, func(i int) string { return fmt.Sprintf(`"%s%d"`, strings.Repeat("e", i), i) }) + `]}`, ""},
	"a const of a megabyte": {`{"const":"` + strings.Repeat("e", 1<<20-100) + `"}`, ""},
	"a union of objects": {`{"anyOf":[` + joined(50, func(i int) string {
		return fmt.Sprintf(`{"type":"object","properties":{"name":{"type":"string"},"m%d":{}},"required":["name","m%d"]}`, i, i)
	}) + `]}`, ""},
	"nested consts":            {`{"const":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, ""},
	"ambiguous arrays":         {`{"anyOf":[` + joined(200, func(int) string { return `{"type":"array","items":{"$ref":"#"},"minItems":1}` }) + `,{"type":"null"}]}`, ""},
	"ambiguous objects":        {`{"anyOf":[` + joined(200, func(int) string { return `{"type":"object","additionalProperties":{"$ref":"#"}}` }) + `]}`, ""},
	"choices of choices":       {strings.Repeat(`{"anyOf":[{"type":"null"},`, 31) + `{"type":"string"}` + strings.Repeat(`]}`, 31), ""},
	"a chain":                  {chain(1000), ""},
	"a large minItems":         {`{"type":"array","minItems":9223372036854775807}`, ""},
	"a cycle":                  {`{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#"}]}}}`, "never end"},
	"more than a megabyte":     {`{"const":"` + strings.Repeat("e", 1<<20) + `"}`, "1048588 bytes"},
	"300 choices":              {`{"anyOf":[` + joined(300, func(int) string { return `{"type":"object"}` }) + `]}`, "300 choices"},
	"choices many times":       {`{"$defs":{"a":{"anyOf":[` + joined(4000, func(int) string { return `{"$ref":"#/$defs/x"}` }) + `]},"x":{"type":"null"}},"anyOf":[` + joined(5000, func(int) string { return `{"$ref":"#/$defs/a"}` }) + `]}`, "4000000 steps"},
	"a long chain":             {chain(9000), "4000000 steps"},
	"a deep reference":         {`{"$ref":"#` + strings.Repeat("/a", 500_000) + `"}`, "500000 names"},
	"a deep document":          {strings.Repeat(`{"properties":{"a":`, 4000) + `{}` + strings.Repeat(`}}`, 4000), "at most 64"},
	"levels that are long":     {strings.Repeat(`{"type":"array","items":`, 60) + `{"const":"` + strings.Repeat("e", 1<<20-2000) + `"}` + strings.Repeat(`}`, 60), "4000000 steps"},
	"long names":               {`{"properties":{"` + strings.Repeat("n", 1<<19) + `":{"anyOf":[` + joined(9000, func(int) string { return `{"type":"x"}` }) + `]}}}`, "no type"},
	"too many types":           {`{"type":[` + joined(100_000, func(int) string { return `"null"` }) + `]}`, "100000 types"},
	"beyond the limit of JSON": {strings.Repeat(`[`, 100_000), "not a JSON object"},
}

// TestCostlySchemas: whatever a schema asks for, it is refused, or its texts go on, or end with an error of the budget, all in bounded time
// and memory.
func TestCostlySchemas(t *testing.T) {
	v := large()
	for name, c := range costly {
		t.Run(name, func(t *testing.T) {
			budgettest.Bounded(t, func() {
				g, err := v.Compile(t.Context(), []byte(c.schema))
				if c.refused != "" {
					require.ErrorIs(t, err, schema.ErrSchema)
					require.ErrorContains(t, err, c.refused)
					require.Less(t, len(err.Error()), 1000)
					return
				}
				require.NoError(t, err)
				rng := rand.New(rand.NewPCG(1, 2))
				text, written := g.Begin(), 0
				for ; written < 60; written++ {
					next, err := text.Next()
					if err != nil {
						require.ErrorIs(t, err, budget.ErrLimit)
						break
					}
					if next.Tokens == nil {
						break
					}
					id := int32(rng.IntN(150000))
					for !next.Has(id) {
						id = (id + 1) % 150000
					}
					if text, err = text.Add(id); err != nil {
						require.ErrorIs(t, err, budget.ErrLimit)
						break
					}
				}
				t.Logf("%d tokens", written)
			})
		})
	}
}

// TestEndOfRequest: the work for a schema ends with the request that it is for.
func TestEndOfRequest(t *testing.T) {
	gone := errors.New("the client has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	v := large()
	g, err := v.Compile(ctx, []byte(costly["ambiguous objects"].schema))
	require.NoError(t, err)
	cancel(gone)
	_, err = g.Begin().Next()
	require.ErrorIs(t, err, gone)
	_, err = v.Compile(ctx, []byte(costly["a long chain"].schema))
	require.ErrorIs(t, err, gone)
}

// TestNesting: texts stay flat enough for their stacks to be small.
func TestNesting(t *testing.T) {
	g, err := vocabulary().Compile(t.Context(), []byte(`{}`))
	require.NoError(t, err)
	require.True(t, takes(t, g, strings.Repeat("[", 256)))
	require.False(t, takes(t, g, strings.Repeat("[", 257)))
	require.True(t, takes(t, g, strings.Repeat("[", 255)+`{"a":1}`+strings.Repeat("]", 255)))
}

// FuzzSchema: a schema is refused, or its texts are JSON.
func FuzzSchema(f *testing.F) {
	for _, s := range schemas {
		f.Add([]byte(s), uint64(1))
	}
	for _, c := range costly {
		if len(c.schema) < 1000 {
			f.Add([]byte(c.schema), uint64(2))
		}
	}
	v := vocabulary()
	f.Fuzz(func(t *testing.T, s []byte, seed uint64) {
		g, err := v.Compile(t.Context(), s)
		if err != nil {
			require.ErrorIs(t, err, schema.ErrSchema)
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		var written []byte
		for text := g.Begin(); len(written) < 1000; {
			next, err := text.Next()
			if err != nil {
				require.ErrorIs(t, err, budget.ErrLimit)
				return
			}
			if next.Tokens == nil {
				require.True(t, json.Valid(written), "%s", written)
				return
			}
			var allowed []int32
			for id := range words {
				if next.Has(int32(id)) {
					allowed = append(allowed, int32(id))
				}
			}
			if len(allowed) == 0 {
				return // deeper than texts go
			}
			id := allowed[rng.IntN(len(allowed))]
			written = append(written, words[id]...)
			if text, err = text.Add(id); err != nil {
				require.ErrorIs(t, err, budget.ErrLimit)
				return
			}
		}
	})
}
