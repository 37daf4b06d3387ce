package schema

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/examples/budget"
)

// ErrSchema is the error of schemas that are wrong, or use keywords that the package does not follow.
var ErrSchema = errors.New("schema")

// node is a schema that values follow: one of some others, one of some texts, or a value of some types.
type node struct {
	any    []*node
	leaves []*node // those in any, and in theirs, that are no choices
	texts  *words  // nil for none
	types  []string
	// Of objects: members in their order, and their keys as JSON with a colon; or values of members with any name, nil for none.
	members []member
	names   *words
	next    []int // from each member on, the next one that is required; the number of members if there is none
	values  *node
	// Of arrays: most is negative if there is no bound.
	items       *node
	least, most int
}

type member struct {
	value    *node
	required bool
}

// words are texts of which one is to be read.
type words struct {
	sorted []string
	member []int // of each, if they are the keys of an object
}

// The types.
const (
	nothing = "null"
	boolean = "boolean"
	integer = "integer"
	number  = "number"
	text    = "string"
	object  = "object"
	array   = "array"
)

var allTypes = []string{object, array, text, number, boolean, nothing}

// compiler makes nodes of schemas.
type compiler struct {
	budget *budget.Budget
	root   map[string]json.RawMessage
	parts  map[string]map[string]json.RawMessage // members of parts of the schema, by reference
	known  map[string]*node                      // by reference
	all    []*node
	value  *node // any value
}

func newCompiler(ctx context.Context) *compiler {
	return &compiler{budget: budget.New(ctx, "reading the schema", compileSteps), parts: map[string]map[string]json.RawMessage{}, known: map[string]*node{}}
}

func (c *compiler) node() *node {
	n := &node{most: -1}
	c.all = append(c.all, n)
	return n
}

// unmarshal reads a part of a schema, and counts that: a part is read again with each one that it is in. The error is the budget's;
// ok reports whether the part has the form of to.
func (c *compiler) unmarshal(raw json.RawMessage, to any) (ok bool, err error) {
	if err := c.budget.Step(len(raw) / 16); err != nil {
		return false, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return json.Unmarshal(raw, to) == nil, nil
}

// path is the way to a part of a schema.
type path struct {
	outer *path
	name  string
	depth int
}

func (p *path) to(name string) *path { return &path{p, name, p.depth + 1} }

func (p *path) String() string {
	var names []string
	for ; p != nil; p = p.outer {
		names = append(names, p.name[:min(len(p.name), longestName)])
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// longestName is how many bytes of a name errors repeat.
const longestName = 100

// wrong is the error of a part of a schema.
func (p *path) wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %v: %w", ErrSchema, p, fmt.Errorf(format, args...))
}

// anything is the schema of all values.
func (c *compiler) anything() *node {
	if c.value == nil {
		c.value = c.node()
		c.value.types, c.value.items, c.value.values = allTypes, c.value, c.value
		c.value.keys(nil)
	}
	return c.value
}

// ignored are keywords that say nothing about values.
var ignored = []string{"title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "deprecated", "readOnly", "writeOnly"}

// supported are keywords that values follow.
var supported = []string{"type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "enum", "const", "anyOf", "$ref"}

// Limits of schemas.
const (
	mostBytes    = 1 << 20   // of the schema
	deepest      = 64        // names on the way to a part, without references
	mostNodes    = 10000     // parts
	mostTexts    = 1000      // values of an enum
	mostChoices  = 256       // of one value: anyOf with those that they contain
	compileSteps = 4_000_000 // see package budget
)

// compile makes the node of a schema; p leads to it, for errors.
func (c *compiler) compile(raw json.RawMessage, p *path) (*node, error) {
	if err := cmp.Or(budget.Size("the way to a part of the schema", p.depth, deepest, "names"), budget.Size("the schema", len(c.all)+1, mostNodes, "parts")); err != nil {
		return nil, p.wrong("%w", err)
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("true")) {
		return c.anything(), nil
	}
	var words map[string]json.RawMessage
	if ok, err := c.unmarshal(raw, &words); err != nil {
		return nil, err
	} else if !ok || words == nil {
		return nil, p.wrong("it is not an object")
	}
	for _, word := range ignored {
		delete(words, word)
	}
	if len(words) == 0 {
		return c.anything(), nil
	}
	for _, word := range slices.Sorted(maps.Keys(words)) {
		if !slices.Contains(supported, word) {
			return nil, p.wrong("%s is not supported", word[:min(len(word), longestName)])
		}
	}
	n := c.node()
	for word, parse := range map[string]func(raw json.RawMessage, p *path, n *node) error{"$ref": c.reference, "anyOf": c.choice, "enum": c.enum, "const": c.constant} {
		raw, ok := words[word]
		if !ok {
			continue
		}
		delete(words, word)
		if word == "enum" || word == "const" {
			delete(words, "type") // which those who write schemas add
		}
		for other := range words {
			return nil, p.wrong("%s beside %s is not supported", other, word)
		}
		return n, parse(raw, p.to(word), n)
	}
	if err := c.types(words, p, n); err != nil {
		return nil, err
	}
	for word := range words {
		return nil, p.wrong("%s is not for the types %v", word, n.types)
	}
	return n, nil
}

// types reads type, and the keywords of the types.
func (c *compiler) types(words map[string]json.RawMessage, p *path, n *node) error {
	raw, ok := words["type"]
	delete(words, "type")
	var one string
	switch {
	case !ok && words["properties"] != nil:
		n.types = []string{object}
	case !ok:
		return p.wrong("it has no type")
	case json.Unmarshal(raw, &one) == nil:
		n.types = []string{one}
	case json.Unmarshal(raw, &n.types) != nil || len(n.types) == 0:
		return p.to("type").wrong("it is neither a string nor a list of strings")
	}
	if err := budget.Size("the list", len(n.types), len(allTypes)+1, "types"); err != nil {
		return p.to("type").wrong("%w", err)
	}
	for _, t := range n.types {
		if t != integer && !slices.Contains(allTypes, t) {
			return p.to("type").wrong("there is no type %.100q", t)
		}
	}
	if slices.Contains(n.types, object) {
		if err := c.object(words, p, n); err != nil {
			return err
		}
	}
	if slices.Contains(n.types, array) {
		return c.array(words, p, n)
	}
	return nil
}

// object reads the keywords of objects. Those with properties have no others: a schema may allow them, but does
// not ask for any.
func (c *compiler) object(words map[string]json.RawMessage, p *path, n *node) error {
	var list []string
	if raw, ok := words["required"]; ok && json.Unmarshal(raw, &list) != nil {
		return p.to("required").wrong("it is not a list of strings")
	}
	names, values, err := c.members(words["properties"])
	if err != nil {
		return p.to("properties").wrong("%w", err)
	}
	required := map[string]bool{}
	for _, name := range list {
		required[name] = true
		if values[name] == nil {
			names, values[name] = append(names, name), json.RawMessage("true")
		}
	}
	for _, name := range names {
		value, err := c.compile(values[name], p.to("properties").to(name))
		if err != nil {
			return err
		}
		n.members = append(n.members, member{value, required[name]})
	}
	n.keys(names)
	more, ok := words["additionalProperties"]
	switch {
	case len(names) > 0 || string(bytes.TrimSpace(more)) == "false":
	case ok:
		n.values, err = c.compile(more, p.to("additionalProperties"))
	default:
		n.values = c.anything()
	}
	for _, word := range []string{"required", "properties", "additionalProperties"} {
		delete(words, word)
	}
	return err
}

// keys sorts the keys of the members.
func (n *node) keys(names []string) {
	n.names, n.next = &words{}, make([]int, len(names)+1)
	byKey := make(map[string]int, len(names))
	for i, name := range names {
		byKey[quoted(name)+":"] = i
	}
	n.names.sorted = slices.Sorted(maps.Keys(byKey))
	for _, key := range n.names.sorted {
		n.names.member = append(n.names.member, byKey[key])
	}
	n.next[len(names)] = len(names)
	for i := len(names) - 1; i >= 0; i-- {
		if n.next[i] = n.next[i+1]; n.members[i].required {
			n.next[i] = i
		}
	}
}

// members reads an object and keeps the order of its members.
func (c *compiler) members(raw json.RawMessage) (names []string, values map[string]json.RawMessage, err error) {
	values = map[string]json.RawMessage{}
	if raw == nil {
		return nil, values, nil
	}
	if err := c.budget.Step(len(raw) / 16); err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, errors.New("it is not an object")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		name := t.(string) // the decoder knows that it is a key
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		if values[name] == nil {
			names = append(names, name)
		}
		values[name] = value
	}
	return names, values, nil
}

// array reads the keywords of arrays.
func (c *compiler) array(words map[string]json.RawMessage, p *path, n *node) (err error) {
	n.items = c.anything()
	if raw, ok := words["items"]; ok {
		if n.items, err = c.compile(raw, p.to("items")); err != nil {
			return err
		}
	}
	for word, to := range map[string]*int{"minItems": &n.least, "maxItems": &n.most} {
		if raw, ok := words[word]; ok && (json.Unmarshal(raw, to) != nil || *to < 0) {
			return p.to(word).wrong("it is not a number of items")
		}
		delete(words, word)
	}
	if n.most >= 0 && n.most < n.least {
		return p.wrong("minItems is %d and maxItems %d", n.least, n.most)
	}
	delete(words, "items")
	return nil
}

// reference follows a reference to another part of the schema, which may contain this one.
func (c *compiler) reference(raw json.RawMessage, p *path, n *node) error {
	var to string
	if json.Unmarshal(raw, &to) != nil || to != "#" && !strings.HasPrefix(to, "#/") {
		return p.wrong("only references to parts of the schema are supported, such as #/$defs/name")
	}
	if known := c.known[to]; known != nil {
		n.any = []*node{known}
		return nil
	}
	c.known[to] = n
	found, err := c.find(to, p)
	if err != nil {
		return err
	}
	target, err := c.compile(found, &path{name: to})
	n.any = []*node{target}
	return err
}

// find returns the part of the schema that a reference leads to.
func (c *compiler) find(to string, p *path) (found json.RawMessage, err error) {
	if to == "#" {
		return json.Marshal(c.root)
	}
	part, names := c.root, strings.Split(to, "/")[1:]
	if err := budget.Size("the reference", len(names), deepest, "names"); err != nil {
		return nil, p.wrong("%w", err)
	}
	for i, name := range names {
		var ok bool
		if found, ok = part[unescape.Replace(name)]; !ok {
			return nil, p.wrong("there is no %.100s", to)
		}
		if i == len(names)-1 {
			return found, nil
		}
		at := strings.Join(names[:i+1], "/")
		if part, ok = c.parts[at]; !ok {
			if _, err := c.unmarshal(found, &part); err != nil { // what is not an object has no parts
				return nil, err
			}
			c.parts[at] = part
		}
	}
	return found, nil
}

// unescape reads the names of references.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// choice reads anyOf.
func (c *compiler) choice(raw json.RawMessage, p *path, n *node) error {
	var all []json.RawMessage
	if ok, err := c.unmarshal(raw, &all); err != nil {
		return err
	} else if !ok || len(all) == 0 {
		return p.wrong("it is not a list of schemas")
	}
	for i, one := range all {
		x, err := c.compile(one, p.to(strconv.Itoa(i)))
		if err != nil {
			return err
		}
		n.any = append(n.any, x)
	}
	return nil
}

// enum reads the values of enum.
func (c *compiler) enum(raw json.RawMessage, p *path, n *node) error {
	var all []json.RawMessage
	if ok, err := c.unmarshal(raw, &all); err != nil {
		return err
	} else if !ok || len(all) == 0 {
		return p.wrong("it is not a list of values")
	}
	if err := budget.Size("the list", len(all), mostTexts, "values"); err != nil {
		return p.wrong("%w", err)
	}
	n.texts = &words{}
	for _, one := range all {
		var b bytes.Buffer
		if err := json.Compact(&b, one); err != nil {
			return p.wrong("%w", err)
		}
		n.texts.sorted = append(n.texts.sorted, b.String())
	}
	slices.Sort(n.texts.sorted)
	n.texts.sorted = slices.Compact(n.texts.sorted)
	return nil
}

func (c *compiler) constant(raw json.RawMessage, p *path, n *node) error {
	return c.enum(slices.Concat([]byte("["), raw, []byte("]")), p, n)
}

// finish completes the nodes, and refuses a root whose every value contains another of it: no text of it would end.
func (c *compiler) finish(root *node) error {
	for _, n := range c.all {
		if err := c.gather(n); err != nil {
			return fmt.Errorf("%w: %w", ErrSchema, err)
		}
	}
	finite := map[*node]bool{}
	for more := true; more; {
		more = false
		for _, n := range slices.Backward(c.all) { // a part comes after the one that it is in
			if finite[n] {
				continue
			}
			if err := c.budget.Step(len(n.any) + len(n.members)); err != nil {
				return fmt.Errorf("%w: %w", ErrSchema, err)
			}
			if n.ends(finite) {
				finite[n], more = true, true
			}
		}
	}
	if !finite[root] {
		return fmt.Errorf("%w: a value of it would never end", ErrSchema)
	}
	return nil
}

// gather finds the leaves of a node.
func (c *compiler) gather(n *node) error {
	seen, left := map[*node]bool{n: true}, []*node{n}
	for len(left) > 0 {
		x := left[len(left)-1]
		left = left[:len(left)-1]
		if err := c.budget.Step(len(x.any)); err != nil {
			return err
		}
		if x.any == nil {
			n.leaves = append(n.leaves, x)
		}
		for _, y := range slices.Backward(x.any) {
			if !seen[y] {
				seen[y], left = true, append(left, y)
			}
		}
	}
	return budget.Size("a value", len(n.leaves), mostChoices, "choices")
}

// ends reports whether some value of the node ends, if those of finite do.
func (n *node) ends(finite map[*node]bool) bool {
	if n.texts != nil || slices.ContainsFunc(n.any, func(x *node) bool { return finite[x] }) {
		return true
	}
	return slices.ContainsFunc(n.types, func(t string) bool {
		switch t {
		case object:
			return !slices.ContainsFunc(n.members, func(m member) bool { return m.required && !finite[m.value] })
		case array:
			return n.least == 0 || finite[n.items]
		}
		return true
	})
}

// quoted is a string as JSON.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings can be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
