package schema

import (
	"slices"
	"strconv"
	"strings"
)

// part describes the value to be read next, and the rest after it: a stack. nil is the end of the text. Parts do not change,
// so that stacks share their ends.
type part struct {
	kind kind
	node *node
	text string // of a literal
	// n is the state of a string or number, the next member of an object, or the number of items of an array.
	n    int
	next *part
}

type kind uint8

const (
	literal kind = iota // text
	blank               // a space, or none
	value               // of node
	inside              // a string after its quote
	digits              // a number
	opened              // an object without members so far
	listed              // an object with members
	items               // an array
)

// read appends what is left after a byte to out: nothing if the byte is wrong, and several stacks if the schema
// leaves it open.
func (p *part) read(b byte, out []*part) []*part {
	if p == nil {
		return out
	}
	switch p.kind {
	case literal:
		switch {
		case p.text[0] != b:
			return out
		case len(p.text) == 1:
			return append(out, p.next)
		}
		return append(out, &part{kind: literal, text: p.text[1:], next: p.next})
	case blank:
		if b == ' ' {
			return append(out, p.next)
		}
		return p.next.read(b, out)
	case value:
		for _, n := range p.node.leaves {
			for _, x := range p.forms(n) {
				out = x.read(b, out)
			}
		}
		return out
	case inside:
		if n, ended, ok := inString(p.n, b); ended {
			out = append(out, p.next)
		} else if ok {
			out = append(out, p.at(n))
		}
		return out
	case digits:
		if n, ok := inNumber(p.n, b, p.node != nil); ok {
			out = append(out, p.at(n))
		}
		if numberEnds(p.n) {
			out = p.next.read(b, out)
		}
		return out
	case items:
		return p.item(b, out)
	}
	return p.member(b, out)
}

// at is the part in another state.
func (p *part) at(n int) *part {
	q := *p
	q.n = n
	return &q
}

// then is a literal before p.
func (p *part) then(text string) *part { return &part{kind: literal, text: text, next: p} }

// forms are those that a value of n can have in the place of p.
func (p *part) forms(n *node) (all []*part) {
	for _, s := range n.texts {
		all = append(all, p.next.then(s))
	}
	for _, t := range n.types {
		switch t {
		case nothing:
			all = append(all, p.next.then("null"))
		case boolean:
			all = append(all, p.next.then("true"), p.next.then("false"))
		case text:
			all = append(all, (&part{kind: inside, next: p.next}).then(`"`))
		case integer:
			all = append(all, &part{kind: digits, next: p.next})
		case number:
			all = append(all, &part{kind: digits, node: n, next: p.next}) // a node says that it may have a fraction
		case object:
			all = append(all, (&part{kind: opened, node: n, next: p.next}).then("{"))
		case array:
			all = append(all, (&part{kind: items, node: n, next: p.next}).then("["))
		}
	}
	return all
}

// member reads the end of an object, or its next member.
func (p *part) member(b byte, out []*part) []*part {
	n := p.node
	after := func(next int) *part { return &part{kind: listed, node: n, n: next, next: p.next} }
	add := func(key *part) {
		if p.kind == listed {
			key = (&part{kind: blank, next: key}).then(",")
		}
		out = key.read(b, out)
	}
	ends := true
	for i := p.n; i < len(n.members) && ends; i++ {
		m := n.members[i]
		add((&part{kind: blank, next: &part{kind: value, node: m.value, next: after(i + 1)}}).then(m.key + ":"))
		ends = !m.required
	}
	if n.values != nil {
		v := &part{kind: value, node: n.values, next: after(0)}
		add((&part{kind: inside, next: (&part{kind: blank, next: v}).then(":")}).then(`"`))
	}
	if ends && b == '}' {
		out = append(out, p.next)
	}
	return out
}

// item reads the end of an array, or its next item.
func (p *part) item(b byte, out []*part) []*part {
	n := p.node
	if p.n >= n.least && b == ']' {
		out = append(out, p.next)
	}
	if p.n == n.most {
		return out
	}
	count := p.n + 1
	if n.most < 0 { // there is no need to count on
		count = min(count, max(n.least, 1))
	}
	x := &part{kind: value, node: n.items, next: p.at(count)}
	if p.n > 0 {
		x = (&part{kind: blank, next: x}).then(",")
	}
	return x.read(b, out)
}

// ends reports whether the text may end here.
func (p *part) ends() bool {
	return p == nil || (p.kind == blank || p.kind == digits && numberEnds(p.n)) && p.next.ends()
}

// key identifies some stacks.
func key(all []*part) string {
	keys := make([]string, 0, len(all))
	for _, p := range all {
		var b []byte
		for ; p != nil; p = p.next {
			b = append(b, byte(p.kind))
			if p.node != nil {
				b = strconv.AppendInt(b, int64(p.node.id), 36)
			}
			b = append(strconv.AppendInt(append(b, '.'), int64(p.n), 36), p.text...)
			b = append(b, 0xff)
		}
		keys = append(keys, string(b))
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), "\xfe")
}

// mostStacks bounds the work for schemas of many choices. Each stack leads to right texts, so that any can be left out.
const mostStacks = 1000

// distinct removes stacks that say the same. Most texts leave one.
func distinct(all []*part) []*part {
	if len(all) < 2 {
		return all
	}
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(p *part) bool {
		k := key([]*part{p})
		again := seen[k]
		seen[k] = true
		return again
	})
	return all[:min(len(all), mostStacks)]
}
