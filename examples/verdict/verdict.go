package verdict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/goascend/cann/examples/budget"
)

// Kind says how a reader treats a key: honours, ignores or refuses it, or warns of it.
type Kind int

// Verdicts.
const (
	Refused  Kind = iota // ends the reading, except at neutral values
	Warned               // is not followed where the reference follows it: a line says so, except at neutral values
	Harmless             // changes no result
	Honoured             // is followed
)

// String is the word of the documentation.
func (k Kind) String() string {
	return [...]string{"refused", "warning", "without effect", "honoured"}[k]
}

// Key is a key and what becomes of it. The zero Kind refuses it.
type Key struct {
	Name string // path from the top, with dots
	Kind Kind
	// Why says what an honoured key means, why another has no effect, or what is missing for a refused one.
	Why string
	// Neutral are the values, as JSON, at which a refused key or one with a warning asks for nothing. null always is.
	Neutral []string
}

// Honour is a key that the reader follows.
func Honour(name, meaning string) Key { return Key{Name: name, Kind: Honoured, Why: meaning} }

// NoEffect is a key that changes no result.
func NoEffect(name, why string) Key { return Key{Name: name, Kind: Harmless, Why: why} }

// Refuse is a key that may only have neutral values.
func Refuse(name, why string, neutral ...string) Key {
	return Key{Name: name, Kind: Refused, Why: why, Neutral: neutral}
}

// Warn is a key that is not followed, which a warning says unless its value is neutral.
func Warn(name, why string, neutral ...string) Key {
	return Key{Name: name, Kind: Warned, Why: why, Neutral: neutral}
}

// Each gives several keys the same verdict: each name, separated by spaces, takes the place of of.Name.
func Each(names string, of Key) (keys []Key) {
	for name := range strings.FieldsSeq(names) {
		of.Name = name
		keys = append(keys, of)
	}
	return keys
}

// Table has the verdicts of a format.
type Table struct {
	Format string // name of the file
	Keys   []Key
	// Unknown is the treatment of keys that are not on the table: Refused, or Warned where the reference ignores
	// them too.
	Unknown Kind
}

// Refusal is the error of a key, or of a key's value, that is refused, or a warning of one that is not followed.
type Refusal struct {
	Format, Key string
	Value       string // as JSON, shortened
	Why         string
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: %s is %s: %s", r.Format, r.Key, r.Value, r.Why)
}

// Decode checks every key of a text and then decodes it into the values of to. It returns a line for each key with
// a warning. The error of a refused key is a *Refusal; that of several joins them. A key that an object has twice is refused.
func (t Table) Decode(text []byte, to ...any) (warnings []string, err error) {
	left, err := t.Check(text)
	if err != nil {
		return nil, err
	}
	for _, v := range to {
		if err := json.Unmarshal(text, v); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Format, err)
		}
	}
	for _, l := range left {
		warnings = append(warnings, l.Error())
	}
	return warnings, nil
}

// Check is Decode into no value. It returns the keys with a warning.
func (t Table) Check(text []byte) (warnings []*Refusal, err error) {
	return t.Index().CheckIn("", text)
}

// Index is a table that checks many texts: it finds the verdict of a key at once. It is safe for concurrent use.
type Index struct {
	table  Table
	keys   map[string]Key
	inner  map[string]bool   // names with keys inside
	folded map[string]string // all names, by what they are to encoding/json, which does not distinguish upper and lower case
}

// Index prepares a table for many texts.
func (t Table) Index() *Index {
	x := &Index{table: t, keys: map[string]Key{}, inner: map[string]bool{}, folded: map[string]string{}}
	for _, k := range t.Keys {
		x.keys[k.Name] = k
		x.folded[fold(k.Name)] = k.Name
		for at, r := range k.Name {
			if r == '.' {
				x.inner[k.Name[:at]] = true
				x.folded[fold(k.Name[:at])] = k.Name[:at]
			}
		}
	}
	return x
}

// fold gives names that strings.EqualFold finds equal the same text: of each character the smallest of those that differ from it in their case only.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// CheckIn is Table.Check of an object inside of another one: what is reported of a key has its name behind a path, which may be empty.
func (x *Index) CheckIn(path string, text []byte) (warnings []*Refusal, err error) {
	c, t := check{Index: x}, x.table
	for _, known := range []struct{ begin, what string }{
		{"version https://git-lfs", "it is a pointer of Git LFS, not the file itself: run git lfs pull, or download the file"},
		{"<", "it is a page of HTML or XML, not JSON: the download was refused, or needs a log-in"},
	} {
		if bytes.HasPrefix(bytes.TrimSpace(text), []byte(known.begin)) {
			return nil, fmt.Errorf("%s: %s", t.Format, known.what)
		}
	}
	if kind(text) == '[' {
		return nil, fmt.Errorf("%s: it is a JSON array, not an object", t.Format)
	}
	if err := c.object(place{shown: path}, text); err != nil {
		return nil, errors.Join(append(c.refused[:min(len(c.refused), shownLines)], fmt.Errorf("%s: %w", t.Format, err))...)
	}
	if err := errors.Join(c.refused...); err != nil {
		return nil, err
	}
	return c.warnings, nil
}

// check is one reading of a text.
type check struct {
	*Index
	read     int // keys so far
	warnings []*Refusal
	refused  []error
}

// place says where in a text an object stands, as a prefix of its keys' names. The prefix name finds keys in the table; shown is for messages, in which
// [] follows the name of a list.
type place struct{ name, shown string }

// in is the place of a key of the object.
func (p place) in(key string) place { return place{p.name + key, p.shown + key} }

// object checks the keys of an object. Its error is of the JSON.
func (c *check) object(at place, text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(errors.New("it is no JSON object"), err)
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		var value inPlace
		if err := d.Decode(&value); err != nil {
			return err
		}
		key, _ := token.(string)
		if seen[key] {
			return fmt.Errorf("an object has the key %q twice", short(at.shown+key))
		}
		seen[key] = true
		if err := c.value(at.in(key), value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("there is %.20q after the object", rest)
	}
	return nil
}

// inPlace is a value that is not copied: it lies in the memory of a decoder until that goes on.
type inPlace []byte

func (v *inPlace) UnmarshalJSON(text []byte) error {
	*v = text
	return nil
}

// value checks the value of a key.
func (c *check) value(at place, value []byte) error {
	c.read++
	if err := budget.Size("the file", c.read, mostKeys, "keys"); err != nil {
		return err
	}
	k := kind(value)
	if (k == '-' || '0' <= k && k <= '9') && len(value) > longestNumber {
		return fmt.Errorf("%s is a number of %d characters", short(at.shown), len(value))
	}
	switch inner := c.inner[at.name]; {
	case inner && k == '{':
		return c.object(at.in("."), value)
	case inner && k == '[':
		return c.array(at, value)
	}
	c.judge(at, value)
	if err := budget.Size("the list of refusals and warnings", len(c.refused)+len(c.warnings), mostLines, "lines"); err != nil {
		return err
	}
	return nil
}

const (
	// mostKeys bounds the keys of a file that have verdicts, and longestNumber the bytes of a number.
	mostKeys, longestNumber = 20_000, 1000
	// mostObjects is the number of objects in an array.
	mostObjects = 100_000
	// mostLines is how many refusals and warnings there may be, and shownLines how many of the former the error of a text has that ends early.
	mostLines, shownLines = 1000, 10
	// longestNeutral is the length of a value that may be equal to a neutral one, in bytes.
	longestNeutral = 1000
)

// array checks the objects of an array, of which there may be very many.
func (c *check) array(at place, text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	for n := 1; d.More(); n++ { // one is in memory at a time
		if err := budget.Size(short(at.shown), n, mostObjects, "objects"); err != nil {
			return err
		}
		var one inPlace
		if err := d.Decode(&one); err != nil {
			return err
		}
		if string(one) == "null" {
			continue
		}
		if err := c.object(place{at.name + ".", at.shown + "[]."}, one); err != nil {
			return fmt.Errorf("element %d of %s: %w", n-1, short(at.shown), err)
		}
	}
	return nil
}

// kind is the first byte of a value.
func kind(value []byte) byte {
	if value = bytes.TrimSpace(value); len(value) > 0 {
		return value[0]
	}
	return 0
}

// judge applies the verdict of a key to its value.
func (c *check) judge(at place, value []byte) {
	k, known := c.keys[at.name]
	twin := ""
	if !known && !c.inner[at.name] {
		k = Key{Kind: c.table.Unknown, Why: "this key is not known"}
		if twin = c.folded[fold(at.name)]; twin != "" { // encoding/json would read it as that key, of which null takes the value away
			k = Key{Why: "this key is not known, and differs from " + twin + " only in its case"}
		}
	} else if !known {
		k = Key{Kind: c.table.Unknown, Why: "this key is not known as one value: it is an object"}
	}
	if twin == "" && (k.Kind == Honoured || k.Kind == Harmless || neutral(value, k.Neutral)) {
		return
	}
	r := &Refusal{Format: c.table.Format, Key: short(at.shown), Value: short(compact(value)), Why: k.Why}
	if k.Kind == Warned {
		c.warnings = append(c.warnings, r)
	} else {
		c.refused = append(c.refused, r)
	}
}

// neutral reports whether a value is null, or equal to one of a list.
func neutral(value []byte, list []string) bool {
	var v any
	if len(value) > longestNeutral || json.Unmarshal(value, &v) != nil {
		return false
	}
	for _, one := range list {
		var n any
		if json.Unmarshal([]byte(one), &n) == nil && reflect.DeepEqual(v, n) {
			return true
		}
	}
	return v == nil
}

// short is the begin of a name or a value, for people.
func short(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}

// compact is a value in one line.
func compact(value []byte) string {
	var line bytes.Buffer
	if json.Compact(&line, value) != nil {
		return ""
	}
	return line.String()
}

// Markdown is the table for the documentation: a row for each key.
func (t Table) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | verdict | meaning or reason |\n|---|---|---|\n", t.Format)
	for _, k := range t.Keys {
		verdict := k.Kind.String()
		if len(k.Neutral) > 0 {
			verdict += ", except `" + strings.Join(k.Neutral, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, verdict, strings.ReplaceAll(k.Why, "|", `\|`))
	}
	fmt.Fprintf(&b, "| any other | %s | |\n", t.Unknown)
	return b.String()
}
