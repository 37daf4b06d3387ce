// Package schema computes which tokens may come next in a text that must be JSON of a schema.
//
//	words := schema.NewVocabulary(size, bytes)           // bytes gives what a token stands for
//	g, err := words.Compile([]byte(`{"type":"object",…}`)) // or words.Object(): any JSON object
//	text := g.Begin()
//	some := text.Allow(logits, ends)                      // others become −∞
//	complete := text.Add(token)
//
// A text has one space at most after each comma and colon, and the members of an object in the order of the
// schema. Numbers have at most 15 digits. Keywords that the package does not follow are refused: a text must not
// break a rule that its reader relies on.
package schema
