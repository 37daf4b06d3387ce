package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrSchema is the error of schemas that are wrong, or use keywords that the package does not follow.
var ErrSchema = errors.New("schema")

// node is a schema that values follow: one of some others, one of some texts, or a value of some types.
type node struct {
	id     int
	any    []*node
	leaves []*node // those in any, and in theirs, that are no choices
	texts  []string
	types  []string
	// Of objects: members in their order; or values of members with any name, nil for none.
	members []member
	values  *node
	// Of arrays: most is negative if there is no bound.
	items       *node
	least, most int
}

type member struct {
	key      string // as JSON
	value    *node
	required bool
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
	root  map[string]json.RawMessage
	known map[string]*node // by reference
	all   []*node
	value *node // any value
}

func (c *compiler) node() *node {
	n := &node{id: len(c.all), most: -1}
	c.all = append(c.all, n)
	return n
}

// anything is the schema of all values.
func (c *compiler) anything() *node {
	if c.value == nil {
		c.value = c.node()
		c.value.types, c.value.items, c.value.values = allTypes, c.value, c.value
	}
	return c.value
}

// ignored are keywords that say nothing about values.
var ignored = []string{"title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "deprecated", "readOnly", "writeOnly"}

// supported are keywords that values follow.
var supported = []string{"type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "enum", "const", "anyOf", "$ref"}

// Limits of schemas: names on the way to a part, without references; parts; and values of an enum.
const deepest, mostNodes, mostTexts = 64, 10000, 1000

// compile makes the node of a schema; path leads to it, for errors.
func (c *compiler) compile(raw json.RawMessage, path string) (*node, error) {
	refuse := func(format string, args ...any) (*node, error) {
		return nil, fmt.Errorf("%w: %s: %s", ErrSchema, path, fmt.Sprintf(format, args...))
	}
	if strings.Count(path, "/") > deepest || len(c.all) > mostNodes {
		return refuse("the schema is deeper than %d or has more than %d parts", deepest, mostNodes)
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("true")) {
		return c.anything(), nil
	}
	var words map[string]json.RawMessage
	if err := json.Unmarshal(raw, &words); err != nil || words == nil {
		return refuse("it is not an object")
	}
	for _, word := range ignored {
		delete(words, word)
	}
	if len(words) == 0 {
		return c.anything(), nil
	}
	for _, word := range slices.Sorted(maps.Keys(words)) {
		if !slices.Contains(supported, word) {
			return refuse("%s is not supported", word)
		}
	}
	n := c.node()
	for word, parse := range map[string]func(raw json.RawMessage, path string, n *node) error{"$ref": c.reference, "anyOf": c.choice, "enum": c.enum, "const": c.constant} {
		raw, ok := words[word]
		if !ok {
			continue
		}
		delete(words, word)
		if word == "enum" || word == "const" {
			delete(words, "type") // which those who write schemas add
		}
		for other := range words {
			return refuse("%s beside %s is not supported", other, word)
		}
		return n, parse(raw, path+"/"+word, n)
	}
	if err := c.types(words, path, n); err != nil {
		return nil, err
	}
	for word := range words {
		return refuse("%s is not for the types %v", word, n.types)
	}
	return n, nil
}

// types reads type, and the keywords of the types.
func (c *compiler) types(words map[string]json.RawMessage, path string, n *node) error {
	raw, ok := words["type"]
	delete(words, "type")
	var one string
	switch {
	case !ok && words["properties"] != nil:
		n.types = []string{object}
	case !ok:
		return fmt.Errorf("%w: %s: it has no type", ErrSchema, path)
	case json.Unmarshal(raw, &one) == nil:
		n.types = []string{one}
	case json.Unmarshal(raw, &n.types) != nil || len(n.types) == 0:
		return fmt.Errorf("%w: %s/type: it is neither a string nor a list of strings", ErrSchema, path)
	}
	for _, t := range n.types {
		if t != integer && !slices.Contains(allTypes, t) {
			return fmt.Errorf("%w: %s/type: there is no type %q", ErrSchema, path, t)
		}
	}
	if slices.Contains(n.types, object) {
		if err := c.object(words, path, n); err != nil {
			return err
		}
	}
	if slices.Contains(n.types, array) {
		return c.array(words, path, n)
	}
	return nil
}

// object reads the keywords of objects. Those with properties have no others: a schema may allow them, but does
// not ask for any.
func (c *compiler) object(words map[string]json.RawMessage, path string, n *node) error {
	var required []string
	if raw, ok := words["required"]; ok && json.Unmarshal(raw, &required) != nil {
		return fmt.Errorf("%w: %s/required: it is not a list of strings", ErrSchema, path)
	}
	names, values, err := members(words["properties"])
	if err != nil {
		return fmt.Errorf("%w: %s/properties: %w", ErrSchema, path, err)
	}
	for _, name := range required {
		if values[name] == nil {
			names, values[name] = append(names, name), json.RawMessage("true")
		}
	}
	for _, name := range names {
		value, err := c.compile(values[name], path+"/properties/"+name)
		if err != nil {
			return err
		}
		n.members = append(n.members, member{quoted(name), value, slices.Contains(required, name)})
	}
	more, ok := words["additionalProperties"]
	switch {
	case len(names) > 0 || string(bytes.TrimSpace(more)) == "false":
	case ok:
		n.values, err = c.compile(more, path+"/additionalProperties")
	default:
		n.values = c.anything()
	}
	for _, word := range []string{"required", "properties", "additionalProperties"} {
		delete(words, word)
	}
	return err
}

// members reads an object and keeps the order of its members.
func members(raw json.RawMessage) (names []string, values map[string]json.RawMessage, err error) {
	values = map[string]json.RawMessage{}
	if raw == nil {
		return nil, values, nil
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
func (c *compiler) array(words map[string]json.RawMessage, path string, n *node) (err error) {
	n.items = c.anything()
	if raw, ok := words["items"]; ok {
		if n.items, err = c.compile(raw, path+"/items"); err != nil {
			return err
		}
	}
	for word, to := range map[string]*int{"minItems": &n.least, "maxItems": &n.most} {
		if raw, ok := words[word]; ok && (json.Unmarshal(raw, to) != nil || *to < 0) {
			return fmt.Errorf("%w: %s/%s: it is not a number of items", ErrSchema, path, word)
		}
		delete(words, word)
	}
	if n.most >= 0 && n.most < n.least {
		return fmt.Errorf("%w: %s: minItems is %d and maxItems %d", ErrSchema, path, n.least, n.most)
	}
	delete(words, "items")
	return nil
}

// reference follows a reference to another part of the schema, which may contain this one.
func (c *compiler) reference(raw json.RawMessage, path string, n *node) error {
	var to string
	if json.Unmarshal(raw, &to) != nil || to != "#" && !strings.HasPrefix(to, "#/") {
		return fmt.Errorf("%w: %s: only references to parts of the schema are supported, such as #/$defs/name", ErrSchema, path)
	}
	if known := c.known[to]; known != nil {
		n.any = []*node{known}
		return nil
	}
	c.known[to] = n
	part := c.root
	var found json.RawMessage
	for _, name := range strings.Split(to, "/")[1:] {
		var ok bool
		if found, ok = part[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]; !ok {
			return fmt.Errorf("%w: %s: there is no %s", ErrSchema, path, to)
		}
		part = nil
		_ = json.Unmarshal(found, &part) // what is not an object has no parts
	}
	if to == "#" {
		var err error
		if found, err = json.Marshal(c.root); err != nil {
			return err
		}
	}
	target, err := c.compile(found, to)
	n.any = []*node{target}
	return err
}

// choice reads anyOf.
func (c *compiler) choice(raw json.RawMessage, path string, n *node) error {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil || len(all) == 0 {
		return fmt.Errorf("%w: %s: it is not a list of schemas", ErrSchema, path)
	}
	for i, one := range all {
		x, err := c.compile(one, fmt.Sprintf("%s/%d", path, i))
		if err != nil {
			return err
		}
		n.any = append(n.any, x)
	}
	return nil
}

// enum reads the values of enum.
func (c *compiler) enum(raw json.RawMessage, path string, n *node) error {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil || len(all) == 0 {
		return fmt.Errorf("%w: %s: it is not a list of values", ErrSchema, path)
	}
	if len(all) > mostTexts {
		return fmt.Errorf("%w: %s: there are more than %d values", ErrSchema, path, mostTexts)
	}
	for _, one := range all {
		if err := c.constant(one, path, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) constant(raw json.RawMessage, path string, n *node) error {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrSchema, path, err)
	}
	n.texts = append(n.texts, b.String())
	return nil
}

// finish completes the nodes, and refuses a root whose every value contains another of it: no text of it would end.
func (c *compiler) finish(root *node) error {
	for _, n := range c.all {
		n.gather(n, map[*node]bool{})
	}
	finite := map[*node]bool{}
	for more := true; more; {
		more = false
		for _, n := range c.all {
			if !finite[n] && n.ends(finite) {
				finite[n], more = true, true
			}
		}
	}
	if !finite[root] {
		return fmt.Errorf("%w: a value of it would never end", ErrSchema)
	}
	return nil
}

// gather adds the leaves of x to those of n.
func (n *node) gather(x *node, seen map[*node]bool) {
	if seen[x] {
		return
	}
	seen[x] = true
	for _, y := range x.any {
		n.gather(y, seen)
	}
	if x.any == nil {
		n.leaves = append(n.leaves, x)
	}
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
