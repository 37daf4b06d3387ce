// Package schema computes which tokens may come next in a text that must be JSON of a schema.
//
//	words := schema.NewVocabulary(size, bytes)           // bytes gives what a token stands for
//	g, err := words.Compile(ctx, []byte(`{"type":"object",…}`)) // or words.Object(ctx): any JSON object
//	text := g.Begin()
//	next, err := text.Next()      // which tokens may come, and whether the text may end
//	text, err := text.Add(token)  // a text does not change; this is the longer one
//
// A text has one space at most after each comma and colon, and the members of an object in the order of the
// schema. Numbers have at most 15 digits. Keywords that the package does not follow are refused: a text must not
// break a rule that its reader relies on.
package schema
