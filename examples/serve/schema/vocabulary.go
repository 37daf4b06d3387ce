package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/goascend/cann/examples/budget"
)

// Vocabulary is the tokens of a model. It is safe for concurrent use.
type Vocabulary struct {
	size  int
	bytes [][]byte // by token; nil for those that stand for no text
	all   []int32  // tokens in the order of their bytes
	// plain are tokens of whole characters that can stand in a string as they are; others are the rest.
	plain  mask
	others []int32
}

// longestToken is the length of tokens that a text can have, in bytes. Nothing needs longer ones.
const longestToken = 256

// NewVocabulary reads what tokens stand for; bytes returns nothing for those that stand for no text, such as the
// end of a text.
func NewVocabulary(size int, bytesOf func(id int32) []byte) *Vocabulary {
	v := &Vocabulary{size: size, bytes: make([][]byte, size), plain: make(mask, (size+63)/64)}
	for id := range int32(size) {
		if b := bytesOf(id); len(b) > 0 && len(b) <= longestToken {
			v.bytes[id] = b
			v.all = append(v.all, id)
		}
	}
	slices.SortFunc(v.all, func(a, b int32) int { return bytes.Compare(v.bytes[a], v.bytes[b]) })
	for _, id := range v.all {
		if plain(v.bytes[id]) {
			v.plain.set(id)
		} else {
			v.others = append(v.others, id)
		}
	}
	return v
}

// plain reports whether a string goes on as before after some bytes.
func plain(text []byte) bool {
	state := between
	for _, b := range text {
		next, ended, ok := inString(state, b)
		if ended || !ok || next == escaped {
			return false
		}
		state = next
	}
	return state == between
}

// Compile makes the grammar of a schema for the texts of one request, whose context ends the work for it. The error matches
// ErrSchema, and also budget.ErrLimit if the schema is too large or makes too much work.
func (v *Vocabulary) Compile(ctx context.Context, schema []byte) (*Grammar, error) {
	if err := budget.Size("the schema", len(schema), mostBytes, "bytes"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	c := newCompiler(ctx)
	if json.Unmarshal(schema, &c.root) != nil || c.root == nil {
		return nil, fmt.Errorf("%w: it is not a JSON object", ErrSchema)
	}
	root, err := c.compile(schema, &path{name: "#"})
	if err != nil {
		return nil, err
	}
	return v.grammar(ctx, c, root)
}

// Object is the grammar of all objects of JSON. Context and errors are as those of Compile.
func (v *Vocabulary) Object(ctx context.Context) (*Grammar, error) {
	c := newCompiler(ctx)
	root := c.node()
	root.types, root.values = []string{object}, c.anything()
	root.keys(nil)
	return v.grammar(ctx, c, root)
}

func (v *Vocabulary) grammar(ctx context.Context, c *compiler, root *node) (*Grammar, error) {
	if err := c.finish(root); err != nil {
		return nil, err
	}
	for b := byte(' '); b < 0x7f; b++ { // with these there is always a token that goes on
		at := sort.Search(len(v.all), func(i int) bool { return bytes.Compare(v.bytes[v.all[i]], []byte{b}) >= 0 })
		if at == len(v.all) || len(v.bytes[v.all[at]]) != 1 || v.bytes[v.all[at]][0] != b {
			return nil, fmt.Errorf("%w: the model has no token for %q, so that it cannot write JSON", ErrSchema, b)
		}
	}
	return &Grammar{v: v, root: root, budget: budget.New(ctx, "following the schema", textSteps), known: map[uint64]*state{}}, nil
}

// walk marks the tokens, of a list in the order of their bytes that begin alike, after which some stacks go on.
func (v *Vocabulary) walk(r *reader, list []int32, depth int, stacks []*part, m mask) {
	for len(list) > 0 && len(v.bytes[list[0]]) == depth {
		m.set(list[0])
		list = list[1:]
	}
	for len(list) > 0 && r.err == nil {
		b := v.bytes[list[0]][depth]
		same := sort.Search(len(list), func(i int) bool { return v.bytes[list[i]][depth] > b })
		if next := r.all(stacks, b, nil); len(next) > 0 {
			v.walk(r, list[:same], depth+1, next, m)
		}
		list = list[same:]
	}
}
