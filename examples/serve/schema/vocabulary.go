package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
)

// Vocabulary is the tokens of a model. It is safe for concurrent use.
type Vocabulary struct {
	size  int
	bytes [][]byte // by token; nil for those that stand for no text
	all   []int32  // tokens in the order of their bytes
	// plain are tokens of whole characters that can stand in a string as they are; others are the rest.
	plain, others []int32
}

// NewVocabulary reads what tokens stand for; bytes returns nothing for those that stand for no text, such as the
// end of a text.
func NewVocabulary(size int, bytesOf func(id int32) []byte) *Vocabulary {
	v := &Vocabulary{size: size, bytes: make([][]byte, size)}
	for id := range int32(size) {
		if b := bytesOf(id); len(b) > 0 {
			v.bytes[id] = b
			v.all = append(v.all, id)
		}
	}
	slices.SortFunc(v.all, func(a, b int32) int { return bytes.Compare(v.bytes[a], v.bytes[b]) })
	for _, id := range v.all {
		if plain(v.bytes[id]) {
			v.plain = append(v.plain, id)
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

// Compile makes the grammar of a schema. The error matches ErrSchema.
func (v *Vocabulary) Compile(schema []byte) (*Grammar, error) {
	c := &compiler{known: map[string]*node{}}
	if err := json.Unmarshal(schema, &c.root); err != nil {
		return nil, fmt.Errorf("%w: it is not a JSON object", ErrSchema)
	}
	root, err := c.compile(schema, "#")
	if err != nil {
		return nil, err
	}
	return v.grammar(c, root)
}

// Object is the grammar of all objects of JSON.
func (v *Vocabulary) Object() (*Grammar, error) {
	c := &compiler{}
	root := c.node()
	root.types, root.values = []string{object}, c.anything()
	return v.grammar(c, root)
}

func (v *Vocabulary) grammar(c *compiler, root *node) (*Grammar, error) {
	if err := c.finish(root); err != nil {
		return nil, err
	}
	for b := byte(' '); b < 0x7f; b++ { // with these there is always a token that goes on
		at := sort.Search(len(v.all), func(i int) bool { return bytes.Compare(v.bytes[v.all[i]], []byte{b}) >= 0 })
		if at == len(v.all) || len(v.bytes[v.all[at]]) != 1 || v.bytes[v.all[at]][0] != b {
			return nil, fmt.Errorf("%w: the model has no token for %q, so that it cannot write JSON", ErrSchema, b)
		}
	}
	return &Grammar{v: v, root: root, masks: map[string]mask{}}, nil
}

// walk marks the tokens, of a list in the order of their bytes that begin alike, after which some stacks go on.
func (v *Vocabulary) walk(list []int32, depth int, stacks []*part, m mask) {
	for len(list) > 0 && len(v.bytes[list[0]]) == depth {
		m.set(list[0])
		list = list[1:]
	}
	var next []*part
	for len(list) > 0 {
		b := v.bytes[list[0]][depth]
		same := sort.Search(len(list), func(i int) bool { return v.bytes[list[i]][depth] > b })
		if next = read(stacks, b, next[:0]); len(next) > 0 {
			v.walk(list[:same], depth+1, slices.Clone(next), m)
		}
		list = list[same:]
	}
}

// read appends what is left of some stacks after a byte.
func read(stacks []*part, b byte, out []*part) []*part {
	for _, p := range stacks {
		out = p.read(b, out)
	}
	return distinct(out)
}
